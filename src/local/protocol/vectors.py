"""Payloads of `vector.*`, between the memory and the vector worker. Vectors are float32 bytes."""

import msgspec


class VectorHit(msgspec.Struct, array_like=True, frozen=True):
    id: str
    cosine: float


class VectorSearch(msgspec.Struct, kw_only=True):
    """`limit` 0 asks for the text's vector only. After `patience` seconds nobody waits for it."""

    text: str
    limit: int
    patience: float = 5.0
    tenant: str = "default"


class VectorHits(msgspec.Struct, kw_only=True):
    """Best first. `min_score` is the cosine below which this embedder's hits are noise.

    `question` is the vector of the text that was searched for.
    """

    hits: list[VectorHit]
    min_score: float
    embedder: str
    question: bytes = b""


class VectorItem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One record to index: its text, or its vector where the ledger has it already."""

    id: str
    text: str = ""
    vector: bytes | None = None


class VectorUpsert(msgspec.Struct, kw_only=True):
    items: list[VectorItem]
    tenant: str = "default"


class VectorsStored(msgspec.Struct, kw_only=True):
    """All items are in the index; `vectors` are those of the items that came as text, in order."""

    vectors: list[bytes]
    embedder: str


class VectorDelete(msgspec.Struct, kw_only=True):
    ids: list[str]
    tenant: str = "default"


class VectorIds(msgspec.Struct, kw_only=True):
    """Ask for a page of the ids in the index."""

    offset: int
    limit: int
    tenant: str = "default"


class VectorIdPage(msgspec.Struct, kw_only=True):
    ids: list[str]


class VectorCheck(msgspec.Struct, kw_only=True):
    """Ask which of these vectors do not find themselves; answered by a VectorIdPage."""

    items: list[VectorItem]
    tenant: str = "default"


class WorkerReady(msgspec.Struct, kw_only=True):
    """`vector.ready`: the worker of this id serves from now on."""

    worker: str


class TenantOnly(msgspec.Struct, kw_only=True):
    tenant: str = "default"


class VectorReset(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Empty the tenant's index; with `whole` the folder that it lies in, which is damaged."""

    tenant: str = "default"
    whole: bool = False


class VectorStatus(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What is indexed, by which embedder.

    `worker` is an id, another one after every start. `clean` is False when the last worker was
    killed, so that its index must be compared with the ledger. `dimensions` is 0 while unknown.
    `problem` says why searches fail, and what to do.
    """

    worker: str
    count: int
    embedder: str
    clean: bool
    dimensions: int
    problem: str | None = None
