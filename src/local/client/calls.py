"""One caller's calls of tools: an error is raised as the exception of its code, data is typed."""

from typing import Any, TypeVar

import msgspec

from local.bus.connection import Connection
from local.client.following import Following
from local.client.items import Items
from local.client.tools import ask_tool
from local.errors import (
    StackNotRunningError,
    ToolFailedError,
    UnknownToolError,
    error_of,
    quoted,
)
from local.protocol.envelope import Sender
from local.protocol.erasure import Receipt
from local.protocol.payloads import Json, ToolResult

ERASING = 3600.0
"""Seconds for an erasure: of a million records it takes minutes."""

T = TypeVar("T")


class Calls:
    """Calls of `caller` over one connection, each within `timeout` seconds."""

    def __init__(self, following: Following, caller: Sender, timeout: float) -> None:
        self.caller = caller
        self._following = following
        self._timeout = timeout

    def of(self, **named: str | None) -> "Calls":
        """Those of a caller that differs in these fields, over the same connection."""
        given = {name: value for name, value in named.items() if value is not None}
        caller = msgspec.structs.replace(self.caller, **given)
        return Calls(self._following, caller, self._timeout)

    async def bus(self) -> Connection:
        return await self._following.bus()

    async def proven(self) -> Sender:
        """The caller, with a token where one can be made here."""
        token = self.caller.token or await self._following.tokens.of(self.caller.user)
        return msgspec.structs.replace(self.caller, token=token)

    async def items(self, collection: str) -> Items:
        """What an application stores exactly."""
        return Items(await self.bus(), collection, await self.proven(), self._timeout)

    async def call(self, tool: str, args: Json, within: float | None = None) -> ToolResult:
        """Call a tool.

        Raises:
            Local2Error: It failed, or could not be asked; its class is that of the code.
        """
        seconds = self._timeout if within is None else within
        caller = await self.proven()
        try:
            result = await ask_tool(await self.bus(), tool, args, caller=caller, timeout=seconds)
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
        """The data of a tool's result; an argument that is None has the tool's default.

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

    async def forget(self, **chosen: Any) -> Receipt:
        """Erase what the arguments of the tool choose."""
        return await self.ask(Receipt, "forget", within=max(ERASING, self._timeout), **chosen)
