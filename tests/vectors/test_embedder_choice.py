"""The embedder of a collection stays the one it was built with."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from local.errors import VectorError
from local.settings import EmbedderChoice
from local.vectors.embedder import Embedder, choose_embedder
from local.vectors.minilm import MiniLM
from local.vectors.ollama import OllamaEmbedder
from stand_ins.ollama_server import OllamaStandIn

NOMIC = "nomic-embed-text"
MINILM = "all-MiniLM-L6-v2"


@pytest.fixture
def server() -> Iterator[OllamaStandIn]:
    with OllamaStandIn() as stand_in:
        yield stand_in


def choose(
    preference: EmbedderChoice, recorded: str | None, server: OllamaStandIn, models_dir: Path
) -> Embedder:
    return choose_embedder(
        preference, recorded=recorded, model=NOMIC, ollama_url=server.url, models_dir=models_dir
    )


@pytest.mark.parametrize(
    ("preference", "recorded", "chosen"),
    [
        pytest.param("auto", None, NOMIC, id="new: Ollama, as it answers"),
        pytest.param("auto", MINILM, MINILM, id="recorded: MiniLM"),
        pytest.param("auto", "bge-m3", "bge-m3", id="recorded: another Ollama model"),
        pytest.param("minilm", NOMIC, MINILM, id="configured: MiniLM"),
        pytest.param("ollama", MINILM, NOMIC, id="configured: Ollama"),
    ],
)
def test_the_choice_follows_preference_and_record(
    preference: EmbedderChoice,
    recorded: str | None,
    chosen: str,
    server: OllamaStandIn,
    tmp_path: Path,
) -> None:
    embedder = choose(preference, recorded, server, tmp_path)
    embedder.close()
    assert embedder.name == chosen
    assert isinstance(embedder, MiniLM if chosen == MINILM else OllamaEmbedder)


def test_a_new_collection_gets_minilm_where_ollama_lacks_the_model(
    server: OllamaStandIn, tmp_path: Path
) -> None:
    server.models.remove(f"{NOMIC}:latest")
    assert choose("auto", None, server, tmp_path).name == MINILM


def test_a_recorded_ollama_model_is_kept_while_ollama_is_down(
    server: OllamaStandIn, tmp_path: Path
) -> None:
    server.stop()
    embedder = choose("auto", NOMIC, server, tmp_path)
    assert embedder.name == NOMIC
    with pytest.raises(VectorError):
        _ = embedder.dimensions
    embedder.close()
