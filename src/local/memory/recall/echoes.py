"""Echoes give way: what was answered from memory never stands above what it was answered from.

Nor does a question asked again, which is nearer to itself than to what answers it; and a question
that found no answer, with the refusal, comes after everything that says something. A fact that was
extracted from messages gives way to them, where they are searched as well.
"""

from collections.abc import Mapping

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import ECHO, EXTRACTED, UNANSWERED, Array, Flags
from local.ledger.search import Echo
from local.memory.recall.query import Query
from local.text.keywords import stems

BEHIND = 0.01
"""How far below the best of its sources an echo stands, in the sum of shares."""
WITHOUT_SOURCE = -0.3
"""What an echo loses whose sources are not in what is searched."""
SAYS_NOTHING = -3.0
LOOKED_AT = 300
"""Echoes; of the others none is among the best."""


def weighed(sums: Array, weights: Array) -> Array:
    """Scores of sums of shares; a weight never does harm."""
    return np.where(sums < 0, sums / weights, sums * weights)


def unweighed(scores: Array, weights: Array) -> Array:
    """The sums of shares that give these scores."""
    return np.where(scores < 0, scores * weights, scores / weights)


class Echoes:
    """Those of a view that give way for a question. `share` is what they lose of their sums."""

    def __init__(self, view: View, query: Query, sums: Array, weights: Array) -> None:
        """`sums` are those of the other shares."""
        kind = view.column["echo"]
        self.share = np.where(kind == UNANSWERED, SAYS_NOTHING, 0.0)
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
            if asked.isdisjoint(echo.adds):  # else what is asked for is its own
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
        """Rows of what the relevant echoes give way to."""
        giving = (echo for position, echo in self._giving.items() if relevant[position])
        return [row for echo in giving for row in echo.sources]

    def told_by_sources(self) -> list[int]:
        """Extracted facts whose messages stand where they would: they take no place."""
        kind = self._view.column["echo"]
        return [position for position in self._giving if kind[position] == EXTRACTED]

    def of(self, position: int) -> Echo | None:
        """The echo at a position, if it gives way."""
        return self._giving.get(position)


class ResultList:
    """What a list of results has, as it grows: an echo has a place in it only if it adds to it."""

    def __init__(self) -> None:
        self._listed: set[int] = set()
        self._echoed: set[int] = set()

    def lists(self, row: int, echo: Echo | None) -> bool:
        """Whether a row is worth a place; of the echoes that add something, one a source."""
        if echo is not None:
            if not self._repeated(echo).isdisjoint(echo.sources):
                return False
            self._echoed.update(echo.sources)
        self._listed.add(row)
        return True

    def _repeated(self, echo: Echo) -> set[int]:
        return self._echoed if echo.adds else self._echoed | self._listed
