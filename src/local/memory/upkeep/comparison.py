"""Compares the vector index with the ledger: what it lacks is indexed again, strays are deleted."""

import structlog

from local.errors import IndexDamagedError
from local.ledger.door import IndexedRecords
from local.memory.upkeep.batches import batches, items_of
from local.memory.vectors import Vectors
from local.protocol.vectors import VectorStatus

REMOVED = 512
"""Records removed from the index together."""
ID_PAGE = 10_000
SAMPLE = 300
TOLERATED_LOSSES, TOLERATED_SHARE = 2, 0.05
"""A sound index misses some vectors, as its neighbour graph is approximate: one of a hundred in
200,000 made-up ones. One whose files were cut or deleted misses most."""

log = structlog.get_logger()


async def compare(records: IndexedRecords, vectors: Vectors, status: VectorStatus) -> None:
    """Find what the index lacks, or has too much, after a restart or a crash.

    Raises:
        IndexDamagedError: It misses too much of what it seems to hold.
        VectorError: The worker does not answer.
    """
    if status.count == 0:
        await records.index_anew()
    elif not status.clean or status.count != await records.indexed():
        await _compare_ids(records, vectors, clean=status.clean)
    await _probe(records, vectors, status)


async def ids_in_index(vectors: Vectors, tenant: str, *, of_next: bool = False) -> set[str]:
    """The ids of all that the index holds, or the one that is filled to replace it."""
    ids: set[str] = set()
    while page := await vectors.ids(len(ids), ID_PAGE, tenant=tenant, of_next=of_next):
        ids.update(page)
    return ids


async def _compare_ids(records: IndexedRecords, vectors: Vectors, *, clean: bool) -> None:
    tenant = records.tenant
    missing, unknown = await records.compared(await ids_in_index(vectors, tenant))
    log.info("index_compared", missing=len(missing), unknown=len(unknown), clean=clean)
    await records.index_again(missing)
    for start in range(0, len(unknown), REMOVED):
        await vectors.delete(unknown[start : start + REMOVED], tenant=tenant)


async def _probe(records: IndexedRecords, vectors: Vectors, status: VectorStatus) -> None:
    """Files that were cut short or deleted lose vectors without an error: a sample tells."""
    sample = await records.sample_indexed(SAMPLE, embedder=status.embedder)
    lost: list[str] = []
    for batch in batches(sample, status.dimensions):
        lost += await vectors.lost(items_of(batch), tenant=records.tenant)
    if len(lost) > max(TOLERATED_LOSSES, TOLERATED_SHARE * len(sample)):
        raise IndexDamagedError(f"It misses {len(lost)} of {len(sample)} vectors at random.")
    await records.index_again(lost)
