"""How records are cut into batches for the vector worker, and how many a batch should have."""

from collections.abc import Iterator, Sequence

import msgspec

from local.ledger.index import Waiting
from local.protocol.vectors import VectorItem

BATCH_RECORDS = 128
BATCH_BYTES = 400_000
"""Of a request or its answer, well below what the bus carries."""
BYTES_A_DIMENSION = 6
"""A float32 in base64, rounded up."""
LEAST_RECORDS = 8
BATCH_SECONDS = 0.4
"""What a batch should take, with its wait for the one before: a new record waits behind both."""
UNDER_WAY = 2
"""One batch is embedded or stored while the other's vectors travel home and the next is read."""


def records_after(records: int, seconds: float) -> int:
    """How many records the next batch has, after one of so many that took so long."""
    fitting = int(records * BATCH_SECONDS / max(seconds, 1e-6))
    return max(LEAST_RECORDS, min(fitting, BATCH_RECORDS, 2 * records))


def items_of(records: Sequence[Waiting]) -> list[VectorItem]:
    """The records as the vector worker takes them: texts, or vectors where they are known."""
    return [
        VectorItem(id=record.id, vector=record.vector)
        if record.vector is not None
        else VectorItem(id=record.id, text=record.text)
        for record in records
    ]


def batches(records: Sequence[Waiting], dimensions: int) -> Iterator[list[Waiting]]:
    """Cut records into batches that the bus carries, there and back."""
    vector_bytes = dimensions * BYTES_A_DIMENSION
    batch: list[Waiting] = []
    size = 0
    for record in records:
        text = record.text if record.vector is None else ""
        cost = max(len(msgspec.json.encode(text)), vector_bytes)
        if batch and (len(batch) == BATCH_RECORDS or size + cost > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += cost
    if batch:
        yield batch
