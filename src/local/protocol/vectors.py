"""Payloads of `vector.*`, between memory and vector worker; vectors are bytes of float32."""

from typing import Literal

import msgspec


class VectorHit(msgspec.Struct, array_like=True, frozen=True):
    id: str
    cosine: float


class VectorSearch(msgspec.Struct, kw_only=True):
    """`limit` 0 asks for the text's vector only; the asker waits `patience` seconds."""

    text: str
    limit: int
    patience: float = 5.0
    tenant: str


class VectorHits(msgspec.Struct, kw_only=True):
    """Best first. Hits with a cosine below `min_score` are noise with this embedder.

    `question` is the vector of the text that was searched for; `cached`: it was known already.
    Unrelated texts have a cosine of about `floor`; scores, and `min_score`, are shares of the range
    above it.
    """

    hits: list[VectorHit]
    min_score: float
    embedder: str
    question: bytes = b""
    cached: bool = False
    floor: float = 0.0


class VectorItem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One record to index: its text, or its vector if the ledger already has it."""

    id: str
    text: str = ""
    vector: bytes | None = None


class VectorUpsert(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`into_next`: into the index of another embedder, which is being filled beside the other."""

    items: list[VectorItem]
    tenant: str
    into_next: bool = False


class VectorsStored(msgspec.Struct, kw_only=True):
    """All items are in the index; `vectors` are those of the items with text, in their order."""

    vectors: list[bytes]
    embedder: str


class VectorDelete(msgspec.Struct, kw_only=True):
    ids: list[str]
    tenant: str


class VectorIds(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Requests a page of the ids in the index, or in the next one; or of those `among` these."""

    offset: int
    limit: int
    tenant: str
    of_next: bool = False
    among: list[str] | None = None


class VectorIdPage(msgspec.Struct, kw_only=True):
    ids: list[str]


class VectorCheck(msgspec.Struct, kw_only=True):
    """Requests which of these vectors a search for them does not find; the answer: VectorIdPage."""

    items: list[VectorItem]
    tenant: str


class WorkerReady(msgspec.Struct, kw_only=True):
    """`vector.ready`: the worker with this id serves from now on."""

    worker: str


class TenantOnly(msgspec.Struct, kw_only=True):
    tenant: str


class VectorReset(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Empties the tenant's index, or with `whole` its folder, because it is damaged."""

    tenant: str
    whole: bool = False


class VectorNext(msgspec.Struct, kw_only=True):
    """Fills an index of another embedder beside the one that serves, or lets it serve.

    `begin` continues an index of that embedder if there is one; with the present embedder, the next
    index is given up. `swap` puts the next index in the place of the present one, which is deleted.
    """

    action: Literal["begin", "swap"]
    embedder: str
    tenant: str


class VectorStatus(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The content of the index, and its embedder.

    `worker` is an id, a new one after every start. `clean` is False if the worker before was
    killed, so that the index must be compared with the ledger. `dimensions` is 0 while unknown.
    `problem` is why searches fail, and what to do. `next` is the embedder of the index that is
    filled to replace this one, with the length of its vectors.
    """

    worker: str
    count: int
    embedder: str
    clean: bool
    dimensions: int
    problem: str | None = None
    next: str | None = None
    next_dimensions: int = 0
