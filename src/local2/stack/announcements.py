"""Announce what changed in a tenant's memory, without delaying the answer to who changed it."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import structlog

from local2.background import running_task
from local2.bus.connection import Connection
from local2.errors import Local2Error
from local2.memory.changes import Announce
from local2.protocol.envelope import encode, seal
from local2.protocol.payloads import MemoryChange

ANNOUNCEMENTS_PER_PAUSE = 50
"""Announcements that are published before other tasks get their turn."""

log = structlog.get_logger()


@asynccontextmanager
async def announcing(bus: Connection, tenant: str) -> AsyncIterator[Announce]:
    """Yield a function that announces changes of a tenant's memory to the tenant.

    It only queues them. They are published behind the answer to the caller that made the change,
    mostly in the same write to the server.
    """
    waiting: deque[tuple[str, MemoryChange]] = deque()
    added = asyncio.Event()

    def announce(subject: str, change: MemoryChange) -> None:
        waiting.append((subject, change))
        added.set()

    async def publish() -> None:
        while waiting:
            subject, change = waiting.popleft()
            try:
                message = encode(seal(change, type="event", source="memory"))
                await bus.publish(subject, message, tenant=tenant)
            except Local2Error as error:
                log.warning("changes_not_announced", count=len(waiting) + 1, reason=str(error))
                waiting.clear()
            if len(waiting) % ANNOUNCEMENTS_PER_PAUSE == 0:
                await asyncio.sleep(0)

    async def run() -> None:
        while True:
            await added.wait()
            added.clear()
            await publish()

    try:
        async with running_task(run(), "announcements"):
            yield announce
    finally:
        await publish()
