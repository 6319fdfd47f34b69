"""Know the tools on the stack's bus, and choose those that clients may call.

Models choose worse among many tools, so clients see only some of the memory's own by default.
"""

from collections.abc import Awaitable, Callable, Sequence

from local2.client import READ_OUTPUT_TOOL, fit_result
from local2.client.stack_tools import ReachedStack, StackTools
from local2.client.tools import OnProgress, call_tool
from local2.errors import (
    BusError,
    ConfigError,
    Local2Error,
    UnknownToolError,
    quoted,
)
from local2.protocol.envelope import Sender
from local2.protocol.memory_tools import TOOLS
from local2.protocol.payloads import Json, ToolResult, ToolSchema
from local2.settings import McpSettings

NAME = "mcp"
LATE_TOOL_SECONDS = 1.0
"""Seconds that a call of an unknown tool waits for its announcement: a busy stack may be late."""
DEFAULT_TOOLS = frozenset(tool.name for tool in TOOLS if tool.offered_over_mcp)
"""The memory's own tools in the profile `default`."""
Ask = Callable[[str, Json], Awaitable[ToolResult]]
"""Calls a tool with arguments, for one caller."""

Profile = Callable[[ToolSchema], bool]


PROFILES: dict[str, Profile] = {
    "default": lambda tool: tool.name in DEFAULT_TOOLS if tool.reads_memory else tool.for_models,
    "full": lambda _: True,
    "read-only": lambda tool: tool.annotations.read_only_hint is True,
}


def profile_of(chosen: Sequence[str]) -> Profile:
    """Choose the profile with this name, or make one of the tools with these names.

    Raises:
        ConfigError: No tool is chosen, or a profile is named among tools.
    """
    if len(chosen) == 1 and chosen[0] in PROFILES:
        return PROFILES[chosen[0]]
    if not chosen or PROFILES.keys() & chosen:
        raise ConfigError(
            "A profile is one name, or a list of tools.",
            remedy=f"Choose one of {', '.join(PROFILES)}, or tools that `local2 tools` lists.",
        )
    return lambda tool: tool.name in chosen


class Bridge:
    """The tools on the bus that clients see and may call."""

    def __init__(self, link: StackTools, settings: McpSettings) -> None:
        self._link = link
        self._settings = settings
        self._offers = profile_of(settings.profile)

    async def tools(self) -> list[ToolSchema]:
        """List the tools of the profile."""
        return [tool for tool in await self._link.schemas() if self._offers(tool)]

    async def offers(self, name: str) -> bool:
        """Whether the profile has a tool of this name; an unknown one is waited for, a second long.

        Raises:
            Local2Error: The tool is unknown, and the stack was not reached.
        """
        if not any(tool.name == name for tool in await self.tools()):
            await (await self._link.reached()).tools.find(name, within=LATE_TOOL_SECONDS)
        return any(tool.name == name for tool in await self.tools())

    async def call(
        self, name: str, args: Json, caller: Sender, on_progress: OnProgress | None = None
    ) -> ToolResult:
        """Call a tool; a failure becomes a result, too."""

        async def work(stack: ReachedStack) -> ToolResult:
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
                        f"Nobody serves the tool {quoted(name)} at the moment.",
                        remedy="Ask again in a few seconds.",
                    )
                )
            if name == READ_OUTPUT_TOOL:
                return result
            limit = self._settings.result_limit
            return await fit_result(stack.bus, result, caller=caller, limit=limit)

        try:
            return await self._link.run(work)
        except Local2Error as error:
            return ToolResult.failed(error)

    async def ask(self, name: str, args: Json, caller: Sender) -> ToolResult:
        """Call a tool of the memory, in the profile or not, for requests that are not tool calls.

        Raises:
            Local2Error: The tool failed; the error code decides the class.
        """
        result = await self.call(name, args, caller)
        if result.error is None:
            return result
        raise result.error.to_error()
