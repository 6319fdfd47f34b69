"""Payloads of `vector.*`, between memory and vector worker; vectors are float32 bytes."""

from typing import Literal

import msgspec


class VectorHit(msgspec.Struct, array_like=True, frozen=True):
    id: str
    cosine: float


class VectorSearch(msgspec.Struct, kw_only=True):
    """Request the nearest vectors of a text; the client waits `patience` seconds.

    A `limit` of 0 requests only the text's own vector.
    """

    text: str
    limit: int
    patience: float = 5.0
    tenant: str


class VectorHits(msgspec.Struct, kw_only=True):
    """The hits of a search, best first; with this embedder, hits below `min_score` are noise.

    `question`: the vector of the searched text; `cached`: it was not embedded again. Unrelated
    texts have a cosine of about `floor`; scores and `min_score` are fractions of the range above.
    """

    hits: list[VectorHit]
    min_score: float
    embedder: str
    question: bytes = b""
    cached: bool = False
    floor: float = 0.0


class VectorRerank(msgspec.Struct, kw_only=True):
    """Request the scores of documents, best first so far; the worker reads for `patience` seconds.

    It is of no tenant: the documents are in the request, and nothing of them is kept.
    """

    query: str
    documents: list[str]
    patience: float


class VectorScores(msgspec.Struct, kw_only=True):
    """How well the first documents answer the question, from 0 to 1: those that were read."""

    scores: list[float]


class VectorItem(msgspec.Struct, kw_only=True, omit_defaults=True):
    """A record to index: its text, or its vector if the ledger already contains that."""

    id: str
    text: str = ""
    vector: bytes | None = None


class VectorUpsert(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Items to index; `into_next`: into the index of another embedder that is being filled."""

    items: list[VectorItem]
    tenant: str
    into_next: bool = False


class VectorsStored(msgspec.Struct, kw_only=True):
    """All items are indexed; `vectors` are the vectors of the items with text, in order."""

    vectors: list[bytes]
    embedder: str


class VectorDelete(msgspec.Struct, kw_only=True):
    ids: list[str]
    tenant: str


class VectorIds(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Request a page of the ids in the index, or in the next one; or those `among` given ids."""

    offset: int
    limit: int
    tenant: str
    of_next: bool = False
    among: list[str] | None = None


class VectorIdPage(msgspec.Struct, kw_only=True):
    ids: list[str]


class VectorCheck(msgspec.Struct, kw_only=True):
    """Request the ids of the vectors that a search does not find; the answer is a VectorIdPage."""

    items: list[VectorItem]
    tenant: str


class WorkerReady(msgspec.Struct, kw_only=True):
    """`vector.ready`: the worker with this id has started to serve.

    `problem`: why it could not open the index instead, and ends.
    """

    worker: str
    problem: str | None = None


class TenantOnly(msgspec.Struct, kw_only=True):
    tenant: str


class VectorReset(msgspec.Struct, kw_only=True, omit_defaults=True):
    """Empty the tenant's index; with `whole`, empty the folder because it is damaged."""

    tenant: str
    whole: bool = False


class VectorNext(msgspec.Struct, kw_only=True):
    """Fill the index of another embedder beside the current one, or switch to it.

    `begin` continues an existing next index of that embedder; with the current embedder, it drops
    the next index. `swap` replaces the current index by the next one, and deletes the former.
    """

    action: Literal["begin", "swap"]
    embedder: str
    tenant: str


class VectorStatus(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The state of the index, and its embedder.

    `worker`: an id that changes with every start. `clean`: False if the previous worker was killed,
    so that the index must be compared with the ledger. `dimensions`: 0 while unknown. `problem`:
    why searches fail, and what to do. `next`: the embedder of the index that is being filled to
    replace this one; its vectors have `next_dimensions`.
    """

    worker: str
    count: int
    embedder: str
    clean: bool
    dimensions: int
    problem: str | None = None
    next: str | None = None
    next_dimensions: int = 0
