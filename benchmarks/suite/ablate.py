"""What each signal of the ranking is worth: recall of every corpus without it, against with all.

The data is not part of the project (`--data`): conversations, lives or updates. Each file is told
to a stack once, whose ledger is kept in `--ledgers`. The questions are then asked in this process,
once with all signals and once without each. A difference is the mean over the questions, with the
95 % interval of a paired bootstrap. A question that opened a session is asked of what was said
before: by a caller who searches, and by one who continues the conversation.
"""

import argparse
import re
import shutil
import statistics
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import msgspec
import numpy as np
import uvloop
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from harness.client import Asker, asking, request_as
from harness.dataset import Conversation, DataError, Dataset, load, moment, pieces
from harness.processes import built_in_embedder, data_dir, running_stack
from harness.scores import TURNS, tasks
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.search import Choice, Chooser, Drafter, Search, VectorResult
from local2.memory.intake.waiting_turns import WaitingTurns
from local2.memory.recall import later, likeness, ranking, results
from local2.memory.recall.recaller import D, Recaller, RecallModels, RecallRequest, Retrieval, T
from local2.memory.recall.results import RecallItem
from local2.memory.scopes import Weights
from local2.protocol.envelope import Caller, utc_now
from local2.protocol.vectors import VectorHits
from local2.settings import MemorySettings
from local2.vectors.embedder import Embedder, known
from suite import life, updates

STEP = timedelta(milliseconds=2)
"""Minimum time between messages of different sessions: `until` tells those of one day apart."""
DEPTH = TURNS[1]
SAMPLES = 2_000
MODULES = later, likeness, ranking, results

Numbers = Mapping[str, object]
Judge = Callable[[Sequence[RecallItem]], float]


class Signal(NamedTuple):
    """What switches a signal off: numbers of the ranking with other values, or an idle stage."""

    numbers: Numbers = MappingProxyType({})
    stage: str | None = None


SIGNALS = {
    "meaning": Signal({"MEANING": 0.0}),
    "words": Signal({"WORDS": 0.0, "WORDS_STATING": 0.0}),
    "coverage": Signal({"COVERAGE": 0.0}),
    "words of neighbours": Signal({"NEIGHBOUR_WORD": 0.0}),
    "passages": Signal({"PASSAGE_COVERAGE": 0.0}),
    "around": Signal({"AROUND": 0.0}),
    "session": Signal({"SESSION": 0.0}),
    "session best": Signal({"SESSION_BEST": 0.0}),
    "speaker": Signal({"SPEAKER": 0.0}),
    "firsthand": Signal({"FIRSTHAND": 0.0, "NAMED_FIRSTHAND": 0.0}),
    "timed": Signal({"TIMED": 0.0, "TIMED_WHEN": 0.0}),
    "density": Signal({"DENSITY": 0.0}),
    "wish": Signal({"WISH": 0.0}),
    "recent": Signal({"RECENT": 0.0}),
    "time": Signal({"TIME": 0.0}),
    "topic": Signal({"TOPIC": 0.0}),
    "related": Signal({"RELATED": 0.0, "STATED": 0.0}),
    "importance": Signal({"IMPORTANCE": 0.0}),
    "age": Signal({"NEW": 0.0, "FADING": {}}),
    "spread": Signal({"NEW_SESSION": 0.0}),
    "echo": Signal(stage="_lower_echoes"),
    "nod": Signal(stage="_lower_nods"),
    "reply": Signal(stage="_answer_repeated_questions"),
    "standing": Signal(stage="_raise_standing_facts"),
    "named": Signal(stage="_follow_names"),
    "update": Signal(stage="_put_newest_first"),
    "later": Signal({"MAX_LATER": 0}),
}


class Question(NamedTuple):
    """`judge` gives the score of the items that were found, from 0 to 1."""

    user: str
    text: str
    judge: Judge
    until: datetime | None = None
    continues: bool = False
    top_k: int = TURNS[-1]


class Corpus(msgspec.Struct, frozen=True, kw_only=True):
    """A file: how a stack is told it, and its questions, by what is counted."""

    name: str
    tell: Callable[[Asker], Any]
    questions: Mapping[str, Sequence[Question]]


class Worth(msgspec.Struct, frozen=True, kw_only=True):
    """The score without a signal minus that with it, and the interval of this difference."""

    change: float
    low: float
    high: float


class Report(msgspec.Struct, frozen=True, kw_only=True):
    """`scores`: with all signals, by question. `without`: by signal."""

    name: str
    questions: int
    score: float
    scores: list[float]
    without: dict[str, Worth]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--data", nargs="+", type=Path, required=True, metavar="FILE")
    parser.add_argument("--ledgers", type=Path, metavar="DIR", help="keep what was told here")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="each Nth question only")
    parser.add_argument("--only", nargs="*", choices=SIGNALS, metavar="SIGNAL", default=[*SIGNALS])
    parser.add_argument("--json", action="store_true", help="print one JSON object a score")
    chosen = parser.parse_args()
    try:
        corpora = [read_corpus(path) for path in chosen.data]
    except DataError as error:
        parser.error(str(error))
    with tempfile.TemporaryDirectory() as temporary, Progress(console=Console(stderr=True)) as bar:
        ledgers = chosen.ledgers or Path(temporary)
        for corpus in corpora:
            folder = ledgers / corpus.name
            if not folder.exists():
                uvloop.run(make_ledger(corpus, folder))
            reports = uvloop.run(measure(corpus, folder, chosen.only, chosen.every, bar))
            for report in reports:
                if chosen.json:
                    print(msgspec.json.encode(report).decode(), flush=True)
                else:
                    bar.console.print(_table(report))


def read_corpus(path: Path) -> Corpus:
    """Read a file of one of the three forms.

    Raises:
        DataError: It has another form, or cannot be read.
    """
    name = path.stem
    try:
        form = msgspec.json.decode(path.read_bytes(), type=dict[str, msgspec.Raw]).keys()
        if "lives" in form:
            return _lives(name, msgspec.json.decode(path.read_bytes(), type=life.Data))
        if "facts" in form:
            return _updates(name, msgspec.json.decode(path.read_bytes(), type=updates.Facts))
    except (OSError, msgspec.DecodeError) as error:
        raise DataError(f"{path}: {error}") from error
    return _conversations(name, load(path))


def _conversations(name: str, dataset: Dataset) -> Corpus:
    async def tell(asker: Asker) -> None:
        for conversation in dataset.conversations:
            times = times_of(conversation)
            for session in conversation.sessions:
                for piece in pieces(session):
                    sent = [
                        msgspec.structs.replace(message, timestamp=times[message.id])
                        for message in piece.sent
                    ]
                    request = request_as(conversation.id, messages=sent, session_id=session.id)
                    await asker.tool("ingest", request)

    def questions(*, continues: bool) -> Iterator[Question]:
        times = {each.id: times_of(each) for each in dataset.conversations}
        firsts = {
            (each.id, session.id): session.messages[0].id
            for each in dataset.conversations
            for session in each.sessions
        }
        for task in tasks(dataset):
            id_ = task.conversation.id
            if task.evidence and (task.before is not None or not continues):
                until = (
                    None if task.before is None else times[id_][firsts[id_, task.before]] - STEP / 2
                )
                judge = _evidence_judge(task.evidence)
                yield Question(id_, task.text, judge, until, continues)

    asked = {name: list(questions(continues=False))}
    if continued := list(questions(continues=True)):
        asked[f"{name}, continued"] = continued
    return Corpus(name=name, tell=tell, questions=asked)


def times_of(conversation: Conversation) -> dict[str, datetime]:
    """Return the time of each message: never earlier than those of the sessions before it."""
    times: dict[str, datetime] = {}
    newest: datetime | None = None
    for session in conversation.sessions:
        earliest = newest and newest + STEP
        for message in session.messages:
            said = moment(message.time)
            if said is None:
                raise DataError(f"{message.time!r} is no time.")
            times[message.id] = max(said, earliest) if earliest else said
            newest = max(times[message.id], newest) if newest else times[message.id]
    return times


def _evidence_judge(evidence: frozenset[str]) -> Judge:
    def judge(found: Sequence[RecallItem]) -> float:
        ids = [item.record.source_ref for item in found if item.record.source_ref is not None]
        return len(evidence.intersection(ids[:DEPTH])) / len(evidence)

    return judge


def _lives(name: str, data: life.Data) -> Corpus:
    async def tell(asker: Asker) -> None:
        for each in data.lives:
            await life.tell(asker, each)

    questions = [
        Question(each.id, question.text, _first_judge(question.want), top_k=life.TOP_K)
        for each in data.lives
        for question in each.questions
    ]
    return Corpus(name=name, tell=tell, questions={f"{name}, first right": questions})


def _first_judge(want: str) -> Judge:
    def judge(found: Sequence[RecallItem]) -> float:
        texts = [text.content for item in found[:1] for text in (item.record, *item.later)]
        return float(any(re.search(want, text, re.IGNORECASE) for text in texts))

    return judge


def _updates(name: str, data: updates.Facts) -> Corpus:
    texts = {fact.n: fact.text for fact in data.facts}

    async def tell(asker: Asker) -> None:
        for number in sorted(texts):
            request = request_as(name, content=texts[number], scope="user")
            await asker.tool("remember_fact", request)

    one_hop, several = (
        [
            Question(name, each.question, _answer_judge(texts[each.gold_fact_numbers[-1]], within))
            for each in data.questions
            if (each.hops == 1) is is_one
        ]
        for is_one, within in ((True, 1), (False, DEPTH))
    )
    return Corpus(
        name=name,
        tell=tell,
        questions={f"{name}, newest first": one_hop, f"{name}, several hops": several},
    )


def _answer_judge(answer: str, within: int) -> Judge:
    return lambda found: float(any(item.record.content == answer for item in found[:within]))


async def make_ledger(corpus: Corpus, folder: Path) -> None:
    """Tell a stack the corpus, and keep its ledger in `folder`."""
    with tempfile.TemporaryDirectory() as temporary:
        async with running_stack(Path(temporary)) as url, asking(url) as asker:
            await corpus.tell(asker)
            await asker.all_done()
        shutil.copytree(data_dir(Path(temporary)), folder)


async def measure(
    corpus: Corpus, folder: Path, signals: Sequence[str], every: int, progress: Progress
) -> list[Report]:
    embedder = Embedded(built_in_embedder())
    asked = {about: questions[::every] for about, questions in corpus.questions.items()}
    everything = [question for questions in asked.values() for question in questions]
    found: dict[str | None, list[float]] = {}
    for signal in progress.track([None, *signals], description=corpus.name):
        with without(signal):
            async with recaller_on(folder, embedder) as recaller:
                found[signal] = [await answer(recaller, question) for question in everything]
    reports, start = [], 0
    for about, questions in asked.items():
        part = slice(start, start := start + len(questions))
        whole = found[None][part]
        reports.append(
            Report(
                name=about,
                questions=len(questions),
                score=round(statistics.fmean(whole), 4),
                scores=whole,
                without={signal: worth(found[signal][part], whole) for signal in signals},
            )
        )
    return reports


@contextmanager
def without(signal: str | None) -> Iterator[None]:
    """Switch a signal off, in every module of the ranking that uses its numbers."""
    numbers, stage = SIGNALS[signal] if signal else Signal()
    idle = partial(_add_nothing, signal or "")
    stages = tuple(idle if each.__name__ == stage else each for each in ranking.STAGES)
    values = {**numbers, "STAGES": stages}
    changed: list[tuple[Any, str, object]] = []
    for module in MODULES:
        for name in values.keys() & vars(module).keys():
            changed.append((module, name, getattr(module, name)))
            setattr(module, name, values[name])
    try:
        yield
    finally:
        for module, name, value in changed:
            setattr(module, name, value)


def _add_nothing(share: str, ranked: ranking.Ranking) -> Choice[None]:
    """A stage in place of the one that adds this share."""
    yield from ()
    ranked.total.add(**{share: np.zeros(ranked.view.size)})


class Embedded:
    """An embedder in this process that embeds each question once."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._vectors: dict[str, bytes] = {}

    @property
    def name(self) -> str:
        return self._embedder.name

    def hits(self, text: str) -> VectorHits:
        """Return the vector of a question; whole memories are searched in the ledger."""
        if text not in self._vectors:
            self._vectors[text] = self._embedder.embed_queries([text]).tobytes()
        return VectorHits(
            hits=[],
            min_score=self._embedder.min_score,
            floor=self._embedder.floor,
            embedder=self.name,
            question=self._vectors[text],
        )


class EmbeddedRetrieval(Retrieval):
    """Searches a ledger whose records all have their vectors, without a vector worker."""

    def __init__(self, ledger: Ledger, embedder: Embedded) -> None:
        self._ledger = ledger
        self._embedder = embedder

    @property
    def is_multilingual(self) -> bool:
        return known(self._embedder.name).multilingual

    async def find(self, search: Search, draft: Drafter[D], choose: Chooser[D, T]) -> T:
        async def ask_vectors(limit: int) -> VectorResult:
            assert limit == 0, "A user of the corpus has more records than are searched in full."
            return VectorResult(waiting=False, hits=self._embedder.hits(search.text))

        self._ledger.searches.expect(self._embedder.name)
        return await self._ledger.searches.find(search, ask_vectors, draft, choose)


@asynccontextmanager
async def recaller_on(folder: Path, embedder: Embedded) -> AsyncIterator[Recaller]:
    settings = MemorySettings()
    async with Database.open(folder / "ledger.sqlite3") as database:
        yield Recaller(
            EmbeddedRetrieval(Ledger(database, "default"), embedder),
            weights=Weights.of(settings),
            feedback_weight=settings.feedback_weight,
            min_score=settings.min_score,
            models=RecallModels(),
            clock=utc_now,
            turns=WaitingTurns(),
        )


async def answer(recaller: Recaller, question: Question) -> float:
    caller = Caller(tenant="default", user=question.user, agent="benchmarks")
    request = RecallRequest(
        query=question.text,
        top_k=question.top_k,
        until=question.until,
        continues=question.continues,
        with_later=True,
    )
    recalled = await recaller.recall(caller, request)
    assert not recalled.degraded, recalled.reason
    return question.judge(recalled.items)


def worth(off: Sequence[float], on: Sequence[float]) -> Worth:
    """Compare two scores of the same questions."""
    changes = np.array(off) - np.array(on)
    chosen = np.random.default_rng(1).integers(len(changes), size=(SAMPLES, len(changes)))
    low, high = np.percentile(changes[chosen].mean(axis=1), (2.5, 97.5))
    return Worth(
        change=round(float(changes.mean()), 4),
        low=round(float(low), 4),
        high=round(float(high), 4),
    )


def _table(report: Report) -> Table:
    title = f"{report.name}: {report.score:.3f} of {report.questions} questions"
    table = Table(title=title, title_justify="left")
    for heading in ("without", "change", "95 % interval"):
        table.add_column(heading, justify="right")
    for signal, found in report.without.items():
        surely = "" if found.low <= 0 <= found.high else " *"
        interval = f"{found.low:+.3f} to {found.high:+.3f}{surely}"
        table.add_row(signal, f"{found.change:+.3f}", interval)
    return table
