"""Texts are embedded by OpenAI-compatible endpoints, and every failure is a VectorError."""

import struct
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from local2.endpoint.address import Endpoint
from local2.errors import VectorError, VectorFaultError
from local2.vectors import served as adapter
from local2.vectors.embedder import KnownModel
from local2.vectors.served import OpenAIEmbedder
from stand_ins.ollama_server import embed
from stand_ins.openai_server import Failure, OpenAIStandIn

MODEL = "nomic-embed-text"

pytestmark = pytest.mark.usefixtures("quick_retries")


@pytest.fixture
def embedder(openai: OpenAIStandIn) -> Iterator[OpenAIEmbedder]:
    embedder = make(openai)
    yield embedder
    embedder.close()


def make(openai: OpenAIStandIn, model: str = MODEL, **more: Any) -> OpenAIEmbedder:
    endpoint = Endpoint(url=openai.url, key="sk-mark", settings="config/memory.yaml")
    return OpenAIEmbedder(endpoint, model, **more)


def inputs(openai: OpenAIStandIn) -> list[list[str]]:
    return [body["input"] for body in openai.bodies("embeddings")]


def answer_with(monkeypatch: pytest.MonkeyPatch, *vectors: Any) -> None:
    """Make the stand-in answer with these embeddings."""
    data = [{"embedding": vector} for vector in vectors]
    monkeypatch.setattr(
        "stand_ins.openai_server._embeddings", lambda *_, **__: {"object": "list", "data": data}
    )


def test_configured_prefixes_and_the_key_are_sent(openai: OpenAIStandIn) -> None:
    openai.models.append("mine")
    embedder = make(openai, "mine", properties=KnownModel("mine", "D ", "Q "))
    embedder.embed_queries(["Who?"])
    embedder.close()

    assert inputs(openai) == [["Q Who?"]]
    assert openai.requests[0].headers["authorization"] == "Bearer sk-mark"


def test_vectors_are_also_read_from_numbers(
    openai: OpenAIStandIn, embedder: OpenAIEmbedder
) -> None:
    openai.speaks_base64 = False
    expected = [embed("search_query: x")]
    np.testing.assert_allclose(embedder.embed_queries(["x"]), expected, atol=1e-6)


def test_an_endpoint_that_refuses_base64_is_then_only_asked_for_numbers(
    openai: OpenAIStandIn, embedder: OpenAIEmbedder
) -> None:
    openai.refuses = {"base64"}
    expected = embed("search_query: x")
    for _ in range(2):
        np.testing.assert_allclose(embedder.embed_queries(["x"])[0], expected, atol=1e-6)
    forms = [body["encoding_format"] for body in openai.bodies("embeddings")]
    assert forms == ["base64", "float", "float"]


def test_documents_are_sent_in_batches_of_the_configured_size(openai: OpenAIStandIn) -> None:
    embedder = make(openai, batch=20)
    list(embedder.embed_documents(["x"] * 50))
    embedder.close()
    assert [len(batch) for batch in inputs(openai)] == [20, 20, 10]


def test_vectors_are_scaled_and_returned_in_the_order_of_their_texts(
    embedder: OpenAIEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = [{"index": 1, "embedding": [0, 2]}, {"index": 0, "embedding": [3, 4]}]
    monkeypatch.setattr("stand_ins.openai_server._embeddings", lambda *_, **__: {"data": data})
    np.testing.assert_allclose(
        embedder.embed_queries(["x", "y"]), [[0.6, 0.8], [0.0, 1.0]], atol=1e-6
    )


def test_a_batch_that_is_too_large_is_halved_and_a_text_that_is_too_long_is_cut(
    openai: OpenAIStandIn, embedder: OpenAIEmbedder
) -> None:
    openai.most_characters = 500
    texts = ["a" * 300, "b" * 300, "c" * 2_000]
    chunks = list(embedder.embed_documents(texts))
    accepted = [batch for batch in inputs(openai) if sum(map(len, batch)) <= 500]
    assert [len(batch) for batch in accepted] == [1, 1, 1]
    assert sum(len(positions) for positions, _ in chunks) == 3
    assert len(accepted[-1][0]) > 200
    before = len(inputs(openai))
    list(embedder.embed_documents(["d" * 2_000]))
    assert len(inputs(openai)) == before + 1


def test_a_temporary_failure_is_retried(openai: OpenAIStandIn, embedder: OpenAIEmbedder) -> None:
    openai.fail_next(
        Failure(status=503), Failure(status=429, headers={"Retry-After-Ms": "20"}), Failure()
    )
    ((positions, _),) = embedder.embed_documents(["x"])
    assert positions == [0]
    assert len(openai.requests) == 4


def test_a_long_pause_is_an_immediate_error_and_nothing_is_sent_until_it_ends(
    openai: OpenAIStandIn, embedder: OpenAIEmbedder
) -> None:
    openai.headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "1m"}
    embedder.embed_queries(["x"])
    for _ in range(2):
        with pytest.raises(VectorError, match=r"sent in \d+ s") as caught:
            list(embedder.embed_documents(["x"]))
        assert caught.value.retry_after == pytest.approx(60, abs=30)
    assert len(openai.requests) == 1


@pytest.mark.parametrize(
    ("failure", "kind", "message"),
    [
        pytest.param(Failure(status=401), VectorError, "refused the key", id="wrong key"),
        pytest.param(
            Failure(status=400, message="odd text"), VectorFaultError, "odd text", id="refused"
        ),
    ],
)
def test_a_permanent_failure_is_one_clear_error_without_a_retry(
    openai: OpenAIStandIn,
    embedder: OpenAIEmbedder,
    failure: Failure,
    kind: type[VectorError],
    message: str,
) -> None:
    openai.fail_next(failure)
    with pytest.raises(VectorError, match=f"{MODEL} did not embed 1 text: ") as caught:
        list(embedder.embed_documents(["x"]))
    assert type(caught.value) is kind
    assert message in caught.value.message
    assert caught.value.remedy
    assert "sk-mark" not in str(caught.value)
    assert len(openai.requests) == 1
    assert len(embedder.embed_queries(["x"])) == 1


def test_an_endpoint_that_hangs_times_out(
    openai: OpenAIStandIn, embedder: OpenAIEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "QUERY_SECONDS", 0.2)
    openai.trouble = "hangs"
    with pytest.raises(VectorError, match=r"did not answer within 0\.2 s"):
        embedder.embed_queries(["x"])


def test_an_endpoint_too_slow_for_a_batch_gets_smaller_ones(
    openai: OpenAIStandIn, embedder: OpenAIEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adapter, "DOCUMENT_SECONDS", 0.2)
    openai.trouble = "hangs"
    with pytest.raises(VectorError, match=r"did not answer within 0\.2 s"):
        list(embedder.embed_documents(["x"] * 40))
    openai.trouble = None
    monkeypatch.setattr(adapter, "DOCUMENT_SECONDS", 60.0)
    list(embedder.embed_documents(["x"] * 40))
    assert [len(batch) for batch in inputs(openai)] == [32, 16, 16, 8]


def test_no_text_is_lost_when_batches_shrink_while_others_are_embedded(
    openai: OpenAIStandIn, embedder: OpenAIEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Tenants' texts are embedded in turn, so a batch may shrink while another one is sent."""
    under_way = embedder.embed_documents(["x"] * 80)
    positions, _ = next(under_way)
    monkeypatch.setattr(adapter, "DOCUMENT_SECONDS", 0.2)
    openai.trouble = "hangs"
    with pytest.raises(VectorError, match=r"did not answer within 0\.2 s"):
        list(embedder.embed_documents(["another's"]))
    openai.trouble = None
    monkeypatch.setattr(adapter, "DOCUMENT_SECONDS", 60.0)

    rest = [position for chunk, _ in under_way for position in chunk]
    assert sorted(positions + rest) == list(range(80))


def test_an_endpoint_that_is_down_is_an_error_until_it_answers_again(
    openai: OpenAIStandIn, embedder: OpenAIEmbedder
) -> None:
    openai.trouble = "crashes"
    with pytest.raises(VectorError, match="No answer from http"):
        embedder.embed_queries(["x"])
    openai.trouble = None
    assert len(embedder.embed_queries(["x"])) == 1
    openai.stop()
    with pytest.raises(VectorError, match="No answer from http") as caught:
        embedder.embed_queries(["x"])
    assert "openai_url in config/memory.yaml" in str(caught.value.remedy)


def packed(*numbers: float) -> str:
    return b64encode(struct.pack(f"<{len(numbers)}f", *numbers)).decode()


@pytest.mark.parametrize(
    "vectors",
    [
        pytest.param([[0.6, 0.8]], id="too few"),
        pytest.param([[0.6, 0.8], [1.0]], id="of another length"),
        pytest.param([[0.6, 0.8], [1e39, 1.0]], id="infinite as a float32"),
        pytest.param([[0.6, 0.8], packed(float("nan"), 1.0)], id="not a number"),
        pytest.param([[0.6, 0.8], ["one", 1.0]], id="texts"),
        pytest.param([[], []], id="empty"),
        pytest.param(["", ""], id="empty in base64"),
        pytest.param(["?", "?"], id="no base64"),
        pytest.param(["AAA=", "AAA="], id="cut off"),
        pytest.param([7, 7], id="no lists"),
    ],
)
def test_invalid_embeddings_are_a_one_line_error(
    vectors: list[Any], embedder: OpenAIEmbedder, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer_with(monkeypatch, *vectors)
    with pytest.raises(VectorError, match=f"{MODEL} did not embed 2 texts: ") as caught:
        list(embedder.embed_documents(["x", "y"]))
    assert "\n" not in str(caught.value)
    assert caught.value.remedy
