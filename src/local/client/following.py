"""A connection that follows the stack, should it die and return at another address."""

import asyncio
from contextlib import AsyncExitStack
from typing import Self

from local.bus.connection import Connection
from local.client.access import connected
from local.client.embedded import ensure_stack, is_elsewhere
from local.errors import BusError
from local.protocol import subjects
from local.runtime import running_url
from local.settings import Settings
from local.tenants.asking import OwnTokens


class Following:
    """A connection to the stack of some settings, while its context lasts."""

    def __init__(self, settings: Settings, *, name: str, user: str | None = None) -> None:
        self._settings = settings
        self._name = name
        self._user = user
        self._opening = asyncio.Lock()
        self._connection = AsyncExitStack()
        self._bus: Connection | None = None
        self._url = ""
        self.tokens = OwnTokens(settings.bus)

    async def __aenter__(self) -> Self:
        await self.bus()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._connection.aclose()

    async def bus(self) -> Connection:
        """The connection. One that was lost reconnects by itself where the address is the same.

        Where the stack is not elsewhere and none runs, one is started.

        Raises:
            StackNotRunningError: None runs or starts, or it does not answer.
            ForbiddenError: It refuses the credentials.
            ConfigError: The credentials cannot be read.
        """
        if self._bus is not None and not self._bus.lost.is_set():
            return self._bus
        async with self._opening:
            if not is_elsewhere(self._settings.bus):
                await ensure_stack(self._settings)
            url = running_url(self._settings)
            if self._bus is None or url != self._url:
                self._bus = await self._opened()
                self._url = url
            return self._bus

    async def has_ended(self) -> bool:
        """Whether there is no stack any more, or not yet another one.

        Its server outlives it by a moment, and a killed process is there until it is reaped.
        """
        if is_elsewhere(self._settings.bus) or self._bus is None:
            return False
        try:
            await self._bus.request(subjects.MEMORY_READY, b"")
        except BusError:
            return True
        return False

    async def _opened(self) -> Connection:
        await self._connection.aclose()
        self._bus = None
        return await self._connection.enter_async_context(
            connected(self._settings, name=self._name, user=self._user)
        )
