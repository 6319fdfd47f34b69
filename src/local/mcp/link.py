"""The way to the stack: found, or made again, for as long as clients are served."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, NamedTuple, Self, TypeVar

import structlog

from local.client import Connection
from local.client.access import connected
from local.client.embedded import stack_running
from local.client.tools import Toolbox
from local.errors import BusError, Local2Error, StackNotRunningError
from local.settings import Settings
from local.tenants.credentials import OwnTokens

T = TypeVar("T")

NAME = "mcp"
STARTING = 45.0
"""Seconds that a call waits for the stack: clients give a server a minute."""
RETRY = 0.5
"""Seconds between two attempts to reach it."""

log = structlog.get_logger()


class Reached(NamedTuple):
    """The stack's bus, and the tools on it."""

    bus: Connection
    tools: Toolbox


class Link:
    """Keeps a connection to the stack while its context lasts.

    `on_change` is called when the stack is reached, and when a tool on its bus is new or another.
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
        """The stack, as soon as it is reached.

        Raises:
            Local2Error: It could not be, the last time that it was tried.
        """
        try:
            async with asyncio.timeout(STARTING):
                return await asyncio.shield(self._reached)
        except TimeoutError as error:
            raise StackNotRunningError(
                f"The memory did not start within {STARTING:g} s.", remedy="`local2 doctor` looks."
            ) from error

    async def run(self, work: Callable[[Reached], Awaitable[T]]) -> T:
        """Do something over the bus; it ends with the connection.

        Raises:
            Local2Error: The stack is not reached, or was lost meanwhile.
        """
        stack = await self.reached()
        working = asyncio.ensure_future(work(stack))
        lost = asyncio.ensure_future(stack.bus.lost.wait())
        try:
            await asyncio.wait({working, lost}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise StackNotRunningError(
                "The memory stopped before it answered.",
                remedy="Ask again in a few seconds; repeating a request changes nothing twice.",
            )
        finally:
            await _end(working, lost)

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
        """Whoever asks gets this error, until the next attempt."""
        self._reached.set_exception(error)
        self._reached.exception()  # perhaps nobody asks
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
        await _end(*waiting)


async def _end(*futures: asyncio.Future[Any]) -> None:
    for future in futures:
        future.cancel()
    await asyncio.gather(*futures, return_exceptions=True)
