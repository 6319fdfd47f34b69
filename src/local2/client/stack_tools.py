"""A stack and the tools on its bus, for servers that stay: the connection follows the stack."""

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from typing import Any, NamedTuple, Self, TypeVar

from local2.background import stop
from local2.bus.connection import Connection
from local2.client.access import StackConnection, await_while_connected
from local2.client.calls import Calls
from local2.client.tools import Toolbox
from local2.errors import BusError, Local2Error, StackNotRunningError
from local2.logs import get_logger
from local2.protocol.envelope import Sender
from local2.protocol.memory_tools import TOOLS
from local2.protocol.payloads import ToolSchema
from local2.settings import Settings

T = TypeVar("T")

START_PATIENCE = 45.0
"""Seconds that a call waits for the stack to start. Clients give a server a minute."""
RETRY_DELAY = 0.5
"""Seconds between two attempts to reach the stack."""
LIST_SECONDS = 1.0
"""Seconds that a list of the tools waits for the stack."""

log = get_logger()


class ReachedStack(NamedTuple):
    """A stack that is connected: its bus, and the tools on it."""

    bus: Connection
    tools: Toolbox


class StackTools:
    """Knows the tools of the stack while its context lasts, and connects again whenever it is lost.

    It does so at once and not when a client asks, since clients are told of changed tools:
    `on_change` is called when the stack is reached, and when a tool on its bus is new or changed.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        name: str,
        user: str | None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._stack = StackConnection(settings, name=name, user=user)
        self._name = name
        self._on_change = on_change
        self._reached: asyncio.Future[ReachedStack] = asyncio.get_running_loop().create_future()
        self._closing = asyncio.Event()
        self._known: list[ToolSchema] = []
        self.tokens = self._stack.tokens

    async def __aenter__(self) -> Self:
        self._connecting = asyncio.create_task(self._stay_connected())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()  # nats-py may lose a cancellation while it sends
        await stop(self._connecting)

    @property
    def is_reached(self) -> bool:
        """Whether the stack is connected now."""
        return self._reached.done() and self._reached.exception() is None

    def calls(self, caller: Sender, timeout: float) -> Calls:
        """The calls of a caller over this connection, each limited to `timeout` seconds."""
        return Calls(self._stack, caller, timeout)

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

    async def schemas(self) -> list[ToolSchema]:
        """List the tools, by their names.

        If the stack is not reached soon, these are the ones that were known last, or else the
        memory's own.
        """
        try:
            async with asyncio.timeout(LIST_SECONDS):
                self._known = (await self.reached()).tools.schemas
        except (Local2Error, TimeoutError):
            if not self._known:  # as the stack will announce them
                own = await asyncio.to_thread(lambda: [tool.schema() for tool in TOOLS])
                self._known = sorted(own, key=lambda tool: tool.name)
        return self._known

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
                    async with Toolbox(bus, source=self._name, on_change=self._on_change) as tools:
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
