"""What turns texts into vectors, and the rule that picks one for a collection."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Protocol

from local.errors import VectorError
from local.settings import EmbedderChoice
from local.vectors import minilm, ollama
from local.vectors.matrix import FloatMatrix

__all__ = ["Embedder", "FloatMatrix", "MissingEmbedder", "choose_embedder"]


class Embedder(Protocol):
    """Blocking, and for one thread at a time; every call may raise VectorError."""

    @property
    def name(self) -> str:
        """What a collection records about the embedder it was built with."""

    @property
    def dimensions(self) -> int:
        """Length of each vector; may have to ask the model."""

    @property
    def min_score(self) -> float:
        """The cosine below which a hit is noise."""

    def embed_queries(self, texts: Sequence[str]) -> FloatMatrix:
        """Return one unit vector a text, in the order of `texts`."""

    def embed_documents(self, texts: Sequence[str]) -> Iterator[tuple[list[int], FloatMatrix]]:
        """Yield positions in `texts` with their vectors, shortest texts first.

        The chunks are small, so that a query need not wait long between two of them.
        """

    def close(self) -> None: ...


class MissingEmbedder:
    """Stands in for an embedder that could not be loaded: every call says why."""

    min_score = 0.0

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
        """Nothing is open."""


def choose_embedder(
    preference: EmbedderChoice,
    *,
    recorded: str | None,
    model: str,
    ollama_url: str,
    models_dir: Path,
) -> Embedder:
    """Pick the embedder, without ever changing the one a collection was built with.

    Args:
        preference: `auto` takes the recorded embedder; for a new collection Ollama if it answers
            and has `model`, else MiniLM.
        recorded: name of the embedder the collection was built with, None for a new one.
        model: the embedding model to ask Ollama for.
        ollama_url: where Ollama listens. It need not answer yet if it is not for `auto` to choose.
        models_dir: where downloaded models are kept.

    Raises:
        VectorError: MiniLM was chosen and cannot be loaded.
    """
    if preference == "auto" and recorded is not None:
        preference, model = ("minilm", model) if recorded == minilm.MODEL else ("ollama", recorded)
    elif preference == "auto":
        preference = "ollama" if ollama.probe(ollama_url, model) else "minilm"
    if preference == "minilm":
        return minilm.MiniLM.load(models_dir)
    return ollama.OllamaEmbedder(ollama_url, model)
