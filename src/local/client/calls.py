"""One caller's calls of tools, over a connection that follows the stack to another address.

An error is raised as the exception of its code, and data is typed. Standing facts are read and
written by their keys: `await memory.topics["user.name"]`.
"""

import asyncio
import json
from collections.abc import Generator
from contextlib import AsyncExitStack
from typing import Any, Self, TypeVar

import msgspec

from local.bus.connection import Connection
from local.bus.identity import bearer
from local.bus.streams import publish_durably
from local.client.access import ask, connected, ending_with
from local.client.embedded import ensure_stack, is_elsewhere
from local.client.tools import ask_tool
from local.errors import (
    BusError,
    InvalidArgumentsError,
    StackNotRunningError,
    ToolFailedError,
    UnknownToolError,
    error_of,
    quoted,
)
from local.home import running_url
from local.protocol import subjects
from local.protocol.answers import RecalledTopic, Receipt, SavedTopic
from local.protocol.envelope import Sender, encode, seal_from
from local.protocol.memories import Version, Versions
from local.protocol.payloads import Feedback, Json, ToolResult
from local.settings import Settings
from local.tenants.credentials import OwnTokens

ERASING = 3600.0
"""Seconds for an erasure: of a million records it takes minutes."""
BINARY = (bytes, bytearray, memoryview)
_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
T = TypeVar("T")


def check_named(**who: str | None) -> None:
    """Raise InvalidArgumentsError if a user, an agent or a session is given but blank."""
    for field, name in who.items():
        if name is not None and (not isinstance(name, str) or not name.strip()):
            raise InvalidArgumentsError(
                f"{field}: expected a name, got {name!r}.", remedy="Leave it out if there is none."
            )


def encoded(args: Json) -> Json:
    """Return each argument as strict JSON: msgspec would make base64 of bytes, and null of NaN.

    Raises:
        InvalidArgumentsError: One of them is no JSON.
    """
    return {name: _encoded(name, value) for name, value in args.items()}


def _encoded(name: str, value: Any) -> msgspec.Raw:
    try:
        plain = msgspec.to_builtins(value, builtin_types=BINARY)
        return msgspec.Raw(_json.encode(plain).encode())
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidArgumentsError(f"{name} cannot be sent as JSON: {error}.") from error


class Following:
    """A connection to the stack of some settings, while its context lasts, in the current loop."""

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
        self.believed = not (settings.bus.credentials or settings.bus.token)
        """Whether the user is the one that a request names, or a token can be made here."""
        self.loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        await self.bus()
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closed = True
        await self._connection.aclose()

    async def bus(self) -> Connection:
        """Return the connection. A lost one reconnects by itself if the address is the same.

        Where no stack runs, one is started, unless the settings name one elsewhere.

        Raises:
            StackNotRunningError: None runs or starts, or it does not answer.
            ForbiddenError: It refuses the credentials.
            ConfigError: The credentials cannot be read.
            BusError: The context has ended, or this is another loop.
        """
        self._check_usable()
        if self._bus is not None and not self._bus.lost.is_set():
            return self._bus
        async with self._opening:
            if not is_elsewhere(self._settings.bus):
                await ensure_stack(self._settings)
            url = running_url(self._settings)
            if self._bus is None or url != self._url:
                self._bus = await self._opened()
                self._url = url
            return self._bus

    async def has_ended(self) -> bool:
        """Return whether the stack has ended, and another one has not started yet.

        Its server outlives it by a moment, and a killed process exists until it is reaped.
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
                remedy="Use it inside of `async with local2.connect(…)`.",
            )
        if asyncio.get_running_loop() is not self.loop:
            raise BusError(
                "This memory was opened in another event loop, and works in that one only.",
                remedy="Open one in each loop, or call it with "
                "`asyncio.run_coroutine_threadsafe(…, memory.loop)`.",
            )

    async def _opened(self) -> Connection:
        await self._connection.aclose()
        self._bus = None
        return await self._connection.enter_async_context(
            connected(self._settings, name=self._name, user=self._user)
        )


class Calls:
    """Calls of `caller` over one connection, each within `timeout` seconds."""

    def __init__(self, following: Following, caller: Sender, timeout: float) -> None:
        self.caller = caller
        self._following = following
        self._timeout = timeout

    def of(self, **named: str | None) -> "Calls":
        """Return the calls of a caller that differs in these fields, over the same connection."""
        given = {name: value for name, value in named.items() if value is not None}
        caller = msgspec.structs.replace(self.caller, **given)
        return Calls(self._following, caller, self._timeout)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The only loop in which calls are possible."""
        return self._following.loop

    def may_be(self, user: str) -> bool:
        """Return whether a request may name the user without a token of that user."""
        return user == self.caller.user or self._following.believed

    async def bus(self) -> Connection:
        return await self._following.bus()

    async def proven(self) -> Sender:
        """Return the caller, with a token where one can be made here."""
        token = self.caller.token or await self._following.tokens.of(self.caller.user)
        return msgspec.structs.replace(self.caller, token=token)

    async def request(self, subject: str, payload: msgspec.Struct, into: type[T]) -> T:
        """Ask a service of the memory that is no tool.

        Raises:
            Local2Error: It refused, or could not be reached.
        """
        caller = await self.proven()
        bus = await self.bus()
        return await ending_with(
            bus, ask(bus, subject, payload, into, caller, timeout=self._timeout)
        )

    async def call(self, tool: str, args: Json, within: float | None = None) -> ToolResult:
        """Call a tool.

        Raises:
            Local2Error: It failed, or could not be reached; the class is that of the code.
        """
        sent = encoded(args)
        seconds = self._timeout if within is None else within
        caller = await self.proven()
        bus = await self.bus()
        try:
            result = await ending_with(
                bus, ask_tool(bus, tool, sent, caller=caller, timeout=seconds)
            )
        except UnknownToolError as error:
            if not await self._following.has_ended():
                raise
            raise StackNotRunningError(
                "The stack has just ended.", remedy="Ask again: another one is started."
            ) from error
        if result.error is not None:
            raise error_of(result.error.code, result.error.message, result.error.retry_after)
        if not result.ok:
            raise ToolFailedError(result.content)
        return result

    async def ask(self, into: type[T], tool: str, *, within: float | None = None, **args: Any) -> T:
        """Return the data of a tool's result; an argument that is None has the tool's default.

        Raises what `call` raises.
        """
        given = {name: value for name, value in args.items() if value is not None}
        result = await self.call(tool, given, within)
        try:
            return msgspec.convert(result.data, into)
        except msgspec.ValidationError as error:
            raise ToolFailedError(
                f"The tool {quoted(tool)} answered with something else: {error}.",
                remedy="Use a client of the same version as the stack.",
            ) from error

    async def rate(self, rating: Feedback) -> None:
        """Publish a rating, and return once JetStream has it."""
        caller = await self.proven()
        of = {"session_id": rating.session_id or caller.session_id, "query_id": rating.query_id}
        message = seal_from(msgspec.structs.replace(caller, **of), rating, type="feedback")
        await publish_durably(
            await self.bus(),
            subjects.RESPONSE_FEEDBACK,
            encode(message),
            headers=bearer(caller.token),
        )

    async def forget(self, **chosen: Any) -> Receipt:
        """Erase what the arguments of the tool choose."""
        return await self.ask(Receipt, "forget", within=max(ERASING, self._timeout), **chosen)


class Topics:
    """The standing facts of a memory."""

    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    def __getitem__(self, key: str) -> "Topic":
        return Topic(self._calls, key)


class Topic:
    """A standing fact; awaited, it is the value, or None."""

    def __init__(self, calls: Calls, key: str) -> None:
        self._calls = calls
        self.key = key

    def __await__(self) -> Generator[Any, None, str | None]:
        return self._value().__await__()

    async def _value(self) -> str | None:
        return (await self._calls.ask(RecalledTopic, "recall_topic", topic=self.key)).content

    async def set(self, value: str) -> SavedTopic:
        """Make this the value; the former one stays in the history."""
        return await self._calls.ask(SavedTopic, "save_topic", topic=self.key, content=value)

    async def history(self) -> list[Version]:
        """Return every version, newest first."""
        found = await self._calls.ask(Versions, "memory_history", topic_or_id=self.key)
        return found.versions

    async def delete(self) -> Receipt:
        """Erase it for good, with all its versions."""
        return await self._calls.forget(topic=self.key)
