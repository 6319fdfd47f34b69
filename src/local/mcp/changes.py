"""Telling clients that other tools are there, in both ways that the protocol has had for it.

Clients with a handshake are told on their connection. Those without listen, with a request of
their own (`subscriptions/listen`).
"""

import asyncio
from typing import Any
from weakref import WeakSet

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.subscriptions import InMemorySubscriptionBus, ToolsListChanged

TOGETHER = 0.2
"""Seconds: what changes within them is told once."""


class Changes:
    """Tells whoever is connected; `notice` may be called from anywhere on the loop."""

    def __init__(self) -> None:
        self.listening = InMemorySubscriptionBus()
        self._connections: WeakSet[Connection] = WeakSet()
        self._changed = asyncio.Event()

    async def connected(self, ctx: ServerRequestContext[Any], _: types.NotificationParams) -> None:
        """Remember a connection; a session is made for each message, and ends with it."""
        self._connections.add(ctx.session._connection)  # noqa: SLF001 - nothing public lasts

    def notice(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Tell of changes until cancelled."""
        told = types.ToolListChangedNotification().method
        while True:
            await self._changed.wait()
            await asyncio.sleep(TOGETHER)
            self._changed.clear()
            await self.listening.publish(ToolsListChanged())
            for connection in list(self._connections):
                await connection.notify(told, None)
