"""Waiting until the vector index has caught up with the ledger."""

from local.memory.service import Memory
from waiting import eventually


async def indexed(memory: Memory, *, within: float = 20.0) -> None:
    async def nothing_waits() -> bool:
        return (await memory.ledger.counts()).waiting == 0

    await eventually(nothing_waits, within=within)
