"""One caller's tool calls, over a connection that follows the stack.

Error results are raised as the exceptions of their codes, and data is converted to Structs. Topics
are read and written by their keys: `await memory.topics["user.name"]`.
"""

import asyncio
import json
from collections.abc import Generator
from typing import Any, TypeVar

import msgspec

from local2.bus.connection import Connection
from local2.bus.identity import bearer
from local2.bus.streams import publish_durably
from local2.client.access import StackConnection, ask_service
from local2.client.tools import ask_tool
from local2.errors import (
    BusError,
    InvalidArgumentsError,
    StackNotRunningError,
    ToolFailedError,
    UnknownToolError,
    quoted,
)
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
from local2.protocol.payloads import Empty, Feedback, Json, ToolResult
from local2.protocol.services import P, ServiceDeclaration

ERASURE_TIMEOUT = 3600.0
"""Seconds that an erasure may take: erasing a million records takes minutes."""
BINARY = (bytes, bytearray, memoryview)
_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
S = TypeVar("S", bound=msgspec.Struct)


def encoded(args: Json) -> Json:
    """Encode each argument as strict JSON; msgspec would turn bytes into base64 and NaN into null.

    Raises:
        InvalidArgumentsError: An argument cannot be represented in JSON.
    """
    raw: Json = {}
    for name, value in args.items():
        try:
            plain = msgspec.to_builtins(value, builtin_types=BINARY)
            raw[name] = msgspec.Raw(_json.encode(plain).encode())
        except (TypeError, ValueError, RecursionError) as error:
            raise InvalidArgumentsError(f"{name} cannot be sent as JSON: {error}.") from error
    return raw


class Calls:
    """The calls of one `caller` over one connection, each limited to `timeout` seconds."""

    def __init__(self, stack: StackConnection, caller: Sender, timeout: float) -> None:
        self.caller = caller
        self._stack = stack
        self._timeout = timeout

    def of(self, **named: str | None) -> "Calls":
        """Call as somebody else, or in another session, over the same connection."""
        given = {name: value for name, value in named.items() if value is not None}
        caller = msgspec.structs.replace(self.caller, **given)
        return Calls(self._stack, caller, self._timeout)

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """The event loop that calls must run in."""
        return self._stack.loop

    def can_act_as(self, user: str) -> bool:
        """Whether a request may name this user without the user's token."""
        return user == self.caller.user or self._stack.can_name_users

    async def bus(self) -> Connection:
        return await self._stack.bus()

    async def caller_with_token(self) -> Sender:
        """The caller, with a token if this client has one or can make one."""
        token = self.caller.token or await self._stack.tokens.token_for(self.caller.user)
        return msgspec.structs.replace(self.caller, token=token)

    async def ask_service(self, service: ServiceDeclaration[P, S], payload: P | Empty) -> S:
        """Ask a service of the memory.

        Raises:
            Local2Error: The service refused it, or could not be reached.
        """
        caller = await self.caller_with_token()
        return await self._stack.run(
            lambda bus: ask_service(bus, service, payload, caller, timeout=self._timeout)
        )

    async def call(self, tool: str, args: Json, within: float | None = None) -> ToolResult:
        """Call a tool.

        Raises:
            Local2Error: The tool failed or could not be reached; the error code decides the class.
        """
        encoded_args = encoded(args)
        seconds = self._timeout if within is None else within
        caller = await self.caller_with_token()
        try:
            result = await self._stack.run(
                lambda bus: ask_tool(bus, tool, encoded_args, caller=caller, timeout=seconds)
            )
        except UnknownToolError as error:
            if not await self._stack.has_ended():
                raise
            raise StackNotRunningError(
                "The stack has just ended.", remedy="Ask again: another stack is started then."
            ) from error
        if result.error is not None:
            raise result.error.to_error()
        if not result.ok:
            raise ToolFailedError(result.content)
        return result

    async def ask(self, tool: MemoryTool[A, D], arguments: A, *, within: float | None = None) -> D:
        """Call one of the memory's tools.

        Raises what `call` raises. That nobody serves the tool means that the memory is starting,
        or has stopped.
        """
        try:
            result = await self.call(tool.name, arguments.given(), within)
        except UnknownToolError as error:
            raise BusError(
                f"Nobody serves the tool {quoted(tool.name)} at the moment.",
                remedy="Ask again in a few seconds.",
            ) from error
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
    """A topic. Awaiting it returns its value, or None, as `get` does."""

    def __init__(self, calls: Calls, key: str) -> None:
        self._calls = calls
        self.key = key

    def __await__(self) -> Generator[Any, None, str | None]:
        return self.get().__await__()

    async def get(self) -> str | None:
        """Read the value."""
        return (await self._calls.ask(RECALL_TOPIC, RecallTopic(topic=self.key))).content

    async def set(self, value: str) -> SavedTopic:
        """Replace the value; the former one stays in the history."""
        return await self._calls.ask(SAVE_TOPIC, SaveTopic(topic=self.key, content=value))

    async def history(self) -> list[Version]:
        """Read every version, newest first."""
        found = await self._calls.ask(MEMORY_HISTORY, MemoryHistory(topic_or_id=self.key))
        return found.versions

    async def delete(self) -> Receipt:
        """Erase the topic for good, with all its versions."""
        return await self._calls.forget(Forget(topic=self.key))
