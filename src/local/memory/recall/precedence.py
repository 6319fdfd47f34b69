"""The precedence of results, whatever their scores.

Echoes give way: an answer from memory never stands above its sources. Nor does a repeated question,
which is nearer to itself than to its answers; and a question without an answer, with the refusal,
comes after everything with content. A fact that was extracted from messages gives way to them,
where they are searched as well.

Standing facts stand above talk about the same: what the user had stored under a key is valid; talk
about it may be older, may be a question, or may be a model's mistake. Nor does a fact that others
share under a key of the user's stand above the user's own. After the surest places, sessions
without a result so far are preferred.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import ECHO, EXTRACTED, UNANSWERED, Array, Flags, Positions
from local.ledger.search import Echo
from local.memory.recall.likeness import Likeness, Wording
from local.memory.recall.query import Query
from local.text.names import is_users
from local.text.words import stems

BEHIND = 0.01
"""How far below the best of its sources an echo stands, in the sum of shares."""
WITHOUT_SOURCE = -0.3
"""The loss of an echo whose sources are not in what is searched."""
NO_ANSWER = -3.0
LOOKED_AT = 300
"""Echoes that are examined; none of the others is among the best."""
ANSWERS = 0.5
"""The share of the question that an answering fact covers by itself,"""
NEAR = 0.15
"""or how far its cosine is above the least; above the nearest one's for questions about oneself."""
SAME = 0.95
"""A message with such a cosine repeats the question; so does one of all its words and few
others."""
MORE = 1.25
MOST_LIFTED = 3
"""The number of facts that are lifted, those most similar to the question first."""
APART = 0.01
"""How far above what they stand above, in the sum of shares."""
AHEAD = 100
"""The number of best results that are sorted at once; the others when they are needed."""


def weighed(sums: Array, weights: Array) -> Array:
    """Return the scores of sums of shares; a weight never does harm."""
    return np.where(sums < 0, sums / weights, sums * weights)


def unweighed(scores: Array, weights: Array) -> Array:
    """Return the sums of shares that give these scores."""
    return np.where(scores < 0, scores * weights, scores / weights)


class Echoes:
    """The echoes in a view that give way for a question. `share` is their loss."""

    def __init__(self, view: View, query: Query, sums: Array, weights: Array) -> None:
        """`sums` are those of the other shares."""
        kind = view.column["echo"]
        self.share = np.where(kind == UNANSWERED, NO_ANSWER, 0.0)
        self._view, self._query, self._sums, self._weights = view, query, sums, weights
        self._giving: dict[int, Echo] = {}
        (echoes,) = np.nonzero((kind == ECHO) | (kind == EXTRACTED))
        self._best = echoes[np.argsort(-sums[echoes], kind="stable")][:LOOKED_AT]

    @property
    def rows(self) -> list[int]:
        """Those that may be among the best."""
        rows: list[int] = self._view.column["row"][self._best].tolist()
        return rows

    def give_way(self, sources: Mapping[int, Echo]) -> None:
        """Put them behind what they repeat."""
        asked = frozenset(stems(self._query.terms)) if len(self._best) else frozenset()
        row = self._view.column["row"]
        # The older first: an echo may be the source of another.
        for position in self._best[np.argsort(row[self._best])].tolist():
            echo = sources.get(int(row[position]), Echo(()))
            if asked.isdisjoint(echo.adds):  # otherwise the question asks for its own content
                self._put_behind(position, echo)

    def _put_behind(self, position: int, echo: Echo) -> None:
        sources = self._view.positions(echo.sources)
        if not len(sources):
            if self._view.column["echo"][position] == ECHO:
                self.share[position] = WITHOUT_SOURCE
            return
        self._giving[position] = echo
        scores = weighed((self._sums + self.share)[sources], self._weights[sources])
        least = float(scores.max()) - BEHIND
        weight = float(self._weights[position])
        allowed = least / weight if least >= 0 else least * weight
        self.share[position] = min(0.0, allowed - float(self._sums[position]))

    def sources(self, relevant: Flags) -> list[int]:
        """Return the rows that the relevant echoes give way to."""
        giving = (echo for position, echo in self._giving.items() if relevant[position])
        return [row for echo in giving for row in echo.sources]

    def covered_by_sources(self) -> list[int]:
        """Return extracted facts that take no place, because their messages are in the list."""
        kind = self._view.column["echo"]
        return [position for position in self._giving if kind[position] == EXTRACTED]

    def of(self, position: int) -> Echo | None:
        """Return the echo at a position, if it gives way."""
        return self._giving.get(position)


class ResultList:
    """A list of results as it grows: an echo gets a place in it only if it adds to it."""

    def __init__(self) -> None:
        self._listed: set[int] = set()
        self._echoed: set[int] = set()

    def lists(self, row: int, echo: Echo | None) -> bool:
        """Return whether a row is worth a place; of the echoes that add something, one a source."""
        if echo is not None:
            if not self._repeated(echo).isdisjoint(echo.sources):
                return False
            self._echoed.update(echo.sources)
        self._listed.add(row)
        return True

    def _repeated(self, echo: Echo) -> set[int]:
        return self._echoed if echo.adds else self._echoed | self._listed


class StandingFacts:
    """Standing facts in a search: `share` is their gain or loss, beside the other `sums`."""

    def __init__(self, view: View, sums: Array, weights: Array) -> None:
        self._view, self._sums, self._weights = view, sums, weights
        self.share = np.zeros(view.size)
        extracted = view.column["echo"] == EXTRACTED  # their messages have the places
        named = np.flatnonzero((view.column["topic"] >= 0) & ~extracted)
        users = view.column["scope"][named] == view.names.scopes.of("user")
        self._own, self._shared = named[users], named[~users]

    def give_way(self, relevant: Flags) -> None:
        """Put shared facts under a user's keys behind the user's own, which are then relevant."""
        topic = self._view.column["topic"]
        claiming = self._shared[np.isin(topic[self._shared], topic[self._own])]
        if not len(claiming):
            return
        of_users = self._view.names.topics.each(is_users).astype(bool)
        for position in claiming[of_users[topic[claiming]] & relevant[claiming]].tolist():
            own = self._own[topic[self._own] == topic[position]]
            relevant[own] = True
            least = min(map(self._score, own.tolist())) - APART
            self._put(position, min(self._score(position), least))

    def lift(self, query: Query, wording: Wording, like: Likeness, min_score: float) -> None:
        """Put the user's facts that answer above messages that have no more of the question."""
        if query.window is not None or not len(self._own):
            return
        answering = self._answering(query, wording, like, min_score)
        best = answering[np.argsort(-like.own[answering], kind="stable")][:MOST_LIFTED]
        rivals = self._view.column["spoken"].copy()
        informative = ~_is_uninformative(self._view, query, wording, like) if len(best) else rivals
        for position in best[::-1].tolist():
            beside = rivals & ~(informative & (wording.covers > wording.covers[position]))
            highest = float(self._scores()[beside].max(initial=-np.inf)) + APART
            if highest > self._score(position):
                self._put(position, highest)
                rivals[position] = True  # a better answer stands above it

    def _answering(
        self, query: Query, wording: Wording, like: Likeness, min_score: float
    ) -> Positions:
        answers: Flags = wording.covers[self._own] >= ANSWERS
        if query.of_oneself:
            near = like.meaning[self._own]
            answers |= (near >= min_score + NEAR) & (near == near.max())
        return np.asarray(self._own[answers])

    def _scores(self) -> Array:
        return weighed(self._sums + self.share, self._weights)

    def _score(self, position: int) -> float:
        total = self._sums[position] + self.share[position]
        return float(weighed(total, self._weights[position]))

    def _put(self, position: int, score: float) -> None:
        """Give it this score."""
        weight = float(self._weights[position])
        wanted = score / weight if score >= 0 else score * weight
        self.share[position] = wanted - float(self._sums[position])


def _is_uninformative(view: View, query: Query, wording: Wording, like: Likeness) -> Flags:
    """Return which say nothing about the asking user: models' words, the question asked before."""
    if not query.of_oneself:
        return np.zeros(view.size, bool)
    return np.asarray(view.column["machine"] | is_as_asked(query, wording, like))


def is_as_asked(query: Query, wording: Wording, like: Likeness) -> Flags:
    """Return which records, if they ask, ask the same as the question."""
    short = wording.view.column["length"] <= MORE * len(query.text)
    return np.asarray((like.meaning >= SAME) | (short & (wording.covers >= SAME)))


NEW_SESSION, SURE, SPREAD = 0.2, 10, 20
"""From the 11th place to the 20th: the gain of a session that has no place before."""


def in_order(scores: Array, relevant: Positions, column: Mapping[str, Any]) -> Iterator[list[int]]:
    """Yield the relevant positions in parts, best first; of the same score the older record."""
    while len(relevant):
        chosen = relevant
        if len(relevant) > AHEAD:
            least = np.partition(scores[relevant], -AHEAD)[-AHEAD]
            chosen = relevant[scores[relevant] >= least]
        best = chosen[np.lexsort((column["row"][chosen], -scores[chosen]))].tolist()
        yield _spread(
            best,
            dict(zip(best, scores[best].tolist(), strict=True)),
            dict(zip(best, column["session"][best].tolist(), strict=True)),
        )
        relevant = np.setdiff1d(relevant, chosen)


def _spread(
    order: Sequence[int], scores: Mapping[int, float], sessions: Mapping[int, int]
) -> list[int]:
    """After the surest places, prefer sessions without one: questions may need several."""
    chosen, rest = list(order[:SURE]), list(order[SURE:])
    seen = {sessions[i] for i in chosen}
    while rest and len(chosen) < SPREAD:
        ahead = rest[: SPREAD + SURE]
        best = max(ahead, key=lambda i: scores[i] + NEW_SESSION * (sessions[i] not in seen))
        rest.remove(best)
        chosen.append(best)
        seen.add(sessions[best])
    return chosen + rest
