"""Know the tools on the stack's bus, and choose those that clients may call.

Models choose worse among many tools, so clients see only some of the memory's own by default.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self, TypeVar

import structlog

from local2.background import stop
from local2.client import READ_OUTPUT_TOOL, Connection, fit_result
from local2.client.access import StackConnection, await_while_connected
from local2.client.tools import OnProgress, Toolbox, call_tool
from local2.errors import (
    BusError,
    ConfigError,
    Local2Error,
    StackNotRunningError,
    UnknownToolError,
    error_from_code,
    quoted,
)
from local2.protocol.envelope import Sender
from local2.protocol.memory_tools import TOOLS
from local2.protocol.payloads import Json, ToolResult, ToolSchema
from local2.settings import McpSettings, Settings

T = TypeVar("T")

NAME = "mcp"
START_PATIENCE = 45.0
"""Seconds that a call waits for the stack to start. Clients give a server a minute."""
RETRY_DELAY = 0.5
"""Seconds between two attempts to reach the stack."""
LIST_SECONDS = 1.0
"""Seconds that a list of the tools waits for the stack. Clients are told of a change later."""
LATE_TOOL_SECONDS = 1.0
"""Seconds that a call of an unknown tool waits for its announcement: a busy stack may be late."""
DEFAULT_TOOLS = frozenset(tool.name for tool in TOOLS if tool.offered_over_mcp)
"""The memory's own tools in the profile `default`."""
Ask = Callable[[str, Json], Awaitable[ToolResult]]
"""Calls a tool with arguments, for one caller."""

log = structlog.get_logger()


class ReachedStack(NamedTuple):
    """A stack that is connected: its bus, and the tools on it."""

    bus: Connection
    tools: Toolbox


class StackTools:
    """Knows the tools of the stack while its context lasts, and connects again whenever it is lost.

    It does so at once and not when a client asks, since clients are told of changed tools:
    `on_change` is called when the stack is reached, and when a tool on its bus is new or changed.
    """

    def __init__(self, settings: Settings, *, user: str, on_change: Callable[[], None]) -> None:
        self._stack = StackConnection(settings, name=NAME, user=user)
        self._on_change = on_change
        self._reached: asyncio.Future[ReachedStack] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self.tokens = self._stack.tokens

    async def __aenter__(self) -> Self:
        self._connecting = asyncio.create_task(self._stay_connected())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()  # nats-py may lose a cancellation while it sends
        await stop(self._connecting)

    async def reached(self) -> ReachedStack:
        """Wait until the stack is reached.

        Raises:
            Local2Error: The last attempt to reach it failed.
        """
        try:
            async with asyncio.timeout(START_PATIENCE):
                return await asyncio.shield(self._reached)
        except TimeoutError as error:
            raise StackNotRunningError(
                f"The memory did not start within {START_PATIENCE:g} s.",
                remedy="Run `local2 doctor` to find out why.",
            ) from error

    async def run(self, work: Callable[[ReachedStack], Coroutine[Any, Any, T]]) -> T:
        """Run work over the bus; it fails if the connection is lost.

        Raises:
            Local2Error: The stack was not reached, or was lost during the call.
        """
        stack = await self.reached()
        return await await_while_connected(stack.bus, work(stack))

    async def _stay_connected(self) -> None:
        async with self._stack:
            while not self._closing.is_set():
                try:
                    bus = await self._stack.bus(renew=True)
                    async with Toolbox(bus, source=NAME, on_change=self._on_change) as tools:
                        await tools.settle()
                        self._reached.set_result(ReachedStack(bus, tools))
                        self._on_change()
                        with suppress(StackNotRunningError):  # the connection was lost
                            await await_while_connected(bus, self._closing.wait())
                        self._reached = asyncio.get_running_loop().create_future()
                except Local2Error as error:
                    log.warning("stack_not_reached", reason=str(error))
                    await self._pass_error(error)
                except Exception:
                    log.exception("stack_not_reached")
                    await self._pass_error(
                        BusError("The memory cannot be reached; the log says why.")
                    )

    async def _pass_error(self, error: Local2Error) -> None:
        """Raise this error in all waiting callers, then pause before the next attempt."""
        self._reached.set_exception(error)
        self._reached.exception()  # marks it as retrieved, since maybe no caller waits
        await asyncio.sleep(RETRY_DELAY)
        self._reached = asyncio.get_running_loop().create_future()


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
        self._known: list[ToolSchema] = []

    async def tools(self) -> list[ToolSchema]:
        """List the tools of the profile.

        If the stack is not reached soon, these are the ones that were known last, or else the
        memory's own.
        """
        try:
            async with asyncio.timeout(LIST_SECONDS):
                self._known = (await self._link.reached()).tools.schemas
        except (Local2Error, TimeoutError):
            if not self._known:  # as the stack will announce them
                own = await asyncio.to_thread(lambda: [tool.schema() for tool in TOOLS])
                self._known = sorted(own, key=lambda tool: tool.name)
        return [tool for tool in self._known if self._offers(tool)]

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
        raise error_from_code(result.error.code, result.error.message)
