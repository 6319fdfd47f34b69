"""A collection keeps the embedder that it was built with."""

from pathlib import Path

import msgspec
import pytest

from local2.errors import ConfigError, VectorError
from local2.settings import EmbedderChoice, MemorySettings, Settings
from local2.vectors.choice import choose_embedder
from local2.vectors.config import WorkerConfig
from local2.vectors.embedder import Embedder
from local2.vectors.minilm import MiniLM
from local2.vectors.ollama import OllamaEmbedder
from local2.vectors.served import OpenAIEmbedder
from stand_ins.ollama_server import OllamaStandIn

NOMIC = "nomic-embed-text"
MINILM = "all-MiniLM-L6-v2"


def choose(
    preference: EmbedderChoice, recorded: str | None, ollama: OllamaStandIn, models_dir: Path
) -> Embedder:
    memory = MemorySettings(embedder=preference, embedding_model=NOMIC, ollama_url=ollama.url)
    config = WorkerConfig.from_settings(Settings(memory=memory), "nats://127.0.0.1", "", None)
    return choose_embedder(msgspec.structs.replace(config, models_dir=models_dir), recorded)


@pytest.mark.parametrize(
    ("preference", "recorded", "chosen"),
    [
        pytest.param("auto", None, NOMIC, id="new: Ollama, as it answers"),
        pytest.param("auto", MINILM, MINILM, id="recorded: MiniLM"),
        pytest.param("auto", "bge-m3", "bge-m3", id="recorded: another Ollama model"),
        pytest.param("minilm", NOMIC, MINILM, id="configured: MiniLM"),
        pytest.param("auto", f"{MINILM}-int8", f"{MINILM}-int8", id="recorded: MiniLM in 8 bits"),
        pytest.param("minilm-int8", MINILM, f"{MINILM}-int8", id="configured: MiniLM in 8 bits"),
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
    assert isinstance(embedder, MiniLM if chosen.startswith(MINILM) else OllamaEmbedder)


def test_a_new_collection_gets_minilm_if_ollama_lacks_the_model(
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


@pytest.mark.parametrize(
    ("preference", "recorded", "chosen"),
    [
        pytest.param("auto", None, f"openai:{NOMIC}", id="new: the endpoint, as it is configured"),
        pytest.param("auto", "openai:bge-m3", "openai:bge-m3", id="recorded: another model of it"),
        pytest.param("auto", NOMIC, NOMIC, id="recorded: Ollama's of the same name"),
        pytest.param("openai", NOMIC, f"openai:{NOMIC}", id="configured: the endpoint"),
        pytest.param("ollama", None, NOMIC, id="configured: Ollama"),
    ],
)
def test_a_configured_endpoint_is_used(
    preference: EmbedderChoice, recorded: str | None, chosen: str
) -> None:
    memory = MemorySettings(embedder=preference, openai_url="http://127.0.0.1:1/v1")
    config = WorkerConfig.from_settings(Settings(memory=memory), "nats://127.0.0.1", "", None)

    embedder = choose_embedder(WorkerConfig.from_line(config.to_line().decode()), recorded)
    embedder.close()

    assert embedder.name == chosen
    assert isinstance(embedder, OpenAIEmbedder if chosen.startswith("openai:") else OllamaEmbedder)


def test_a_recorded_model_of_an_endpoint_needs_that_endpoint(
    ollama: OllamaStandIn, tmp_path: Path
) -> None:
    with pytest.raises(VectorError, match="Set openai_url"):
        choose("auto", "openai:bge-m3", ollama, tmp_path)


def test_demanding_an_endpoint_without_an_address_is_a_config_error() -> None:
    settings = Settings(memory=MemorySettings(embedder="openai"))
    with pytest.raises(ConfigError, match="names no endpoint"):
        WorkerConfig.from_settings(settings, "nats://127.0.0.1", "", None)


def test_the_key_is_read_once_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-mark")
    memory = MemorySettings(openai_url="http://127.0.0.1:1/v1", openai_key="SOME_KEY")
    config = WorkerConfig.from_settings(Settings(memory=memory), "nats://127.0.0.1", "", None)

    assert config.openai is not None
    assert config.openai.key == "sk-mark"
    assert "sk-mark" not in repr(config)
