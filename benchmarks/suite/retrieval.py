"""How much of the evidence recall finds: local2, plain Chroma, FTS5, and a fusion of the two.

Every conversation of a file belongs to one user: it is added over the bus with `ingest`, one
request per session, and queried with `recall`. A question that opened a session is asked before
that session is added, as a message that continues the conversation. The other systems get the same
vectors that local2 made.
"""

import argparse
import sqlite3
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
import numpy as np
import uvloop
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from harness.baselines import FullText, PlainChroma, full_text, fused, plain_chroma
from harness.client import Asker, asking, data_of, request_as, seconds
from harness.dataset import Conversation, DataError, Dataset, Piece, load, pieces
from harness.processes import built_in_embedder, data_dir, running_stack
from harness.scores import SESSIONS, TURNS, Cut, Run, Summary, Task, cuts, summary, tasks
from local2.ledger.stored_vectors import unpacked
from local2.protocol.memory_tools import RecalledItem, RecalledItems
from local2.vectors.embedder import Embedder, FloatMatrix

TOP_K = 20
FUSED = 100
"""Number of results of each channel that are fused."""
CAPTION = "T@k: evidence turns within the first k; S@k: their sessions; times: p50/p95"

Search = Callable[[str], list[str]]
Vectors = defaultdict[str, dict[str, np.ndarray]]
"""Vectors by conversation and message."""
T = TypeVar("T")


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """The next part of a conversation to add, and the numbers of the questions to ask then."""

    conversation: Conversation
    pieces: Sequence[Piece]
    numbers: Sequence[int]


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """All systems' results on a file; `questions` are those with evidence in the data."""

    name: str
    questions: int
    questions_without_evidence: int
    evidence_missing: int
    local2: Summary
    chroma: Summary
    fts5: Summary
    rrf: Summary
    cuts: list[Cut]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", type=Path, required=True, metavar="FILE")
    parser.add_argument("--json", action="store_true", help="print one JSON object a file")
    chosen = parser.parse_args()
    try:
        datasets = [load(path) for path in chosen.data]
    except DataError as error:
        parser.error(str(error))
    for dataset in datasets:
        with Progress(console=Console(stderr=True)) as progress:
            report = measure(dataset, progress)
        if chosen.json:
            print(msgspec.json.encode(report).decode(), flush=True)
        else:
            _print(report)


def measure(dataset: Dataset, progress: Progress) -> Report:
    every = list(tasks(dataset))
    asked = [task for task in every if task.evidence]
    with tempfile.TemporaryDirectory() as name:
        local2 = uvloop.run(run_local2(dataset, asked, Path(name), progress))
        chroma, fts5, rrf = run_baselines(dataset, asked, Path(name), progress)
    return Report(
        name=dataset.name,
        questions=len(asked),
        questions_without_evidence=len(every) - len(asked),
        evidence_missing=sum(task.missing for task in every),
        local2=summary(asked, local2),
        chroma=summary(asked, chroma),
        fts5=summary(asked, fts5),
        rrf=summary(asked, rrf),
        cuts=cuts(asked, local2),
    )


async def run_local2(
    dataset: Dataset, asked: Sequence[Task], folder: Path, progress: Progress
) -> Run:
    """Add every conversation; ask each question once everything before it is indexed."""
    run = Run(rankings=[[] for _ in asked], scores=[[] for _ in asked])
    steps = [step for conversation in dataset.conversations for step in _steps(conversation, asked)]
    async with running_stack(folder) as url, asking(url) as asker:
        for step in progress.track(steps, description=f"{dataset.name}: local2"):
            user = step.conversation.id
            for piece in step.pieces:
                request = request_as(user, messages=piece.sent, session_id=piece.session_id)
                run.adds.append(await seconds(asker.tool("ingest", request)))
            if step.numbers:
                await asker.all_indexed()
            for number in step.numbers:
                begun = time.perf_counter()
                found = await recall(asker, asked[number])
                run.queries.append(time.perf_counter() - begun)
                run.rankings[number] = [item.source_ref or "" for item in found]
                run.scores[number] = [item.score for item in found]
        await asker.all_indexed()  # the other systems take all vectors from it
    return run


async def recall(asker: Asker, task: Task) -> list[RecalledItem]:
    """Return the messages found in all sessions of the conversation."""
    request = request_as(
        task.conversation.id, query=task.text, top_k=TOP_K, continues=task.before is not None
    )
    found = data_of(await asker.tool("recall", request), RecalledItems)
    assert not found.degraded, found.reason
    return [item for item in found.items if item.source_ref is not None]


def run_baselines(
    dataset: Dataset, asked: Sequence[Task], folder: Path, progress: Progress
) -> tuple[Run, Run, Run]:
    """Run Chroma, FTS5 and both fused, with a separate collection and table per conversation."""
    embedder = built_in_embedder()
    vectors = vectors_of(folder)
    runs = Run(), Run(), Run()
    numbered = enumerate(dataset.conversations)
    about = f"{dataset.name}: ask the others"
    for run in runs:
        run.rankings.extend([] for _ in asked)
    for number, conversation in progress.track(list(numbered), description=about):
        own = folder / f"plain{number}"
        with plain_chroma(own) as chroma, full_text(folder / f"plain{number}.sqlite3") as words:
            for step in _steps(conversation, asked):
                add_plainly(step.pieces, vectors[conversation.id], chroma, words, runs)
                for search, run in zip(searches(embedder, chroma, words), runs, strict=True):
                    for task in step.numbers:
                        run.rankings[task] = _timed(partial(search, asked[task].text), run.queries)
    return runs


def vectors_of(folder: Path) -> Vectors:
    """Return the vectors that the stack on `folder` made; the stack has ended."""
    vectors: Vectors = defaultdict(dict)
    with closing(sqlite3.connect(data_dir(folder) / "ledger.sqlite3")) as connection:
        for user, message, data in connection.execute(
            "SELECT owner, source_ref, data FROM vector JOIN record ON record.row = vector.record"
        ):
            vectors[user][message] = unpacked(data)
    return vectors


def add_plainly(
    pieces_: Sequence[Piece],
    vectors: dict[str, np.ndarray],
    chroma: PlainChroma,
    words: FullText,
    runs: tuple[Run, Run, Run],
) -> None:
    """Add what was sent to local2, in the same steps."""
    chromas, texts, both = (run.adds for run in runs)
    for piece in pieces_:
        messages = [message for message in piece.messages if message.id in vectors]
        if not messages:
            continue  # only blank messages, which local2 does not index
        ids = [message.id for message in messages]
        rows: FloatMatrix = np.stack([vectors[id_] for id_ in ids])
        _timed(partial(chroma.add, ids, rows), chromas)
        _timed(partial(words.add, ids, [message.text for message in messages]), texts)
        both.append(chromas[-1] + texts[-1])


def searches(
    embedder: Embedder, chroma: PlainChroma, words: FullText
) -> tuple[Search, Search, Search]:
    def by_meaning(question: str, limit: int = TOP_K) -> list[str]:
        return chroma.nearest(embedder.embed_queries([question]), limit)

    def by_both(question: str) -> list[str]:
        return fused([by_meaning(question, FUSED), words.best(question, FUSED)], TOP_K)

    return by_meaning, partial(words.best, limit=TOP_K), by_both


def _steps(conversation: Conversation, asked: Sequence[Task]) -> Iterator[Step]:
    """Yield a conversation in its original order, with questions where they were asked."""
    waiting: defaultdict[str | None, list[int]] = defaultdict(list)
    for number, task in enumerate(asked):
        if task.conversation is conversation:
            waiting[task.before].append(number)
    arrived: list[Piece] = []
    for session in conversation.sessions:
        if numbers := waiting.pop(session.id, None):
            yield Step(conversation=conversation, pieces=arrived, numbers=numbers)
            arrived = []
        arrived += pieces(session)
    yield Step(conversation=conversation, pieces=arrived, numbers=waiting[None])


def _timed(work: Callable[[], T], into: list[float]) -> T:
    begun = time.perf_counter()
    result = work()
    into.append(time.perf_counter() - begun)
    return result


def _print(report: Report) -> None:
    systems = {
        "local2": report.local2, "Chroma": report.chroma, "FTS5": report.fts5, "RRF": report.rrf,
    }  # fmt: skip
    console = Console()
    console.print(_table(f"{report.name}: {report.questions} questions", systems))
    console.print(_categories(systems))
    console.print(_cuts(report.cuts))
    if report.evidence_missing:
        console.print(
            f"{report.evidence_missing} messages named as evidence are not in the data; "
            f"{report.questions_without_evidence} questions have no other, and were not asked."
        )


def _table(title: str, systems: dict[str, Summary]) -> Table:
    table = Table(title=title, title_justify="left", caption=CAPTION, caption_justify="left")
    table.add_column("")
    depths = *(f"T@{depth}" for depth in TURNS), *(f"S@{depth}" for depth in SESSIONS)
    for heading in (*depths, "MRR", "query ms", "add ms"):
        table.add_column(heading, justify="right")
    for name, found in systems.items():
        shares = (*found.turn_recall.values(), *found.session_recall.values(), found.mrr)
        times = (f"{t.p50:.1f}/{t.p95:.0f}" for t in (found.query_ms, found.add_ms))
        table.add_row(name, *(f"{share:.3f}" for share in shares), *times)
    return table


def _cuts(found: Sequence[Cut]) -> Table:
    table = Table(title="what min_relevance leaves of the first ten", title_justify="left")
    for heading in ("min_relevance", "T@10", "items"):
        table.add_column(heading, justify="right")
    for cut in found:
        table.add_row(f"{cut.min_relevance:g}", f"{cut.turn_recall:.3f}", f"{cut.items:.1f}")
    return table


def _categories(systems: dict[str, Summary]) -> Table:
    table = Table(title="turn R@10 by category", title_justify="left")
    table.add_column("category")
    for heading in ("questions", *systems):
        table.add_column(heading, justify="right")
    for category, found in systems["local2"].categories.items():
        shares = (each.categories[category].turn_recall["10"] for each in systems.values())
        table.add_row(category, str(found.questions), *(f"{share:.3f}" for share in shares))
    return table
