"""What embedders of Ollama and of OpenAI-compatible endpoints have in common, over HTTP."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from local2.endpoint.address import Endpoint
from local2.errors import VectorError
from local2.vectors.ollama import OllamaEmbedder
from local2.vectors.served import OpenAIEmbedder
from stand_ins.ollama_server import OllamaStandIn, embed
from stand_ins.openai_server import OpenAIStandIn

Server = OllamaStandIn | OpenAIStandIn
Embedder = OllamaEmbedder | OpenAIEmbedder
MODEL = "nomic-embed-text"


@pytest.fixture(params=["ollama", "openai"])
def server(request: pytest.FixtureRequest) -> Server:
    chosen: Server = request.getfixturevalue(request.param)
    return chosen


@pytest.fixture
def embedder(server: Server) -> Iterator[Embedder]:
    opened = make(server, MODEL)
    yield opened
    opened.close()


def make(server: Server, model: str) -> Embedder:
    if isinstance(server, OllamaStandIn):
        return OllamaEmbedder(server.url, model)
    return OpenAIEmbedder(Endpoint(url=server.url, settings="config/memory.yaml"), model)


def inputs(server: Server) -> list[list[str]]:
    path = "/api/embed" if isinstance(server, OllamaStandIn) else "embeddings"
    return [body["input"] for body in server.bodies(path)]


def answer_with(monkeypatch: pytest.MonkeyPatch, vector: list[float]) -> None:
    """Make the stand-ins embed each text so."""
    for module in ("ollama_server", "openai_server"):
        monkeypatch.setattr(f"stand_ins.{module}.embed", lambda _: vector)


def test_a_known_model_gets_its_prefixes_and_another_the_unchanged_text(
    server: Server, embedder: Embedder
) -> None:
    embedder.embed_queries(["Who?"])
    list(embedder.embed_documents(["Richard."]))
    server.models.append("plain:latest" if isinstance(server, OllamaStandIn) else "plain")
    other = make(server, "plain")
    other.embed_queries(["Who?"])
    other.close()

    assert inputs(server) == [["search_query: Who?"], ["search_document: Richard."], ["Who?"]]


def test_documents_are_sent_in_batches_of_32_shortest_first(
    server: Server, embedder: Embedder
) -> None:
    texts = ["x" * (70 - index) for index in range(70)]
    chunks = list(embedder.embed_documents(texts))

    assert [len(batch) for batch in inputs(server)] == [32, 32, 6]
    assert [position for positions, _ in chunks for position in positions] == [*range(69, -1, -1)]
    for positions, vectors in chunks:
        expected = [embed(f"search_document: {texts[position]}") for position in positions]
        np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_queries_keep_their_order(embedder: Embedder) -> None:
    texts = [f"question {'x' * (index % 7)} {index}" for index in range(40)]
    expected = [embed(f"search_query: {text}") for text in texts]

    np.testing.assert_allclose(embedder.embed_queries(texts), expected, atol=1e-6)


def test_only_dimensions_are_requested_once_without_a_text(
    server: Server, embedder: Embedder
) -> None:
    assert embedder.dimensions == embedder.dimensions == len(embed("any"))
    assert embedder.embed_queries([]).shape == (0, embedder.dimensions)
    assert list(embedder.embed_documents([])) == []
    assert len(inputs(server)) == 1


def test_vectors_are_scaled_to_unit_length(
    embedder: Embedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, [3.0, 4.0])

    np.testing.assert_allclose(embedder.embed_queries(["x"]), [[0.6, 0.8]], atol=1e-6)


def test_vectors_of_a_different_length_than_before_are_refused(
    embedder: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert embedder.dimensions == len(embed("any"))
    answer_with(monkeypatch, [0.6, 0.8])

    with pytest.raises(VectorError, match="returned vectors of 2 numbers"):
        embedder.embed_queries(["x"])
