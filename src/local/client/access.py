"""Connecting to the running stack, with the credentials that the settings name."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta

import msgspec

from local.bus.connection import Connection, connect
from local.errors import ConfigError
from local.runtime import running_url
from local.settings import BusSettings, Settings
from local.tenants.credentials import (
    OPERATOR,
    SIGNING_KEY,
    Credentials,
    credentials_in,
    memory_credentials,
    read_credentials,
)
from local.tenants.directory import Entries
from local.tenants.tokens import sign

VALID = timedelta(hours=1)
"""Of tokens that are made where the key is."""


@asynccontextmanager
async def connected(
    settings: Settings,
    *,
    name: str,
    user: str | None = None,
    patience: float = 5.0,
    operator: bool = False,
) -> AsyncIterator[Connection]:
    """A connection to the running stack, as the tenant that the settings name, for this user.

    `operator`: as whoever runs the stack, where there are accounts; the memory's own credentials
    are needed.

    Raises:
        StackNotRunningError: None runs, or it does not answer within `patience` seconds.
        ForbiddenError: It has accounts, and refuses the credentials.
        ConfigError: The credentials cannot be read.
    """
    own = operator and Entries.read(settings.bus.accounts) is not None
    credentials = (
        memory_credentials(settings.bus.accounts) if own else credentials_of(settings.bus, user)
    )
    url = running_url(settings)
    async with connect(url, name=name, patience=patience, credentials=credentials) as bus:
        yield bus


def credentials_of(bus: BusSettings, user: str | None) -> Credentials | None:
    """Who connects, and for whom; None without accounts.

    Raises:
        ConfigError: A file of credentials is missing, or holds none.
    """
    if bus.credentials is not None:
        credentials = credentials_in(bus.credentials)
    elif bus.tenant is not None:
        found = read_credentials(bus.accounts, bus.tenant, OPERATOR)
        if found is None:
            raise ConfigError(
                f"There are no credentials for the tenant {bus.tenant} in {bus.accounts}.",
                remedy="`local2 tenants list` shows which tenants there are.",
            )
        credentials = found
    else:
        return None
    return msgspec.structs.replace(credentials, token=bus.token or _own_token(bus, user))


class OwnTokens:
    """Tokens for users of the tenant whose key lies here: each made once, and again in time."""

    def __init__(self, bus: BusSettings) -> None:
        self._bus = bus
        self._made: dict[str, tuple[str | None, float]] = {}

    async def of(self, user: str | None) -> str | None:
        """The user's; None where another token or nothing says who the user is."""
        if user is None or self._bus.tenant is None or self._bus.token or self._bus.credentials:
            return None
        now = time.monotonic()
        token, until = self._made.get(user, (None, now))
        if until <= now:
            self._made = {one: made for one, made in self._made.items() if made[1] > now}
            token = await asyncio.to_thread(_own_token, self._bus, user)
            self._made[user] = token, now + VALID.total_seconds() / 2
        return token


def _own_token(bus: BusSettings, user: str | None) -> str | None:
    """A token for the user, where the tenant's key lies here."""
    if user is None or bus.tenant is None:
        return None
    key, entries = bus.accounts / bus.tenant / SIGNING_KEY, Entries.read(bus.accounts)
    if entries is None or not key.exists() or bus.tenant not in entries.tenants:
        return None
    private = key.read_text(encoding="utf-8")
    return sign(
        private, entries.token_key(bus.tenant).id, tenant=bus.tenant, user=user, valid_for=VALID
    )
