"""Announce what changed in a tenant's memory, without delaying the answer to who changed it."""

from local2.bus.connection import Connection
from local2.protocol.envelope import encode, seal
from local2.protocol.payloads import MemoryChange


def announce(bus: Connection, tenant: str, subject: str, change: MemoryChange) -> None:
    """Announce a change of a tenant's memory to the tenant."""
    message = encode(seal(change, type="event", source="memory"))
    bus.publish_soon(subject, message, tenant=tenant)
