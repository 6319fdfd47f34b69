"""As whom a command, or another client on this machine, connects: what the settings name."""

import asyncio
import time
from datetime import timedelta

import msgspec

from local.errors import ConfigError
from local.settings import BusSettings
from local.tenants.credentials import (
    OPERATOR,
    SIGNING_KEY,
    Credentials,
    credentials_in,
    read_credentials,
)
from local.tenants.directory import Entries
from local.tenants.tokens import sign

VALID = timedelta(hours=1)
"""Of tokens that are made where the key is."""


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
