"""How much of the evidence a ranking finds, and how long it took."""

import statistics
from collections.abc import Iterator, Sequence

import msgspec

from dataset import Conversation, Dataset
from report import percentile

TURNS = 5, 10, 20
SESSIONS = 5, 10


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A question, and where its answer is: the evidence that its conversation really holds."""

    conversation: Conversation
    text: str
    category: str
    evidence: frozenset[str]
    missing: int
    """Messages named as evidence that are not there."""
    before: str | None = None
    """The session before which it is asked; None: when all are there."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """What one system did: seconds of every request to it, and the messages it found a task."""

    adds: list[float] = []
    queries: list[float] = []
    rankings: list[list[str]] = []


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """The share of evidence within each depth; the reciprocal rank of the first message of it."""

    category: str
    turns: tuple[float, ...]
    sessions: tuple[float, ...]
    reciprocal_rank: float


class Recall(msgspec.Struct, frozen=True, kw_only=True):
    """Means over questions, by depth."""

    questions: int
    turn_recall: dict[str, float]
    session_recall: dict[str, float]
    mrr: float


class Times(msgspec.Struct, frozen=True, kw_only=True):
    """Milliseconds of single requests, one after the other."""

    p50: float
    p95: float


class Summary(Recall, frozen=True, kw_only=True):
    query_ms: Times
    add_ms: Times
    categories: dict[str, Recall]


def tasks(dataset: Dataset) -> Iterator[Task]:
    """Every question of the data, also those that have no evidence."""
    for conversation in dataset.conversations:
        known = conversation.session_of
        for question in conversation.questions:
            evidence = frozenset(question.evidence)
            yield Task(
                conversation=conversation,
                text=question.text,
                category=str(question.category),
                evidence=evidence & known.keys(),
                missing=len(evidence - known.keys()),
                before=question.before,
            )


def summary(asked: Sequence[Task], run: Run) -> Summary:
    """What a system's run comes to; a ranking a task."""
    scores = [_score(task, ranking) for task, ranking in zip(asked, run.rankings, strict=True)]
    whole = _recall(scores)
    return Summary(
        **msgspec.structs.asdict(whole),
        query_ms=_times(run.queries),
        add_ms=_times(run.adds),
        categories={
            category: _recall([score for score in scores if score.category == category])
            for category in sorted({score.category for score in scores})
        },
    )


def _score(task: Task, ranking: Sequence[str]) -> Score:
    session_of = task.conversation.session_of
    sessions = list(dict.fromkeys(session_of[id_] for id_ in ranking))
    wanted = frozenset(session_of[id_] for id_ in task.evidence)
    ranks = (rank for rank, id_ in enumerate(ranking, start=1) if id_ in task.evidence)
    return Score(
        category=task.category,
        turns=tuple(_share(task.evidence, ranking[:depth]) for depth in TURNS),
        sessions=tuple(_share(wanted, sessions[:depth]) for depth in SESSIONS),
        reciprocal_rank=1 / next(ranks, float("inf")),
    )


def _share(wanted: frozenset[str], found: Sequence[str]) -> float:
    return len(wanted.intersection(found)) / len(wanted)


def _recall(scores: Sequence[Score]) -> Recall:
    return Recall(
        questions=len(scores),
        turn_recall=_means(TURNS, [score.turns for score in scores]),
        session_recall=_means(SESSIONS, [score.sessions for score in scores]),
        mrr=round(statistics.fmean(score.reciprocal_rank for score in scores), 4),
    )


def _means(depths: Sequence[int], shares: Sequence[Sequence[float]]) -> dict[str, float]:
    columns = zip(*shares, strict=True)
    return {
        str(depth): round(statistics.fmean(column), 4)
        for depth, column in zip(depths, columns, strict=True)
    }


def _times(seconds: Sequence[float]) -> Times:
    return Times(
        p50=round(percentile(seconds, 0.5) * 1e3, 3), p95=round(percentile(seconds, 0.95) * 1e3, 3)
    )
