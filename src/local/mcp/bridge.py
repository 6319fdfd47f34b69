"""The tools on the bus as a client of the protocol sees them, and calls of them."""

from collections.abc import Awaitable, Callable

from local.client import READS_ON, fitting
from local.client.tools import OnProgress, call_tool
from local.errors import BusError, Local2Error, UnknownToolError, error_of, quoted
from local.mcp.link import Link, Reached
from local.mcp.profiles import profile_of
from local.protocol.envelope import Sender
from local.protocol.payloads import Json, ToolResult, ToolSchema
from local.settings import McpSettings

Ask = Callable[[str, Json], Awaitable[ToolResult]]
"""A tool and its arguments, for somebody."""


class Bridge:
    """What clients are offered, and may call, of what is on the bus."""

    def __init__(self, link: Link, settings: McpSettings) -> None:
        self._link = link
        self._settings = settings
        self._offers = profile_of(settings.profile)
        self._known: list[ToolSchema] = []

    async def tools(self) -> list[ToolSchema]:
        """The tools of the profile; those known last while the stack is away.

        Raises:
            Local2Error: The stack was never reached.
        """
        try:
            self._known = (await self._link.reached()).tools.schemas
        except Local2Error:
            if not self._known:
                raise
        return [tool for tool in self._known if self._offers(tool)]

    async def offers(self, name: str) -> bool:
        """Whether a tool of this name is among those of the profile."""
        return any(tool.name == name for tool in await self.tools())

    async def call(
        self, name: str, args: Json, caller: Sender, on_progress: OnProgress | None = None
    ) -> ToolResult:
        """Call a tool; whatever fails is a result, too."""

        async def work(stack: Reached) -> ToolResult:
            result = await call_tool(
                stack.bus,
                name,
                args,
                caller=caller,
                timeout=self._settings.tool_timeout,
                on_progress=on_progress,
            )
            if result.error is not None and result.error.code == UnknownToolError.code:
                return ToolResult.failed(
                    BusError(
                        f"Nobody serves the tool {quoted(name)} any more, or not yet again.",
                        remedy="Ask again in a few seconds.",
                    )
                )
            if name == READS_ON:
                return result
            limit = self._settings.result_limit
            return await fitting(stack.bus, result, caller=caller, limit=limit)

        try:
            return await self._link.run(work)
        except Local2Error as error:
            return ToolResult.failed(error)

    async def ask(self, name: str, args: Json, caller: Sender) -> ToolResult:
        """Call a tool of the memory, offered or not, for what is no tool to the client.

        Raises:
            Local2Error: It failed; its class is that of the code.
        """
        result = await self.call(name, args, caller)
        if result.error is None:
            return result
        raise error_of(result.error.code, result.error.message)
