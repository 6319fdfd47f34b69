"""Chooses the embedder of a collection.

Vectors of different embedders cannot be compared, so a collection keeps the embedder that it was
built with, whichever others become available.
"""

from local2.errors import VectorError
from local2.vectors import joined, minilm
from local2.vectors.config import WorkerConfig
from local2.vectors.embedder import OPENAI_PREFIX, Embedder
from local2.vectors.served import OpenAIEmbedder


def named_embedder(config: WorkerConfig, name: str) -> Embedder:
    """The embedder with a name: a built-in one, a model of an endpoint, or one of Ollama.

    No request is sent yet.

    Raises:
        VectorError: A built-in one cannot be loaded, or no endpoint is configured.
    """
    if name in {minilm.MODEL, "minilm"}:
        return minilm.MiniLM.load(config.models_dir)
    if name in {minilm.INT8_MODEL, "minilm-int8"}:
        return minilm.MiniLM.load_int8()
    if name in {joined.MODEL, "minilm+e5"}:
        return joined.JoinedEmbedder.load(config.models_dir)
    if not name.startswith(OPENAI_PREFIX):
        # The package takes 7 MB, and a second of a start on a busy machine.
        from local2.vectors.ollama import OllamaEmbedder  # noqa: PLC0415

        return OllamaEmbedder(config.ollama_url, name, config.properties_of(name))
    if config.openai is None:
        raise VectorError(
            f"{name} is a model of an endpoint, and none is configured.",
            remedy="Set openai_url in config/memory.yaml.",
        )
    model = name.removeprefix(OPENAI_PREFIX)
    return OpenAIEmbedder(
        config.openai, model, config.properties_of(model), batch=config.embedding_batch
    )


def fixed_embedder(config: WorkerConfig) -> str | None:
    """The name of the one embedder that the settings allow; None with `auto`."""
    model = config.embedding_model
    names = {
        "minilm": minilm.MODEL,
        "minilm-int8": minilm.INT8_MODEL,
        "minilm+e5": joined.MODEL,
        "ollama": model.removesuffix(":latest"),
        "openai": OPENAI_PREFIX + model,
    }
    return names.get(config.embedder)


def choose_embedder(config: WorkerConfig, recorded: str | None) -> Embedder:
    """Choose the embedder; with `embedder: auto`, keep the one that the collection was built with.

    For a new collection, `auto` chooses the endpoint's if one is configured, else Ollama's if it
    answers and has `embedding_model`, else MiniLM. Only then does Ollama have to answer now.

    Args:
        config: Which embedder is wanted, and where each is found.
        recorded: Name of the embedder that the collection was built with, None for a new one.

    Raises:
        VectorError: MiniLM was chosen and cannot be loaded, or no endpoint is configured.
    """
    fixed = fixed_embedder(config)
    if fixed is None and recorded is not None:
        return named_embedder(config, recorded)
    if fixed is None and config.openai is not None:
        fixed = OPENAI_PREFIX + config.embedding_model
    if fixed is None:
        from local2.vectors.ollama import probe  # noqa: PLC0415

        answers = probe(config.ollama_url, config.embedding_model)
        fixed = config.embedding_model if answers else minilm.MODEL
    return named_embedder(config, fixed)
