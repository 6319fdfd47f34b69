"""Records on their way to the vector worker, cut into what the bus carries."""

from collections.abc import Iterator, Sequence

import msgspec

from local.memory.records import Waiting
from local.protocol.vectors import VectorItem

BATCH_RECORDS = 128
BATCH_BYTES = 400_000
"""Of a request or its answer, well below what the bus carries."""
BYTES_A_DIMENSION = 6
"""A float32 in base64, rounded up."""


def items_of(records: Sequence[Waiting]) -> list[VectorItem]:
    """The records as the vector worker takes them: texts, or vectors where they are known."""
    return [
        VectorItem(id=record.id, vector=record.vector)
        if record.vector is not None
        else VectorItem(id=record.id, text=record.text)
        for record in records
    ]


def batches(records: Sequence[Waiting], dimensions: int) -> Iterator[list[Waiting]]:
    """Cut records into batches that the bus carries, there and back.

    Shortest texts first, since padding is what embedding wastes.
    """
    vector_bytes = dimensions * BYTES_A_DIMENSION
    batch: list[Waiting] = []
    size = 0
    for record in sorted(records, key=lambda r: len(r.text)):
        text = record.text if record.vector is None else ""
        cost = max(len(msgspec.json.encode(text)), vector_bytes)
        if batch and (len(batch) == BATCH_RECORDS or size + cost > BATCH_BYTES):
            yield batch
            batch, size = [], 0
        batch.append(record)
        size += cost
    if batch:
        yield batch
