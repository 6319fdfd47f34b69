"""Background work, such as the backlog's, while a test needs it."""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, Protocol


class Work(Protocol):
    def run(self) -> Coroutine[Any, Any, None]: ...


@asynccontextmanager
async def working(work: Work) -> AsyncIterator[None]:
    """Run the work, and cancel it when the context ends."""
    task = asyncio.create_task(work.run())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task
