"""The tools on the bus that clients see and may call, and the connection to the stack.

The stack is found, or started again, for as long as clients are served. Models choose worse among
many tools, so by default clients see few of the memory's own.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, Self, TypeVar

import structlog

from local.client import READ_OUTPUT_TOOL, Connection, fit_result
from local.client.access import connected, ending_with
from local.client.embedded import stack_running
from local.client.tools import OnProgress, Toolbox, call_tool
from local.errors import (
    BusError,
    ConfigError,
    Local2Error,
    StackNotRunningError,
    UnknownToolError,
    error_of,
    quoted,
)
from local.protocol.envelope import Sender
from local.protocol.payloads import Json, ToolResult, ToolSchema
from local.settings import McpSettings, Settings
from local.tenants.credentials import OwnTokens

T = TypeVar("T")

NAME = "mcp"
STARTING = 45.0
"""Seconds that a call waits for the stack: clients give a server a minute."""
RETRY = 0.5
"""Seconds between two attempts to reach it."""
DEFAULT_TOOLS = frozenset(
    {
        "add_document",
        "load_session",
        "memory_history",
        "note",
        "read_tool_output",
        "recall",
        "recall_topic",
        "remember_fact",
        "save_memory",
        "save_topic",
        "search_memory",
        "top_memories",
    }
)
"""Of the memory's own. Tools that erase are not among them: a text that a model reads could request
it, and the loss would be final."""
Ask = Callable[[str, Json], Awaitable[ToolResult]]
"""A tool and its arguments, for somebody."""

log = structlog.get_logger()


class Reached(NamedTuple):
    """The stack's bus, and the tools on it."""

    bus: Connection
    tools: Toolbox


class Link:
    """A connection to the stack while its context lasts.

    `on_change` is called when the stack is reached, and when a tool on its bus is new or changed.
    """

    def __init__(self, settings: Settings, *, user: str, on_change: Callable[[], None]) -> None:
        self._settings = settings
        self._user = user
        self._on_change = on_change
        self._reached: asyncio.Future[Reached] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self.tokens = OwnTokens(settings.bus)

    async def __aenter__(self) -> Self:
        self._keeping = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()  # nats-py may lose a cancellation while it sends
        self._keeping.cancel()
        with suppress(asyncio.CancelledError):
            await self._keeping

    async def reached(self) -> Reached:
        """Return the stack, as soon as it is reached.

        Raises:
            Local2Error: The last attempt to reach it failed.
        """
        try:
            async with asyncio.timeout(STARTING):
                return await asyncio.shield(self._reached)
        except TimeoutError as error:
            raise StackNotRunningError(
                f"The memory did not start within {STARTING:g} s.", remedy="`local2 doctor` looks."
            ) from error

    async def run(self, work: Callable[[Reached], Coroutine[Any, Any, T]]) -> T:
        """Run work over the bus; it ends with the connection.

        Raises:
            Local2Error: The stack is not reached, or was lost meanwhile.
        """
        stack = await self.reached()
        return await ending_with(stack.bus, work(stack))

    async def _keep(self) -> None:
        while not self._closing.is_set():
            try:
                await self._hold()
            except Local2Error as error:
                log.warning("stack_not_reached", reason=str(error))
                await self._fail(error)
            except Exception:
                log.exception("stack_not_reached")
                await self._fail(BusError("The memory cannot be reached; the log says why."))

    async def _fail(self, error: Local2Error) -> None:
        """Give those who ask this error, until the next attempt."""
        self._reached.set_exception(error)
        self._reached.exception()  # perhaps no caller waits for it
        await asyncio.sleep(RETRY)
        self._reached = asyncio.get_running_loop().create_future()

    async def _hold(self) -> None:
        """Reach the stack, and return when it is lost."""
        async with (
            stack_running(self._settings),
            connected(self._settings, name=NAME, user=self._user) as bus,
            Toolbox(bus, source=NAME, on_change=self._on_change) as tools,
        ):
            await tools.settle()
            self._reached.set_result(Reached(bus, tools))
            self._on_change()
            await _first(bus.lost, self._closing)
            self._reached = asyncio.get_running_loop().create_future()


async def _first(*events: asyncio.Event) -> None:
    """Return when one of them is set."""
    waiting = [asyncio.ensure_future(event.wait()) for event in events]
    try:
        await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)


Profile = Callable[[ToolSchema], bool]


def _default(tool: ToolSchema) -> bool:
    return tool.name in DEFAULT_TOOLS if tool.reads_memory else tool.for_models


def _full(_: ToolSchema) -> bool:
    return True


def _read_only(tool: ToolSchema) -> bool:
    """Return whether a tool of another team declares that it only reads."""
    return tool.annotations.read_only_hint is True


PROFILES: dict[str, Profile] = {"default": _default, "full": _full, "read-only": _read_only}


def profile_of(chosen: Sequence[str]) -> Profile:
    """Return the profile of a name, or the tools of these names.

    Raises:
        ConfigError: No tool is chosen, or a profile is named among the tools.
    """
    if len(chosen) == 1 and chosen[0] in PROFILES:
        return PROFILES[chosen[0]]
    if not chosen or PROFILES.keys() & chosen:
        raise ConfigError(
            "A profile is one name, or a list of tools.",
            remedy=f"One of {', '.join(PROFILES)}, or names as `local2 tools` lists them.",
        )
    return _named(frozenset(chosen))


def _named(names: Collection[str]) -> Profile:
    return lambda tool: tool.name in names


class Bridge:
    """The tools on the bus that clients see, and may call."""

    def __init__(self, link: Link, settings: McpSettings) -> None:
        self._link = link
        self._settings = settings
        self._offers = profile_of(settings.profile)
        self._known: list[ToolSchema] = []

    async def tools(self) -> list[ToolSchema]:
        """Return the tools of the profile; while the stack is away, those known last.

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
        """Return whether a tool of this name is in the profile."""
        return any(tool.name == name for tool in await self.tools())

    async def call(
        self, name: str, args: Json, caller: Sender, on_progress: OnProgress | None = None
    ) -> ToolResult:
        """Call a tool; every failure is a result, too."""

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
            if name == READ_OUTPUT_TOOL:
                return result
            limit = self._settings.result_limit
            return await fit_result(stack.bus, result, caller=caller, limit=limit)

        try:
            return await self._link.run(work)
        except Local2Error as error:
            return ToolResult.failed(error)

    async def ask(self, name: str, args: Json, caller: Sender) -> ToolResult:
        """Call a tool of the memory, offered or not, for requests that are no tool calls.

        Raises:
            Local2Error: It failed; its class is that of the code.
        """
        result = await self.call(name, args, caller)
        if result.error is None:
            return result
        raise error_of(result.error.code, result.error.message)
