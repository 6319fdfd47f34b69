"""Known embedding models are found by any spelling of their names; settings take precedence."""

from pathlib import Path

import pytest

from local2.settings import MemorySettings, Settings
from local2.vectors.config import WorkerConfig
from local2.vectors.embedder import DEFAULT_MIN_SCORE, KNOWN_MODELS, known


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("nomic-embed-text:latest", "nomic-embed-text"),
        ("nomic-ai/nomic-embed-text-v1.5", "nomic-embed-text"),
        ("BAAI/bge-m3", "bge-m3"),
        ("google/embeddinggemma-300m", "embeddinggemma"),
        ("qwen3-embedding:0.6b", "qwen3-embedding"),
        ("hf.co/Qwen/Qwen3-Embedding-0.6B-GGUF:Q8_0", "qwen3-embedding"),
        ("intfloat/multilingual-e5-small", "multilingual-e5-small"),
        ("jeffh/intfloat-multilingual-e5-large:f16", "multilingual-e5-large"),
        ("multilingual-e5-large-instruct", "multilingual-e5-large-instruct"),
        ("openai/text-embedding-3-small", "text-embedding-3-small"),
        ("sentence-transformers/all-MiniLM-L6-v2", "all-minilm"),
        ("all-minilm:latest", "all-minilm"),
        ("mixedbread-ai/mxbai-embed-large-v1", "mxbai-embed-large"),
    ],
)
def test_a_model_is_recognised_with_any_vendor_and_tag(name: str, model: str) -> None:
    assert known(name).name == model


@pytest.mark.parametrize("name", ["some-embedder", "bge-m31", "my/bge", ""])
def test_other_models_are_unknown(name: str) -> None:
    model = known(name)
    assert (model.document_prefix, model.query_prefix, model.dimensions) == ("", "", None)
    assert model.min_score == DEFAULT_MIN_SCORE


def test_each_model_is_listed_once() -> None:
    assert len({model.name for model in KNOWN_MODELS}) == len(KNOWN_MODELS)
    assert all(known(model.name) is model for model in KNOWN_MODELS)


def test_settings_take_precedence_for_the_configured_model_only(tmp_path: Path) -> None:
    memory = MemorySettings(embedding_model="bge-m3", query_prefix="Q: ", data_dir=tmp_path)
    config = WorkerConfig.from_settings(Settings(memory=memory), "nats://127.0.0.1", "", None)
    assert config.properties_of("bge-m3:latest").query_prefix == "Q: "
    assert config.properties_of("bge-m3").document_prefix == ""
    assert config.properties_of("nomic-embed-text").query_prefix == "search_query: "


def test_a_known_floor_can_be_overridden() -> None:
    assert known("intfloat/multilingual-e5-base").floor > 0.5
    assert known("bge-m3").floor == 0
    memory = MemorySettings(embedding_model="bge-m3", cosine_floor=0.4)
    config = WorkerConfig.from_settings(Settings(memory=memory), "nats://127.0.0.1", "", None)
    assert config.properties_of("bge-m3").floor == 0.4
    assert config.properties_of("multilingual-e5-base") == known("multilingual-e5-base")


def test_an_empty_setting_removes_a_known_prefix() -> None:
    memory = MemorySettings(document_prefix="")
    config = WorkerConfig.from_settings(Settings(memory=memory), "nats://127.0.0.1", "", None)
    assert config.properties_of("nomic-embed-text").document_prefix == ""
    assert config.properties_of("nomic-embed-text").query_prefix == "search_query: "
