"""Texts are embedded by an Ollama server, and every failure of it is a VectorError."""

from collections.abc import Iterator
from typing import Any

import pytest

from local2.errors import VectorError
from local2.vectors.ollama import OllamaEmbedder, probe
from stand_ins.ollama_server import OllamaStandIn

MODEL = "nomic-embed-text"


@pytest.fixture
def embedder(ollama: OllamaStandIn) -> Iterator[OllamaEmbedder]:
    embedder = OllamaEmbedder(ollama.url, MODEL)
    yield embedder
    embedder.close()


def test_the_tag_latest_does_not_change_the_name(ollama: OllamaStandIn) -> None:
    embedder = OllamaEmbedder(ollama.url, f"{MODEL}:latest")
    embedder.close()
    assert embedder.name == MODEL


def test_a_missing_model_can_be_pulled(ollama: OllamaStandIn, embedder: OllamaEmbedder) -> None:
    ollama.models.clear()
    with pytest.raises(VectorError, match="not found") as caught:
        embedder.embed_queries(["x"])
    assert caught.value.remedy == f"Run `ollama pull {MODEL}`."


def test_a_server_that_is_down_is_an_error_until_it_answers_again(
    ollama: OllamaStandIn, embedder: OllamaEmbedder
) -> None:
    ollama.fail_next(status=503, error="busy")
    with pytest.raises(VectorError, match="busy"):
        list(embedder.embed_documents(["x"]))
    assert len(embedder.embed_queries(["x"])) == 1
    ollama.stop()
    with pytest.raises(VectorError, match="did not embed 1 text") as caught:
        embedder.embed_queries(["x"])
    assert caught.value.remedy is not None
    assert "ollama serve" in caught.value.remedy


@pytest.mark.parametrize(
    "embeddings",
    [
        pytest.param(b"[0.6, 0.8], [NaN, 1.0]", id="not a number"),
        pytest.param(b"[0.6, 0.8], [1e39, 1.0]", id="infinite as a float32"),
        pytest.param(b"[0.6, 0.8], [null, 1.0]", id="null"),
        pytest.param(b'[0.6, 0.8], ["one", 1.0]', id="text"),
        pytest.param(b"[0.6, 0.8], [1.0]", id="too short"),
        pytest.param(b"[0.6, 0.8], []", id="empty"),
        pytest.param(b"[0.6, 0.8], 1.0", id="no list"),
        pytest.param(b"", id="none"),
        pytest.param(b"[1.0], [1.0], [1.0]", id="too many"),
    ],
)
def test_invalid_embeddings_are_a_one_line_error(
    embeddings: bytes, embedder: OllamaEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def send_answer(handler: Any, _: Any) -> None:
        handler._send_head(200, "application/json")
        handler.wfile.write(b'{"embeddings": [%s]}' % embeddings)

    monkeypatch.setattr("stand_ins.ollama_server._Handler._embed", send_answer)
    with pytest.raises(VectorError, match=f"did not embed 2 texts with {MODEL}: ") as caught:
        list(embedder.embed_documents(["x", "y"]))
    assert "\n" not in str(caught.value)
    assert "Update Ollama" in str(caught.value.remedy)


def test_a_probe_finds_a_server_that_has_the_model(ollama: OllamaStandIn) -> None:
    assert probe(ollama.url, MODEL)
    assert probe(ollama.url, f"{MODEL}:latest")
    assert not probe(ollama.url, "another-model")
    ollama.fail_next()
    assert not probe(ollama.url, MODEL)
    ollama.stop()
    assert not probe(ollama.url, MODEL)
