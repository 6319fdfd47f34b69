"""`recall` against embedding, Chroma and FTS5 by hand; its growth; messages added a second.

The raw side has the same 10,000 messages: a MiniLM, a Chroma collection and an FTS5 table. A
second stack holds twenty times as many messages of the same user, to see how the latency grows.
"""

import asyncio
import itertools
import multiprocessing
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import TypeVar

from harness.baselines import FullText, PlainChroma, full_text, plain_chroma
from harness.chat import messages, questions
from harness.client import (
    USER,
    Ask,
    Asker,
    alternating,
    asking,
    latency,
    request_as,
    request_of,
    throughput,
)
from harness.fill import fill_index, made_up_vectors, write_records
from harness.processes import chroma_dir, data_dir, running_stack
from harness.report import Figure, a_second, milliseconds, ratio, run
from local2.ledger.records import NewRecord
from local2.protocol.envelope import content_id
from local2.vectors.embedder import FloatMatrix
from local2.vectors.minilm import MiniLM

FEW = 10_000
MANY = 200_000
TOP_K = 20
BLOCKS = 9
REQUESTS = 50
QUESTIONS = 500
ADD_BLOCKS = 5
ADDS = 960
IN_FLIGHT = 16
SESSION = 25
FIRST = datetime(2023, 1, 1, tzinfo=UTC)
SPEAKERS = "Ada", "Grace"

T = TypeVar("T")


async def measure() -> list[Figure]:
    embedder = MiniLM.load(Path("models"))
    texts = messages(MANY, seed=1)
    records, vectors = conversation(texts), made_up_vectors(embedder, texts)
    with tempfile.TemporaryDirectory() as name:
        few, many = Path(name) / "few", Path(name) / "many"
        await fill(few, records[:FEW], vectors[:FEW])
        await fill(many, records, vectors)
        async with (
            running_stack(few) as url,
            running_stack(many) as url_of_many,
            asking(url) as asker,
            asking(url_of_many) as asker_of_many,
        ):
            await asyncio.gather(asker.all_indexed(), asker_of_many.all_indexed())
            with (
                plain_chroma(Path(name) / "raw") as chroma,
                full_text(Path(name) / "raw.sqlite3") as words,
            ):
                ids = [record.id for record in records[:FEW]]
                chroma.add(ids, vectors[:FEW])
                words.add(ids, texts[:FEW])
                latencies = await latencies_of(
                    recall(asker),
                    recall(asker_of_many),
                    raw(embedder, chroma, words),
                    *parts(embedder, chroma, words),
                )
            return [*latencies, await adds(asker)]


def conversation(texts: Sequence[str], session: int = SESSION) -> list[NewRecord]:
    """Return a message for each text, by two alternating people, in consecutive sessions."""
    return [
        NewRecord(
            id=content_id("chat_message", USER, n),
            kind="chat_message",
            owner=USER,
            label=SPEAKERS[n % len(SPEAKERS)],
            role="user",
            source_ref=str(n),
            session_id=f"s{n // session}",
            content=text,
            event_time=FIRST + timedelta(hours=3 * (n // session), minutes=n % session),
        )
        for n, text in enumerate(texts)
    ]


async def fill(folder: Path, records: Sequence[NewRecord], vectors: FloatMatrix) -> None:
    """Fill ledger and index as a stack would have left them; Chroma gets a separate process."""
    ids = [record.id for record in records]
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
        index = asyncio.get_running_loop().run_in_executor(
            other, fill_index, chroma_dir(folder), ids, vectors
        )
        await asyncio.gather(write_records(data_dir(folder), records, vectors), index)


async def latencies_of(ours: Ask, grown: Ask, raw: Ask, *parts: Ask) -> list[Figure]:
    asked = (ours, grown, raw, *parts)
    recalls, recalls_of_many, base, *each = await alternating(
        BLOCKS, *(partial(latency, ask, REQUESTS) for ask in asked)
    )
    alone = [sum(values) for values in zip(*each, strict=True)]
    names = ("embedding", "Chroma", "FTS5")
    return [
        ratio("p50_ratio", f"p50, {FEW:,}: recall / raw", recalls, base, at_most=2.0),
        ratio("p50_alone_ratio", "recall / each part alone, summed", recalls, alone),
        milliseconds("recall_p50_ms", "recall", recalls),
        milliseconds("raw_p50_ms", " + ".join(names), base),
        *(
            milliseconds(f"{name.lower()}_p50_ms", f"{name} alone", values)
            for name, values in zip(names, each, strict=True)
        ),
        ratio(
            "growth_ratio", f"p50: {MANY:,} messages / {FEW:,}", recalls_of_many, recalls, at_most=2
        ),
        milliseconds("recall_many_p50_ms", f"recall in {MANY:,}", recalls_of_many),
    ]


def recall(asker: Asker, users: Sequence[str] = (USER,)) -> Ask:
    """Return what asks a recall, each time as the next of the users."""
    asked = zip(itertools.cycle(users), questions(QUESTIONS, seed=2), strict=False)
    requests = itertools.cycle(
        [request_as(user, query=query, top_k=TOP_K) for user, query in asked]
    )

    async def ask() -> None:
        answer = await asker.tool("recall", next(requests))
        assert b'"degraded":false' in answer, answer.decode()

    return ask


def raw(embedder: MiniLM, chroma: PlainChroma, words: FullText) -> Ask:
    """Do the minimum that a recall needs, in sequence for each question."""

    def answer(question: str) -> None:
        chroma.nearest(embedder.embed_queries([question]), TOP_K)
        words.best(question, TOP_K)

    return _endlessly(questions(QUESTIONS, seed=2), answer)


def parts(embedder: MiniLM, chroma: PlainChroma, words: FullText) -> Iterator[Ask]:
    """Repeat each step in isolation: everything it needs stays in the processor's caches."""
    asked = questions(QUESTIONS, seed=2)
    vectors = [embedder.embed_queries([question]) for question in asked]
    yield _endlessly(asked, lambda question: embedder.embed_queries([question]))
    yield _endlessly(vectors, lambda vector: chroma.nearest(vector, TOP_K))
    yield _endlessly(asked, lambda question: words.best(question, TOP_K))


def _endlessly(asked: Sequence[T], answer: Callable[[T], object]) -> Ask:
    endless = itertools.cycle(asked)

    async def ask() -> None:
        answer(next(endless))

    return ask


async def adds(asker: Asker) -> Figure:
    """Measure messages acknowledged while the worker embeds the previous ones."""
    texts = iter(messages((ADD_BLOCKS + 1) * ADDS, seed=3))
    numbers = itertools.count()

    async def add() -> None:
        message = {"id": f"new {next(numbers)}", "role": "user", "content": next(texts)}
        answer = await asker.tool("ingest", request_of(messages=[message], session_id="new"))
        assert b'"added":1' in answer, answer.decode()

    [rates] = await alternating(ADD_BLOCKS, partial(throughput, add, ADDS, IN_FLIGHT))
    about = f"single messages ingested, {IN_FLIGHT} in flight"
    return a_second("adds_per_second", about, rates, at_least=300)


def main() -> None:
    run(__doc__, measure)
