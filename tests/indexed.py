"""Waiting until the vector index has caught up with the ledger, or keeping it from doing so."""

from local.memory.service import Memory
from waiting import eventually


async def indexed(memory: Memory, *, within: float = 20.0) -> None:
    async def nothing_waits() -> bool:
        return (await memory.ledger.counts()).waiting == 0

    await eventually(nothing_waits, within=within)


class paused_indexing:  # noqa: N801 - reads as the verb that it is
    """Hold the indexer's slots, so that what is written meanwhile waits."""

    def __init__(self, memory: Memory) -> None:
        self._slots = memory.indexer._slots
        self._held = 0

    async def __aenter__(self) -> None:
        while not self._slots.locked():
            await self._slots.acquire()
            self._held += 1

    async def __aexit__(self, *_: object) -> None:
        self.release()

    def release(self) -> None:
        while self._held:
            self._slots.release()
            self._held -= 1
