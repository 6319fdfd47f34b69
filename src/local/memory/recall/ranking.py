"""The order of what was found. Every item's score is the sum of shares that can be shown.

Measured on two kinds of conversations, short talk and long technical chats, with one setting for
both (docs/performance.md). How good a hit is counts more than its rank, so scores are blended and
not ranks; what was said just before and after a short message is part of what it means.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from local.memory.places import Reach
from local.memory.recall.candidates import Candidate
from local.memory.recall.keywords import composed, stem
from local.memory.recall.query import Query
from local.memory.recall.retrieval import Found

WORDS = 0.3
COVERAGE = 0.4
"""How much of the question the message covers, rare words first, with the messages around it."""
LENT = 0.6
"""What a word counts that only the message before or after has."""
AROUND = 0.15
"""What the messages before and after a message add of their own meaning and words."""
LONG = 1_200.0
"""Characters at which the messages around count half: long messages speak for themselves."""
SESSION = 0.3
"""How much of the question the session covers, against the best session."""
SPEAKER = 0.1
MACHINE = -0.2
"""Assistants and tools say at length what people meant."""
TIME = 0.2
TOPIC = 1.0
RELATED = 0.6
"""How far a record is lifted towards the best hit it is related to: that may lead to the answer."""
IMPORTANCE = 0.2
RECENT, RECENT_DAYS = 0.02, 30.0
FADING = {"standard": (0.05, 365.0), "ephemeral": (0.3, 14.0)}
"""What age takes away in the end, and the days after which half of it is gone."""
RECALLED = -0.3
"""A question asked again and again is nearer to itself than to what answers it."""
FULL_SCORE = 2.0
"""The sum of shares that is shown as a score of 1."""
NEW_SESSION, SURE, SPREAD = 0.1, 10, 20
"""From the 11th place to the 20th, what a session gains that has no place before."""
MACHINES = frozenset({"assistant", "tool"})
DAY = 86_400.0
MILLISECONDS = 23
"""Characters of a stamp without its offset, which is UTC's."""
EPSILON = 1e-9

Array = npt.NDArray[np.float64]


class Shares(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What each channel and signal adds to an item's score, before its scope's weight."""

    meaning: float = 0.0
    words: float = 0.0
    coverage: float = 0.0
    around: float = 0.0
    session: float = 0.0
    speaker: float = 0.0
    machine: float = 0.0
    time: float = 0.0
    topic: float = 0.0
    related: float = 0.0
    importance: float = 0.0
    age: float = 0.0
    feedback: float = 0.0
    recalled: float = 0.0


class Ranked(msgspec.Struct, frozen=True, kw_only=True):
    """A candidate with its score, from 0 to 1, and what that is made of.

    `compared`: its meaning could be compared with the question's.
    """

    candidate: Candidate
    score: float
    shares: Shares
    weight: float
    compared: bool


def rank(  # noqa: PLR0913 - what an order depends on
    found: Found,
    query: Query,
    reach: Reach,
    *,
    now: datetime,
    min_score: float,
    feedback_weight: float,
) -> Iterator[Ranked]:
    """The candidates that have something to do with the question, best first.

    Those are: near enough in meaning, alike in words or spoken next to what is, asked for by key,
    or related to such.
    """
    if not found.candidates:
        return
    column: Any = Candidate._make(zip(*found.candidates, strict=True))  # a tuple a field
    shares = _by_text(found, query, column)
    shares |= _by_record(found, query, column, now, feedback_weight)
    compared = np.array(found.compared())
    hit = compared & (shares["meaning"] >= min_score)
    hit |= shares["words"] + shares["coverage"] + shares["topic"] > 0
    own = shares["meaning"] + shares["words"] + shares["coverage"]
    led = _led(found, np.where(hit, own, 0.0))
    shares["related"] = RELATED * np.maximum(led - own, 0.0)
    summands = np.array(list(shares.values()))
    weights = _weights(reach, column)
    sums = summands.sum(axis=0)
    scores = np.where(sums < 0, sums / weights, sums * weights)  # a weight never does harm
    relevant = hit | (led > 0)
    order = [i for i in np.argsort(-scores, kind="stable").tolist() if relevant[i]]
    shown = np.clip(scores / FULL_SCORE, 0.0, 1.0).round(4).tolist()
    summands = summands.T.round(4)
    for i in _spread(order, scores.tolist(), column.session_id):
        yield Ranked(
            candidate=found.candidates[i],
            score=shown[i],
            shares=Shares(**dict(zip(shares, summands[i].tolist(), strict=True))),
            weight=float(weights[i]),
            compared=bool(compared[i]),
        )


def _weights(reach: Reach, column: Any) -> Array:
    classes = list(zip(column.scope, column.session_id, strict=True))
    weights = {class_: reach.weight(*class_) for class_ in set(classes)}
    return np.array([weights[class_] for class_ in classes])


def _spread(
    order: Sequence[int], scores: Sequence[float], sessions: Sequence[str | None]
) -> list[int]:
    """Behind the surest places, prefer sessions that have none yet: questions may need several."""
    chosen, rest = list(order[:SURE]), list(order[SURE:])
    seen = {sessions[i] for i in chosen}
    while rest and len(chosen) < SPREAD:
        ahead = rest[: SPREAD + SURE]
        best = max(ahead, key=lambda i: scores[i] + NEW_SESSION * (sessions[i] not in seen))
        rest.remove(best)
        chosen.append(best)
        seen.add(sessions[best])
    return chosen + rest


def _by_text(found: Found, query: Query, column: Any) -> dict[str, Array]:
    """The shares of meaning and words: a message's own, its neighbours', its session's."""
    around = _Around(column)
    meaning = found.cosines().astype(np.float64)
    words = _of_greatest(np.array([found.words.get(row, 0.0) for row in column.row]))
    has = _weighed(_presence(query.terms, column.text))
    covered = np.maximum(has, LENT * around.greater(has)).sum(axis=0)
    own = meaning + WORDS * words + COVERAGE * covered
    return {
        "meaning": meaning,
        "words": WORDS * words,
        "coverage": COVERAGE * covered,
        "around": AROUND * around.sum(own),
        "session": SESSION * _sessions(column, has),
    }


def _by_record(
    found: Found, query: Query, column: Any, now: datetime, feedback_weight: float
) -> dict[str, Array]:
    """The shares of what is known about a record, whatever it says."""
    times = np.array([time[:MILLISECONDS] for time in column.event_time], "datetime64[ms]")
    seconds = times.astype(np.int64) / 1_000
    named = _named(column.label, frozenset(query.terms))
    return {
        "speaker": SPEAKER * np.array([label in named for label in column.label]),
        "machine": MACHINE * np.array([role in MACHINES for role in column.role]),
        "time": TIME * _in_window(query, seconds),
        "topic": TOPIC * np.array([row in found.topics for row in column.row]),
        "importance": IMPORTANCE * (np.array(column.importance) - 0.5),
        "age": _ageing(column.durability, (now.timestamp() - seconds) / DAY),
        "feedback": feedback_weight * np.array([rating or 0.0 for rating in column.feedback]),
        "recalled": RECALLED * np.array([bool(recalled) for recalled in column.recalled]),
    }


def _named(labels: Iterable[str | None], terms: frozenset[str]) -> set[str]:
    """The labels that have a word of the question's."""
    return {label for label in set(labels) if label and not terms.isdisjoint(label.lower().split())}


def _led(found: Found, good: Array) -> Array:
    """How good the best candidate is that is related to each."""
    position = {candidate.row: i for i, candidate in enumerate(found.candidates)}
    led = np.zeros(len(found.candidates))
    for row, others in found.related.items():
        for other in others:
            if other in position:
                led[position[other]] = max(led[position[other]], good[position[row]])
    return led


class _Around:
    """The messages before and after each candidate, as far as they are candidates, too.

    The longer a message is the less those around it count.
    """

    def __init__(self, column: Any) -> None:
        position = {row: i for i, row in enumerate(column.row)}
        self._before = np.array([position.get(row, -1) for row in column.previous])
        self._after = np.array([position.get(row, -1) for row in column.next])
        lengths = np.array(column.length)
        self._counts = 1 / (1 + (lengths / LONG) ** 2)

    def sum(self, values: Array) -> Array:
        """Of both neighbours' values; the last axis runs over the candidates."""
        before, after = self._shifted(values)
        return (before + after) * self._counts

    def greater(self, values: Array) -> Array:
        """Of both neighbours' values."""
        before, after = self._shifted(values)
        return np.maximum(before, after) * self._counts

    def _shifted(self, values: Array) -> tuple[Array, Array]:
        padded = np.concatenate([values, np.zeros((*values.shape[:-1], 1))], axis=-1)
        return padded[..., self._before], padded[..., self._after]


def _presence(terms: Sequence[str], texts: Sequence[str]) -> Array:
    """Which terms, a row each, stand in which texts, in this or another ending."""
    lowered = [f" {composed(text)}".lower() for text in texts]
    has = [[beginning in text for text in lowered] for beginning in map(stem, terms)]
    return np.array(has, dtype=np.float64).reshape(len(terms), len(texts))


def _weighed(has: Array) -> Array:
    """The presence of terms as shares of the question: a term counts by how few have it."""
    count = has.sum(axis=1)
    rarity = np.where(count > 0, np.log((has.shape[1] + 1) / (count + 0.5)), 0.0)
    return np.asarray(has * (rarity / max(rarity.sum(), EPSILON))[:, np.newaxis])


def _sessions(column: Any, has: Array) -> Array:
    """How much of the question each candidate's session covers, over the best session's."""
    sessions = list(zip(column.scope, column.session_id, strict=True))
    numbers = {session: number for number, session in enumerate(dict.fromkeys(sessions))}
    session = np.array([numbers[one] for one in sessions])
    covered = np.zeros((len(has), len(numbers)))
    for term, present in enumerate(has):
        np.maximum.at(covered[term], session, present)
    shares = _of_greatest(covered.sum(axis=0))
    in_one = np.array([session_id is not None for session_id in column.session_id])
    return np.asarray(shares[session] * in_one)


def _of_greatest(values: Array) -> Array:
    return np.asarray(values / max(values.max(initial=0.0), EPSILON))


def _in_window(query: Query, times: Array) -> Array:
    """Whether a candidate is of the time that the question speaks of."""
    if query.window is None:
        return np.zeros(len(times))
    since, until = query.window.since, query.window.until
    after = times >= since.timestamp() if since else np.ones(len(times), bool)
    before = times < until.timestamp() if until else np.ones(len(times), bool)
    return (after & before).astype(np.float64)


def _ageing(durabilities: Sequence[str], days: Array) -> Array:
    """What is new gains a little; what is not made to last fades."""
    days = np.maximum(days, 0.0)
    gained = RECENT * 0.5 ** (days / RECENT_DAYS)
    lost = np.array([FADING.get(durability, (0.0, 1.0)) for durability in durabilities])
    return np.asarray(gained - lost[:, 0] * (1 - 0.5 ** (days / lost[:, 1])))
