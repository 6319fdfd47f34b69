"""A cross-encoder scores pairs of texts in whatever form it was exported, for a limited time."""

import asyncio
import math
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pytest

from backlog_process import ToyEmbedder
from factories import ConnectBus
from local2.bus.connection import Connection
from local2.bus.vector_client import VectorClient, VectorRequests
from local2.errors import VectorError
from local2.model_files import DIGESTS_FILE, MODEL_FILE, TOKENIZER_FILE, Digests
from local2.protocol.vectors import VectorRerank
from local2.vectors.batches import MAX_TOKENS
from local2.vectors.cross_encoder import WINDOW, CrossEncoder, Reranking, Scores
from tiny_cross_encoder import Form, model_bytes, write_cross_encoder
from workers import vector_worker

QUESTION = "Is it lead, or is it gold?"
DOCUMENTS = ["gold and gold", "lead", "neither", "a long one about gold " + "and more " * 40]
LOGITS = [4.0, -2.0, 0.0, 2.0]


def scores_of(model: CrossEncoder, query: str, documents: Sequence[str]) -> list[float]:
    found: dict[int, float] = {}
    for positions, scores in model.scores(query, documents):
        found.update(zip(positions, scores.tolist(), strict=True))
    return [found[position] for position in range(len(documents))]


def logistic(logit: float) -> float:
    return 1 / (1 + math.exp(-logit))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return write_cross_encoder(tmp_path / "tiny")


@pytest.fixture
def model(folder: Path) -> CrossEncoder:
    return CrossEncoder.load(folder)


@pytest.mark.parametrize("form", ["column", "vector", "classes"])
@pytest.mark.parametrize("integers", ["int32", "int64"])
def test_every_usual_form_of_export_gives_the_same_scores(
    tmp_path: Path, form: Form, integers: Any
) -> None:
    exported = model_bytes(form, integers=integers)
    model = CrossEncoder.load(write_cross_encoder(tmp_path / "tiny", exported))

    assert scores_of(model, QUESTION, DOCUMENTS) == pytest.approx(list(map(logistic, LOGITS)))


def test_a_model_without_token_types_reads_question_and_document(tmp_path: Path) -> None:
    exported = model_bytes(types=None)
    model = CrossEncoder.load(write_cross_encoder(tmp_path / "tiny", exported))

    assert scores_of(model, "gold", DOCUMENTS[:2]) == pytest.approx([logistic(6), logistic(0)])


def test_a_document_has_the_same_score_alone_and_among_others(model: CrossEncoder) -> None:
    alone = [scores_of(model, QUESTION, [document])[0] for document in DOCUMENTS]

    assert scores_of(model, QUESTION, DOCUMENTS * 20) == pytest.approx(alone * 20)


@pytest.mark.parametrize("words", [0, 1, MAX_TOKENS, 3 * MAX_TOKENS])
def test_long_and_empty_texts_are_read_as_far_as_the_model_reads(
    model: CrossEncoder, words: int
) -> None:
    long = "word " * words

    (score,) = scores_of(model, long, [f"gold {long}"])
    assert score == pytest.approx(logistic(2))
    assert scores_of(model, QUESTION, [long]) == [0.5]


def test_the_first_documents_are_read_first(model: CrossEncoder) -> None:
    documents = ["word " * (position * 37 % 200) for position in range(3 * WINDOW)]
    read = [
        position for positions, _ in model.scores(QUESTION, documents) for position in positions
    ]

    windows = [sorted(read[start : start + WINDOW]) for start in range(0, len(read), WINDOW)]
    assert [position for window in windows for position in window] == list(range(3 * WINDOW))


def test_a_score_that_is_no_number_is_an_error(model: CrossEncoder) -> None:
    with pytest.raises(VectorError, match="not a number"):
        scores_of(model, QUESTION, ["endless endless"])


def no_folder(folder: Path) -> None:
    folder.rename(folder.with_name("elsewhere"))


def without(name: str) -> Callable[[Path], None]:
    return lambda folder: (folder / name).unlink()


def with_content(name: str, content: bytes) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_bytes(content)

    return write


def digests(**sha256: str) -> bytes:
    names = {name.replace("_", "."): digest for name, digest in sha256.items()}
    return msgspec.json.encode(Digests(repository="some/model", revision="1", sha256=names))


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        pytest.param(no_folder, "has no model.onnx", id="no folder"),
        pytest.param(without(MODEL_FILE), "has no model.onnx", id="no model"),
        pytest.param(without(TOKENIZER_FILE), "has no tokenizer.json", id="no tokenizer"),
        pytest.param(with_content(MODEL_FILE, b"<html>"), "cannot be used", id="garbage"),
        pytest.param(with_content(MODEL_FILE, b""), "cannot be used", id="an empty model"),
        pytest.param(with_content(TOKENIZER_FILE, b"{"), "cannot be used", id="half a tokenizer"),
        pytest.param(
            with_content(MODEL_FILE, model_bytes("triple")), "the shape (1, 3)", id="three classes"
        ),
        pytest.param(
            with_content(MODEL_FILE, model_bytes(types="pixels")),
            "needs the input pixels",
            id="another input",
        ),
        pytest.param(
            with_content(DIGESTS_FILE, digests(model_onnx="0" * 64)),
            "SHA-256 differs",
            id="another digest",
        ),
        pytest.param(
            with_content(DIGESTS_FILE, digests(absent_onnx="0" * 64)), "cannot be read", id="lost"
        ),
        pytest.param(with_content(DIGESTS_FILE, b"{"), "cannot be read", id="half the digests"),
    ],
)
def test_a_broken_folder_is_an_error_that_names_it_with_a_remedy(
    folder: Path, damage: Callable[[Path], None], says: str
) -> None:
    damage(folder)

    with pytest.raises(VectorError) as caught:
        CrossEncoder.load(folder)
    assert says in caught.value.message
    assert str(folder) in caught.value.message
    assert "local2 models get" in str(caught.value.remedy)


class Scripted(CrossEncoder):
    """A model that reads one document at a time, and calls `read` before each."""

    def __init__(self, read: Callable[[], object]) -> None:
        self._read_one = read

    def scores(self, query: str, documents: Sequence[str]) -> Iterator[tuple[list[int], Scores]]:  # noqa: ARG002
        for position in (1, 0, *range(2, len(documents))):
            self._read_one()
            yield [position], np.array([position / 10])


@pytest.mark.parametrize(
    ("seconds", "read"),
    [
        pytest.param(9, [0.0, 0.1, 0.2, 0.3], id="all"),
        pytest.param(4, [0.0, 0.1, 0.2], id="three"),
        pytest.param(3, [0.0, 0.1], id="two"),
    ],
)
async def test_as_many_of_the_first_documents_are_scored_as_there_is_time_for(
    seconds: float, read: list[float]
) -> None:
    """A second passes whenever the clock is read; the second document is read first."""
    ticks = count()
    reranking = Reranking(Scripted(lambda: None), clock=lambda: float(next(ticks)))
    try:
        ask = VectorRerank(query=QUESTION, documents=["one"] * 4, patience=seconds)
        assert (await reranking.rerank(ask)).scores == read
    finally:
        reranking.close()


@pytest.mark.parametrize("seconds", [1, 2])
async def test_a_model_that_is_too_slow_for_the_first_document_is_an_error(seconds: float) -> None:
    """Within two seconds, it reads the second document only."""
    ticks = count()
    reranking = Reranking(Scripted(lambda: None), clock=lambda: float(next(ticks)))
    try:
        ask = VectorRerank(query=QUESTION, documents=["one"] * 4, patience=seconds)
        with pytest.raises(VectorError, match=f"within {seconds} s"):
            await reranking.rerank(ask)
    finally:
        reranking.close()


async def test_without_documents_there_are_no_scores(model: CrossEncoder) -> None:
    reranking = Reranking(model)
    try:
        ask = VectorRerank(query=QUESTION, documents=[], patience=5.0)
        assert (await reranking.rerank(ask)).scores == []
    finally:
        reranking.close()


class Rereading(NamedTuple):
    """A request that the worker's model has begun to read; `finish` lets it go on."""

    requests: VectorRequests
    scores: "asyncio.Task[list[float]]"
    finish: threading.Event


@pytest.fixture
async def rereading(
    bus: Connection, connect_bus: ConnectBus, tmp_path: Path
) -> AsyncIterator[Rereading]:
    reading, finish = threading.Event(), threading.Event()

    def read() -> None:
        reading.set()
        finish.wait()

    requests = VectorRequests(bus, search_timeout=30.0)
    reranking = Reranking(Scripted(read))
    async with vector_worker(await connect_bus(), ToyEmbedder(), tmp_path / "chroma", reranking):
        scores = asyncio.create_task(requests.rerank(QUESTION, ["one", "two"], within=30.0))
        try:
            await asyncio.to_thread(reading.wait)
            yield Rereading(requests, scores, finish)
        finally:
            finish.set()
    reranking.close()


async def test_searches_do_not_wait_for_a_model_that_reads(rereading: Rereading) -> None:
    hits = await VectorClient(rereading.requests, "default").search("gold", 1)

    assert (hits.embedder, rereading.scores.done()) == ("toy", False)
    rereading.finish.set()
    assert await rereading.scores == [0.0, 0.1]


async def test_a_request_ends_with_the_worker(rereading: Rereading) -> None:
    rereading.requests.worker_lost()

    with pytest.raises(VectorError, match="vector worker ended"):
        await rereading.scores
