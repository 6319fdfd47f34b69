"""Joins the vectors of MiniLM and E5, each of which finds what the other misses.

The cosine of two joined vectors is the weighted mean of the two models' cosines. E5's weigh more,
since those of unrelated texts differ less: theirs have a deviation of .03, MiniLM's of .12.
"""

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from local2.vectors import e5, minilm
from local2.vectors.e5 import MultilingualE5
from local2.vectors.embedder import FloatMatrix, known
from local2.vectors.minilm import MiniLM

MODEL = f"{minilm.MODEL}+{e5.MODEL}"
E5_WEIGHT = 6.0
"""Weight of E5's cosine, MiniLM's being 1."""


class JoinedEmbedder:
    """An Embedder whose vectors are MiniLM's and E5's, one after the other."""

    name = MODEL
    is_served = False
    dimensions = MiniLM.dimensions + MultilingualE5.dimensions
    min_score = known(MODEL).min_score
    floor = known(MODEL).floor

    def __init__(self, minilm: MiniLM, e5: MultilingualE5) -> None:
        self._minilm = minilm
        self._e5 = e5

    @classmethod
    def load(cls, models_dir: Path) -> "JoinedEmbedder":
        """Load both.

        Raises:
            VectorError: The weights of one are missing or damaged.
        """
        return cls(MiniLM.load(models_dir), MultilingualE5.load())

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        return _join(self._minilm.embed_queries(texts), self._e5.embed_queries(texts))

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        """Yield positions in `texts` with their vectors, the shortest texts first."""
        for positions, vectors in self._e5.embed_documents(texts):
            others = self._minilm.embed_queries([texts[position] for position in positions])
            yield positions, _join(others, vectors)

    def close(self) -> None:
        """Do nothing: the networks are freed with their embedder."""


def _join(minilm: FloatMatrix, e5: FloatMatrix) -> FloatMatrix:
    total = 1 + E5_WEIGHT
    return np.hstack([minilm * math.sqrt(1 / total), e5 * math.sqrt(E5_WEIGHT / total)])
