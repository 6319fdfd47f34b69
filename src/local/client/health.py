"""Asking the running stack whether it serves, as health checks do."""

import asyncio

from local.client.access import connected
from local.client.asking import ask
from local.protocol import subjects
from local.protocol.health import Readiness
from local.protocol.payloads import Empty
from local.settings import Settings
from local.tenants.directory import Entries

PATIENCE = 2.0
"""Seconds to wait for a server; one that runs answers at once."""


async def readiness(settings: Settings) -> Readiness:
    """Whether the stack serves everybody; where there are accounts, each tenant.

    Raises:
        BusError: No stack answers.
        ForbiddenError: It refuses the credentials.
        ConfigError: The accounts cannot be read.
    """
    entries = Entries.read(settings.bus.accounts)
    asked = [subjects.MEMORY_READY]
    if entries is not None:
        asked = [subjects.from_tenant(name, subjects.MEMORY_READY) for name in entries.tenants]
    async with connected(settings, name="cli", patience=PATIENCE, operator=True) as bus:
        answers = await asyncio.gather(*(ask(bus, one, Empty(), Readiness) for one in asked))
    reasons = [reason for answer in answers for reason in answer.reasons]
    return Readiness(ready=all(answer.ready for answer in answers), reasons=reasons)
