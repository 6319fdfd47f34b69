"""What an embedder is, and which one a collection gets.

Vectors of different embedders cannot be compared, so a collection keeps the one that it was built
with, whatever else becomes available.
"""

from collections.abc import Iterator, Sequence
from typing import Protocol

from local.errors import VectorError
from local.vectors import minilm, ollama, openai
from local.vectors.config import WorkerConfig
from local.vectors.matrix import FloatMatrix

__all__ = ["Embedder", "FloatMatrix", "MissingEmbedder", "choose_embedder"]


class Embedder(Protocol):
    """Turns texts into vectors; blocking, for one thread at a time. Calls may raise VectorError."""

    @property
    def name(self) -> str:
        """The name that a collection records of the embedder it was built with."""

    @property
    def dimensions(self) -> int:
        """The length of a vector; it may be necessary to ask the model."""

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


def named_embedder(config: WorkerConfig, name: str) -> Embedder:
    """The embedder of a name: MiniLM's, that of an endpoint's model, or of one of Ollama's.

    Raises:
        VectorError: MiniLM cannot be loaded, or no endpoint is configured. Nobody is asked yet.
    """
    if name in {minilm.MODEL, "minilm"}:
        return minilm.MiniLM.load(config.models_dir)
    if not name.startswith(openai.PREFIX):
        return ollama.OllamaEmbedder(config.ollama_url, name, config.form_of(name))
    if config.openai is None:
        raise VectorError(
            f"{name} is a model of an endpoint, and none is configured.",
            remedy="Set openai_url in config/memory.yaml.",
        )
    model = name.removeprefix(openai.PREFIX)
    return openai.OpenAIEmbedder(
        config.openai, model, config.form_of(model), batch=config.embedding_batch
    )


def fixed_embedder(config: WorkerConfig) -> str | None:
    """The name of the one embedder that the settings allow; None with `auto`."""
    model = config.embedding_model
    names = {
        "minilm": minilm.MODEL,
        "ollama": model.removesuffix(":latest"),
        "openai": openai.PREFIX + model,
    }
    return names.get(config.embedder)


def choose_embedder(config: WorkerConfig, recorded: str | None) -> Embedder:
    """Choose the embedder, but never another one than a collection was built with.

    `embedder: auto` takes the recorded one; for a new collection that of the endpoint if one is
    configured, else Ollama if it answers and has `embedding_model`, else MiniLM. Ollama has to
    answer now only if `auto` has to choose.

    Args:
        config: says which is wanted, and where each is found.
        recorded: the name of the embedder that the collection was built with, None for a new one.

    Raises:
        VectorError: MiniLM was chosen and cannot be loaded, or an endpoint that is not configured.
    """
    fixed = fixed_embedder(config)
    if fixed is None and recorded is not None:
        return named_embedder(config, recorded)
    if fixed is None and config.openai is not None:
        fixed = openai.PREFIX + config.embedding_model
    if fixed is None:
        answers = ollama.probe(config.ollama_url, config.embedding_model)
        fixed = config.embedding_model if answers else minilm.MODEL
    return named_embedder(config, fixed)
