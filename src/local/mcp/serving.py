"""Puts the parts together: the link to the stack, what is offered, and the server over both."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from local.mcp.bridge import Bridge
from local.mcp.callers import Callers
from local.mcp.changes import Changes
from local.mcp.identity import user_of
from local.mcp.link import Link
from local.mcp.server import MemoryServer
from local.settings import Settings


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[MemoryServer]:
    """A server that finds the stack, again and again where need be.

    Raises:
        ConfigError: There is no such profile.
    """
    changes = Changes()
    async with Link(settings, user=user_of(settings.mcp), on_change=changes.notice) as link:
        server = MemoryServer(Bridge(link, settings.mcp), Callers(link, settings.mcp), changes)
        telling = asyncio.create_task(changes.run())
        try:
            yield server
        finally:
            telling.cancel()
            with suppress(asyncio.CancelledError):
                await telling
