"""One caller's tool calls, over a connection that reconnects when the stack's address changes.

Error results are raised as the exceptions of their codes, and data is converted to Structs. Topics
are read and written by their keys: `await memory.topics["user.name"]`.
"""

import asyncio
import json
from collections.abc import Coroutine, Generator
from contextlib import AsyncExitStack
from typing import Any, Self, TypeVar

import msgspec

from local2.bus.connection import Connection
from local2.bus.identity import bearer
from local2.bus.streams import publish_durably
from local2.client.access import ask, await_while_connected, connected
from local2.client.embedded import ensure_stack, is_elsewhere
from local2.client.tools import ask_tool
from local2.errors import (
    BusError,
    InvalidArgumentsError,
    StackNotRunningError,
    ToolFailedError,
    UnknownToolError,
    error_from_code,
    quoted,
)
from local2.home import running_url
from local2.protocol import subjects
from local2.protocol.envelope import Sender, encode, seal_from
from local2.protocol.memory_tools import (
    FORGET,
    MEMORY_HISTORY,
    RECALL_TOPIC,
    SAVE_TOPIC,
    A,
    D,
    Forget,
    MemoryHistory,
    MemoryTool,
    RecallTopic,
    Receipt,
    SavedTopic,
    SaveTopic,
    Version,
)
from local2.protocol.payloads import Feedback, Json, ToolResult
from local2.settings import Settings
from local2.tenants.credentials import OwnTokens

ERASURE_TIMEOUT = 3600.0
"""Seconds that an erasure may take: erasing a million records takes minutes."""
BINARY = (bytes, bytearray, memoryview)
_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
T = TypeVar("T")


def check_named(**who: str | None) -> None:
    """Raise InvalidArgumentsError for a user, agent or session that is given but blank."""
    for field, name in who.items():
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise InvalidArgumentsError(
                f"{field}: expected a name, got {name!r}.", remedy="Leave it out if there is none."
            )


def encoded(args: Json) -> Json:
    """Return each argument as strict JSON; msgspec would turn bytes into base64 and NaN into null.

    Raises:
        InvalidArgumentsError: An argument cannot be represented in JSON.
    """
    return {name: _encoded(name, value) for name, value in args.items()}


def _encoded(name: str, value: Any) -> msgspec.Raw:
    try:
        plain = msgspec.to_builtins(value, builtin_types=BINARY)
        return msgspec.Raw(_json.encode(plain).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentsError(f"{name} cannot be sent as JSON: {error}.") from error


class StackConnection:
    """A connection to the stack that the settings name, bound to the current event loop.

    It is open while its context lasts.
    """

    def __init__(self, settings: Settings, *, name: str, user: str | None = None) -> None:
        self._settings = settings
        self._name = name
        self._user = user
        self._opening = asyncio.Lock()
        self._connection = AsyncExitStack()
        self._bus: Connection | None = None
        self._url = ""
        self._closed = False
        self.tokens = OwnTokens(settings.bus)
        self.can_name_users = not (settings.bus.credentials or settings.bus.token)
        """Whether a request may name any user: the stack has no accounts, or this client can make
        the user's token."""
        self.loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        await self.bus()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        await self._connection.aclose()

    async def bus(self) -> Connection:
        """Return the connection. A lost one reconnects by itself while the address is the same.

        If no stack runs, start one, unless the settings name a stack elsewhere.

        Raises:
            StackNotRunningError: No stack runs or starts, or it does not answer.
            ForbiddenError: The stack refuses the credentials.
            ConfigError: The credentials cannot be read.
            BusError: The context has ended, or this is another event loop.
        """
        self._check_usable()
        if self._bus is not None and not self._bus.lost.is_set():
            return self._bus
        async with self._opening:
            if not is_elsewhere(self._settings.bus):
                await ensure_stack(self._settings)
            url = running_url(self._settings)
            if self._bus is None or url != self._url:
                self._bus = await self._reconnect()
                self._url = url
            return self._bus

    async def has_ended(self) -> bool:
        """Return whether the stack has ended and no other one has started yet.

        Neither its bus server nor its process id shows this: the server outlives the stack briefly,
        and a killed process exists until it is reaped.
        """
        if is_elsewhere(self._settings.bus) or self._bus is None:
            return False
        try:
            await self._bus.request(subjects.MEMORY_READY, b"")
        except BusError:
            return True
        return False

    def _check_usable(self) -> None:
        if self._closed:
            raise BusError(
                "This memory is closed: the context that opened it has ended.",
                remedy="Use it inside `async with local2.connect(…)`.",
            )
        if asyncio.get_running_loop() is not self.loop:
            raise BusError(
                "This memory was opened in another event loop, and works only in that one.",
                remedy="Open one in each loop, or call this one with "
                "`asyncio.run_coroutine_threadsafe(…, memory.loop)`.",
            )

    async def _reconnect(self) -> Connection:
        await self._connection.aclose()
        self._bus = None
        return await self._connection.enter_async_context(
            connected(self._settings, name=self._name, user=self._user)
        )


async def _await_answer(bus: Connection, work: Coroutine[Any, Any, T]) -> T:
    """Await work over the bus until the connection is lost; during a reconnect, wait for it."""
    return await (work if bus.lost.is_set() else await_while_connected(bus, work))


class Calls:
    """The calls of one `caller` over one connection, each limited to `timeout` seconds."""

    def __init__(self, stack: StackConnection, caller: Sender, timeout: float) -> None:
        self.caller = caller
        self._stack = stack
        self._timeout = timeout

    def of(self, **named: str | None) -> "Calls":
        """Return calls for the caller with these fields replaced, over the same connection."""
        given = {name: value for name, value in named.items() if value is not None}
        caller = msgspec.structs.replace(self.caller, **given)
        return Calls(self._stack, caller, self._timeout)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that calls must run in."""
        return self._stack.loop

    def can_act_as(self, user: str) -> bool:
        """Return whether a request may name this user without the user's token."""
        return user == self.caller.user or self._stack.can_name_users

    async def bus(self) -> Connection:
        return await self._stack.bus()

    async def caller_with_token(self) -> Sender:
        """Return the caller, with a token if this client has one or can make one."""
        token = self.caller.token or await self._stack.tokens.token_for(self.caller.user)
        return msgspec.structs.replace(self.caller, token=token)

    async def request(self, subject: str, payload: msgspec.Struct, into: type[T]) -> T:
        """Send a request to a service of the memory that is not a tool.

        Raises:
            Local2Error: The service refused it, or could not be reached.
        """
        caller = await self.caller_with_token()
        bus = await self.bus()
        return await _await_answer(
            bus, ask(bus, subject, payload, into, caller, timeout=self._timeout)
        )

    async def call(self, tool: str, args: Json, within: float | None = None) -> ToolResult:
        """Call a tool.

        Raises:
            Local2Error: The tool failed or could not be reached; the error code decides the class.
        """
        encoded_args = encoded(args)
        seconds = self._timeout if within is None else within
        caller = await self.caller_with_token()
        bus = await self.bus()
        try:
            result = await _await_answer(
                bus, ask_tool(bus, tool, encoded_args, caller=caller, timeout=seconds)
            )
        except UnknownToolError as error:
            if not await self._stack.has_ended():
                raise
            raise StackNotRunningError(
                "The stack has just ended.", remedy="Ask again: another stack is started then."
            ) from error
        if result.error is not None:
            raise error_from_code(result.error.code, result.error.message, result.error.retry_after)
        if not result.ok:
            raise ToolFailedError(result.content)
        return result

    async def ask(self, tool: MemoryTool[A, D], arguments: A, *, within: float | None = None) -> D:
        """Return the answer of one of the memory's tools.

        Raises what `call` raises.
        """
        result = await self.call(tool.name, arguments.given(), within)
        try:
            return msgspec.convert(result.data, tool.answer)
        except msgspec.ValidationError as error:
            raise ToolFailedError(
                f"The tool {quoted(tool.name)} returned data of another form: {error}.",
                remedy="Use a client of the same version as the stack.",
            ) from error

    async def rate(self, rating: Feedback) -> None:
        """Publish a rating, and return once JetStream has stored it."""
        caller = await self.caller_with_token()
        turn = {"session_id": rating.session_id or caller.session_id, "query_id": rating.query_id}
        message = seal_from(msgspec.structs.replace(caller, **turn), rating, type="feedback")
        await publish_durably(
            await self.bus(),
            subjects.RESPONSE_FEEDBACK,
            encode(message),
            headers=bearer(caller.token),
        )

    async def forget(self, chosen: Forget) -> Receipt:
        """Erase what is chosen."""
        return await self.ask(FORGET, chosen, within=max(ERASURE_TIMEOUT, self._timeout))


class Topics:
    """The topics of a memory, by their keys."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def __getitem__(self, key: str) -> "Topic":
        return Topic(self._calls, key)


class Topic:
    """A topic. Awaiting it returns its value, or None."""

    def __init__(self, calls: Calls, key: str) -> None:
        self._calls = calls
        self.key = key

    def __await__(self) -> Generator[Any, None, str | None]:
        return self._value().__await__()

    async def _value(self) -> str | None:
        return (await self._calls.ask(RECALL_TOPIC, RecallTopic(topic=self.key))).content

    async def set(self, value: str) -> SavedTopic:
        """Replace the value; the former one stays in the history."""
        return await self._calls.ask(SAVE_TOPIC, SaveTopic(topic=self.key, content=value))

    async def history(self) -> list[Version]:
        """Return every version, newest first."""
        found = await self._calls.ask(MEMORY_HISTORY, MemoryHistory(topic_or_id=self.key))
        return found.versions

    async def delete(self) -> Receipt:
        """Erase the topic for good, with all its versions."""
        return await self._calls.forget(Forget(topic=self.key))
