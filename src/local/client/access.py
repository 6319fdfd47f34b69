"""Connecting to the running stack, with the credentials that the settings name."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from local.bus.connection import Connection, connect
from local.runtime import running_url
from local.settings import Settings
from local.tenants.asking import credentials_of
from local.tenants.credentials import memory_credentials
from local.tenants.directory import Entries


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
