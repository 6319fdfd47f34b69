"""One of the memory's services on the bus, without a stack."""

import asyncio

from local2.agents.services import SERVICES, ServiceHost, ServiceParts
from local2.backup.service import Backups
from local2.bus.connection import Connection
from local2.memory.tenant import Memories
from local2.protocol.envelope import utc_now
from local2.settings import MemorySettings


def service_host(name: str, bus: Connection, memories: Memories) -> ServiceHost:
    """Return the participant with this name; it has no turns to wait for, and no files to copy."""

    async def none_waits() -> int:
        await asyncio.sleep(0)
        return 0

    (group,) = (group for group in SERVICES if group.name == name)
    backups = Backups(MemorySettings(), dict, none_waits, utc_now, lambda _: None)
    return ServiceHost(group, ServiceParts(bus=bus, memories=memories, backups=backups))
