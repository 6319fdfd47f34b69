"""The bus of the running stack, or of one that is started for a command."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from local.cli.output import Output
from local.client import Connection
from local.client.access import connected
from local.client.maintenance import memory_status
from local.errors import NoRespondersError, StackNotRunningError
from local.settings import Settings


@asynccontextmanager
async def stack_bus(
    settings: Settings,
    output: Output,
    doing: str,
    *,
    asked: Callable[[Connection], Awaitable[object]] = memory_status,
    operator: bool = False,
) -> AsyncIterator[Connection]:
    """Connect to the running stack; where there is none, start one without models.

    `asked`: what a stack answers that serves. `operator`: as whoever runs the stack, and not as a
    tenant.
    """
    async with AsyncExitStack() as resources:
        try:
            bus = await resources.enter_async_context(
                connected(settings, name="cli", operator=operator)
            )
            await asked(bus)
        except (StackNotRunningError, NoRespondersError):
            from local.app import open_stack  # noqa: PLC0415 - needed without a stack only

            output.text(f"No stack is running; {doing} offline.")
            logs = settings.memory.data_dir / "logs"
            stack = await resources.enter_async_context(
                open_stack(settings, log_folder=logs, with_generator=False, with_models=False)
            )
            bus = stack.bus
        yield bus
