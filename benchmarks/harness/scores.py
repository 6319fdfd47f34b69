"""How much of the evidence a ranking finds, and how long it took."""

import statistics
from collections.abc import Iterator, Sequence

import msgspec

from harness.dataset import Conversation, Dataset
from harness.report import percentile

TURNS = 5, 10, 20
SESSIONS = 5, 10
RELEVANCES = 0.0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9
"""Values of `min_relevance` to compare."""
LISTED = 10
"""Items of an answer, before those that are not relevant enough are dropped."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A question, and its evidence that the conversation actually contains."""

    conversation: Conversation
    text: str
    category: str
    evidence: frozenset[str]
    missing: int
    """Messages named as evidence that do not exist."""
    before: str | None = None
    """The session before which it is asked; None: after all sessions."""


class Run(msgspec.Struct, frozen=True, kw_only=True):
    """One system's run: seconds of every request, and the messages found for each task.

    `scores` of a ranking are present if the system returns them.
    """

    adds: list[float] = []
    queries: list[float] = []
    rankings: list[list[str]] = []
    scores: list[list[float]] = []


class Cut(msgspec.Struct, frozen=True, kw_only=True):
    """What a `min_relevance` keeps of the first ten: share of the evidence, and number of items."""

    min_relevance: float
    turn_recall: float
    items: float


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """The share of evidence within each depth; the reciprocal rank of its first message."""

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
    """Yield every question of the data, including those without evidence."""
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
    """Summarise a system's run; it has one ranking per task."""
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


def cuts(asked: Sequence[Task], run: Run) -> list[Cut]:
    """Return what each `min_relevance` would have kept of a run with scores."""
    return [_cut(asked, run, relevance) for relevance in RELEVANCES]


def _cut(asked: Sequence[Task], run: Run, relevance: float) -> Cut:
    left = [
        [id_ for id_, score in zip(ids, scores, strict=True) if score >= relevance * scores[0]]
        for ids, scores in zip(run.rankings, run.scores, strict=True)
    ]
    shares = [_share(task.evidence, ids[:LISTED]) for task, ids in zip(asked, left, strict=True)]
    return Cut(
        min_relevance=relevance,
        turn_recall=round(statistics.fmean(shares), 4),
        items=round(statistics.fmean(len(ids[:LISTED]) for ids in left), 2),
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
