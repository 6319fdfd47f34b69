"""The embedder of a collection stays the one it was built with."""

from pathlib import Path

import msgspec
import pytest

from local.errors import VectorError
from local.settings import EmbedderChoice, MemorySettings, Settings
from local.vectors.config import WorkerConfig
from local.vectors.embedder import Embedder, choose_embedder
from local.vectors.minilm import MiniLM
from local.vectors.ollama import OllamaEmbedder
from stand_ins.ollama_server import OllamaStandIn

NOMIC = "nomic-embed-text"
MINILM = "all-MiniLM-L6-v2"


def choose(
    preference: EmbedderChoice, recorded: str | None, ollama: OllamaStandIn, models_dir: Path
) -> Embedder:
    memory = MemorySettings(embedder=preference, embedding_model=NOMIC, ollama_url=ollama.url)
    config = WorkerConfig.of(Settings(memory=memory), "nats://127.0.0.1", "", None)
    return choose_embedder(msgspec.structs.replace(config, models_dir=models_dir), recorded)


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
    ollama: OllamaStandIn,
    tmp_path: Path,
) -> None:
    embedder = choose(preference, recorded, ollama, tmp_path)
    embedder.close()
    assert embedder.name == chosen
    assert isinstance(embedder, MiniLM if chosen == MINILM else OllamaEmbedder)


def test_a_new_collection_gets_minilm_where_ollama_lacks_the_model(
    ollama: OllamaStandIn, tmp_path: Path
) -> None:
    ollama.models.remove(f"{NOMIC}:latest")
    assert choose("auto", None, ollama, tmp_path).name == MINILM


def test_a_recorded_ollama_model_is_kept_while_ollama_is_down(
    ollama: OllamaStandIn, tmp_path: Path
) -> None:
    ollama.stop()
    embedder = choose("auto", NOMIC, ollama, tmp_path)
    assert embedder.name == NOMIC
    with pytest.raises(VectorError):
        _ = embedder.dimensions
    embedder.close()
