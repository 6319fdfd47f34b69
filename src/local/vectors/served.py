"""What embedders have in common whose model is served by somebody else."""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

import numpy as np

from local.vectors.known_models import KnownModel
from local.vectors.matrix import FloatMatrix


class ServedEmbedder(ABC):
    """An Embedder that needs its server only when called, and tries it again after a failure."""

    def __init__(self, form: KnownModel, *, batch: int) -> None:
        """`form`: what the model wants before a text. `batch`: texts in one request."""
        self._form = form
        self._batch = batch
        self._dimensions: int | None = None

    @property
    def min_score(self) -> float:
        return self._form.min_score

    @property
    def floor(self) -> float:
        return self._form.floor

    @property
    def dimensions(self) -> int:
        """The length of a vector, which is asked of the model once.

        Raises:
            VectorError: The server has not answered yet.
        """
        if self._dimensions is None:
            self._dimensions = self.embed_queries(["dimensions"]).shape[1]
        return self._dimensions

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        prefix, size = self._form.query_prefix, self._batch
        batches = [
            self._embed([prefix + text for text in texts[start : start + size]], query=True)
            for start in range(0, len(texts), size)
        ]
        return np.concatenate(batches) if batches else np.empty((0, self.dimensions), np.float32)

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        """Yield positions in `texts` with their vectors, shortest texts first."""
        order = sorted(range(len(texts)), key=lambda position: len(texts[position]))
        prefix, size = self._form.document_prefix, self._batch
        for start in range(0, len(order), size):
            positions = order[start : start + size]
            yield positions, self._embed([prefix + texts[i] for i in positions], query=False)

    @abstractmethod
    def _embed(self, texts: list[str], *, query: bool) -> FloatMatrix:
        """One vector of length 1 a text.

        Raises:
            VectorError: The server did not answer with them.
        """

    def _wrong(self, vectors: FloatMatrix, texts: int) -> str | None:
        """What is wrong with an answer that has the right form, or None."""
        if len(vectors) != texts:
            return f"{len(vectors)} vectors"
        length = vectors.shape[1]
        if not length or length != (self._dimensions or length):
            return f"vectors of {length} numbers"
        return None if np.isfinite(vectors).all() else "vectors that are not finite"
