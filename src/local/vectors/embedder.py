"""What an embedder is; what models want before a text, and their cosine for unrelated texts.

The figures of models are those of their cards. A model that is not listed gets its texts as they
are; `document_prefix`, `query_prefix`, `cosine_floor` and `min_score` in config/memory.yaml
override the figures of the configured one.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from local.errors import VectorError

FloatMatrix = npt.NDArray[np.float32]
"""One vector a row, each of unit length."""
DEFAULT_MIN_SCORE = 0.3
"""For models without measurements. It suits those whose cosines of unrelated texts are about 0."""
INSTRUCTION = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\n"
)
E5 = ("passage: ", "query: ")
E5_FLOOR = 0.72
"""Measured with -small, in five languages (docs/recall.md); all are trained to lie in 0.7 to 1."""
E5_MIN_SCORE = 0.2


def unit_rows(matrix: FloatMatrix) -> FloatMatrix:
    """Scale each row to length 1; a row of zeros stays as it is."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    scaled: FloatMatrix = matrix / np.maximum(lengths, np.finfo(np.float32).tiny)
    return scaled


class Embedder(Protocol):
    """Turns texts into vectors; blocking, for one thread at a time, unless a server embeds.

    Calls may raise VectorError.
    """

    @property
    def name(self) -> str:
        """The name of the embedder, which a collection records."""

    @property
    def is_served(self) -> bool:
        """Whether a server embeds: then questions may be sent during a batch."""

    @property
    def dimensions(self) -> int:
        """The length of a vector; this may ask the model."""

    @property
    def min_score(self) -> float:
        """The cosine below which a hit is noise, above the floor."""

    @property
    def floor(self) -> float:
        """The cosine of unrelated texts, from which on cosines count; 0 with most embedders."""

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return one unit vector for each text, in their order."""

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        """Yield positions in `texts` with their vectors, shortest texts first.

        The chunks are small, so that a query between two of them does not wait long.
        """

    def close(self) -> None: ...


class MissingEmbedder:
    """Takes the place of an embedder that could not be loaded; every call raises the reason."""

    min_score = floor = 0.0
    is_served = False

    def __init__(self, name: str, error: VectorError) -> None:
        self.name = name
        self._error = error

    @property
    def dimensions(self) -> int:
        raise self._error

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:  # noqa: ARG002
        raise self._error

    def embed_documents(
        self,
        texts: Sequence[str],  # noqa: ARG002
    ) -> Iterator[tuple[list[int], FloatMatrix]]:
        raise self._error

    def close(self) -> None:
        """Do nothing: there is nothing to close."""


class KnownModel(msgspec.Struct, frozen=True):
    name: str
    document_prefix: str = ""
    query_prefix: str = ""
    dimensions: int | None = None
    """The length of its vectors unless it is shortened; None: it has several sizes, or is
    unknown."""
    min_score: float = DEFAULT_MIN_SCORE
    """The cosine below which a hit is noise; where there is a floor, of what lies above it."""
    floor: float = 0.0
    """The cosine of unrelated texts, where that is far from 0: what lies above it counts, as a
    share of what can."""


KNOWN_MODELS = (
    KnownModel("all-minilm", dimensions=384, min_score=0.2),  # measured (docs/performance.md)
    KnownModel("nomic-embed-text", "search_document: ", "search_query: ", 768),
    KnownModel("bge-m3", dimensions=1024),
    KnownModel("embeddinggemma", "title: none | text: ", "task: search result | query: ", 768),
    KnownModel("qwen3-embedding", query_prefix=f"{INSTRUCTION}Query:"),
    KnownModel("multilingual-e5-small", *E5, 384, E5_MIN_SCORE, E5_FLOOR),
    KnownModel("multilingual-e5-base", *E5, 768, E5_MIN_SCORE, E5_FLOOR),
    KnownModel("multilingual-e5-large", *E5, 1024, E5_MIN_SCORE, E5_FLOOR),
    KnownModel(
        "multilingual-e5-large-instruct",
        "",
        f"{INSTRUCTION}Query: ",
        1024,
        E5_MIN_SCORE,
        E5_FLOOR,
    ),
    KnownModel("text-embedding-3-small", dimensions=1536),
    KnownModel("text-embedding-3-large", dimensions=3072),
    KnownModel(
        "mxbai-embed-large",
        query_prefix="Represent this sentence for searching relevant passages: ",
        dimensions=1024,
    ),
)
"""`min_score` and floor are measured only where a comment states it."""


def known(name: str) -> KnownModel:
    """Return what is known of a model, whatever vendor is before its name and tag behind it."""
    fitting = [
        model
        for model in KNOWN_MODELS
        if re.search(rf"\b{re.escape(model.name)}(?![^\W_])", name.lower())
    ]
    return max(fitting, key=lambda model: len(model.name), default=KnownModel(name))
