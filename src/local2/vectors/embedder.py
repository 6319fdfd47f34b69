"""The interface of embedders, and the known models with their prefixes and scores.

Prefixes and dimensions are those of the model cards. Texts for a model that is not listed get no
prefix. `document_prefix`, `query_prefix`, `cosine_floor` and `min_score` in config/memory.yaml
override the values of the configured model.
"""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Protocol

import msgspec
import numpy as np
import numpy.typing as npt

from local2.errors import VectorError

FloatMatrix = npt.NDArray[np.float32]
"""One vector per row, each of unit length."""
OPENAI_PREFIX = "openai:"
"""Prefix of the names of an endpoint's embedders, since another server may have a model of the same
name."""
DEFAULT_MIN_SCORE = 0.3
"""`min_score` of models without measurements; it suits models whose cosine of unrelated texts is
about 0."""
INSTRUCTION = (
    "Instruct: Given a web search query, retrieve relevant passages that answer the query\n"
)
E5 = ("passage: ", "query: ")
E5_FLOOR = 0.72
"""Cosine of unrelated texts, measured for -small in five languages (docs/models.md); all E5 models
are trained to have cosines between 0.7 and 1."""
E5_MIN_SCORE = 0.2
"""Minimum score of a hit, relative to the floor."""


def unit_rows(matrix: FloatMatrix) -> FloatMatrix:
    """Scale each row to length 1; a row of zeros stays as it is."""
    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    scaled: FloatMatrix = matrix / np.maximum(lengths, np.finfo(np.float32).tiny)
    return scaled


class Embedder(Protocol):
    """Turns texts into vectors.

    Calls block, and may raise VectorError. Only one thread may call at a time, unless a server
    embeds.
    """

    @property
    def name(self) -> str:
        """Name of the embedder, which collections record."""

    @property
    def is_served(self) -> bool:
        """Whether a server embeds, so that questions may be sent during a batch."""

    @property
    def dimensions(self) -> int:
        """Length of a vector; the access may call the model."""

    @property
    def min_score(self) -> float:
        """Minimum cosine of a relevant hit, rescaled from the floor."""

    @property
    def floor(self) -> float:
        """Cosine of unrelated texts, from which cosines are rescaled; 0 for most embedders."""

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """One unit vector per text, in the order of the texts."""

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        """Yield positions in `texts` with their vectors, the shortest texts first.

        The chunks are small, so that a query does not wait long for the end of one.
        """

    def close(self) -> None: ...


class MissingEmbedder:
    """Stands in for an embedder that could not be loaded; every call raises the reason."""

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
    """What is known about an embedding model."""

    name: str
    document_prefix: str = ""
    query_prefix: str = ""
    dimensions: int | None = None
    """Length of its vectors, unless they are shortened; None if unknown, or if the model comes in
    several sizes."""
    min_score: float = DEFAULT_MIN_SCORE
    """Minimum cosine of a relevant hit, rescaled from the floor."""
    floor: float = 0.0
    """Cosine of unrelated texts, if far from 0; cosines are rescaled so that it becomes 0."""
    mean: float = 0.1
    deviation: float = 0.12
    """Mean and standard deviation of the cosines of a question and unrelated texts, rescaled."""
    multilingual: bool = False
    """Whether it understands many languages."""


KNOWN_MODELS = (
    KnownModel("all-minilm", dimensions=384, min_score=0.2),  # measured (docs/performance.md)
    KnownModel("nomic-embed-text", "search_document: ", "search_query: ", 768),
    KnownModel("bge-m3", dimensions=1024, multilingual=True),
    KnownModel(
        "embeddinggemma",
        "title: none | text: ",
        "task: search result | query: ",
        768,
        multilingual=True,
    ),
    KnownModel("qwen3-embedding", query_prefix=f"{INSTRUCTION}Query:", multilingual=True),
    KnownModel("multilingual-e5-small", *E5, 384, E5_MIN_SCORE, E5_FLOOR, multilingual=True),
    KnownModel(
        "all-MiniLM-L6-v2+multilingual-e5-small",
        dimensions=768,
        min_score=0.14,
        floor=0.62,
        mean=0.15,
        deviation=0.09,
        multilingual=True,
    ),
    KnownModel("multilingual-e5-base", *E5, 768, E5_MIN_SCORE, E5_FLOOR, multilingual=True),
    KnownModel("multilingual-e5-large", *E5, 1024, E5_MIN_SCORE, E5_FLOOR, multilingual=True),
    KnownModel(
        "multilingual-e5-large-instruct",
        "",
        f"{INSTRUCTION}Query: ",
        1024,
        E5_MIN_SCORE,
        E5_FLOOR,
        multilingual=True,
    ),
    KnownModel("text-embedding-3-small", dimensions=1536, multilingual=True),
    KnownModel("text-embedding-3-large", dimensions=3072, multilingual=True),
    KnownModel(
        "mxbai-embed-large",
        query_prefix="Represent this sentence for searching relevant passages: ",
        dimensions=1024,
    ),
)
"""The known models. `min_score` and `floor` were measured only where a comment says so, `mean` and
`deviation` for the built-in embedders (decision 0065)."""


@lru_cache(maxsize=64)
def known(name: str) -> KnownModel:
    """What is known about a model, whatever vendor prefix and tag its name has."""
    fitting = [
        model
        for model in KNOWN_MODELS
        if re.search(rf"\b{re.escape(model.name.lower())}(?![^\W_])", name.lower())
    ]
    return max(fitting, key=lambda model: len(model.name), default=KnownModel(name))
