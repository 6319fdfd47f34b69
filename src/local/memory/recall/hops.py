"""Questions of several steps: what the best hits name, and the question does not, leads further.

"Where was the spouse of the author of Emma born?" has no word of the fact that answers it. One that
it has words of names the author, that one's names the spouse. Only short records lead: a long one
names too much.
"""

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import Array, Flags, Positions
from local.memory.recall.echoes import unweighed, weighed
from local.memory.recall.likeness import Likeness, Wording
from local.text.features import MONTHS
from local.text.keywords import is_telling, stems

LEADS = 8
"""So many of the best hits may lead on,"""
STEPS = 2
"""so many times."""
ANSWERED = 0.8
"""A best hit with such a share of the question's words answers it, and nothing need be led to."""
TELLING = 8
"""Stems of a record that leads, at most."""
KNOWN_TO = 0.03
"""A stem that more of the records have names nothing."""
NAMED = 0.5
"""How much of what is new in a lead a record needs, rare stems first."""
LED = 0.8
"""Of what the lead has, what a record gains that has all of it,"""
UNASKED = 0.5
"""how much of that if it has nothing of the question that the lead lacks,"""
ASKED = 0.1
"""and how much of the question is enough for the whole."""
APART = 0.01
"""How far behind its lead it stays, in the score."""
_MONTHS = frozenset(stems(month.lower() for month in MONTHS))


class Hops:
    """What is led to, step by step; `share` is what it gains, beside the other `sums`."""

    def __init__(self, wording: Wording, like: Likeness, sums: Array, weights: Array) -> None:
        self._view: View = wording.view
        self._wording = wording
        self._own = like.own
        self._sums = sums
        self._weights = weights
        self.share = np.zeros(self._view.size)

    @property
    def scores(self) -> Array:
        return weighed(self._sums + self.share, self._weights)

    def step(self, leads: Sequence[int]) -> bool:
        """Lift what the leads name; whether there is any, and the best does not answer already."""
        if self._is_answered(leads):
            return False
        gained = self.share.copy()
        for lead in leads:
            found, named = self._naming(lead)
            if len(found):
                lift = LED * (self._own[lead] + self.share[lead]) * self._worth(lead, found, named)
                most = np.maximum(self._behind(lead, found) - self._sums[found], 0.0)
                gained[found] = np.maximum(gained[found], np.minimum(lift, most))
        self.share = gained
        return bool(gained.any())

    def _is_answered(self, leads: Sequence[int]) -> bool:
        return not leads or bool(self._wording.covered[leads[0]] >= ANSWERED)

    def _naming(self, lead: int) -> tuple[Positions, Array]:
        """What else has much of what is new in a lead, and how much of it."""
        new = list(self._new(lead))
        if not new:
            return np.zeros(0, np.int64), np.zeros(0)
        every = sum(weight for _, weight in new)
        counted = np.concatenate([np.full(len(at), weight / every) for at, weight in new])
        found, of = np.unique(np.concatenate([at for at, _ in new]), return_inverse=True)
        named = np.bincount(of, counted)
        enough = (named >= NAMED) & (found != lead)
        return found[enough], named[enough]

    def _new(self, lead: int) -> Iterator[tuple[Positions, float]]:
        """Where its stems stand that the question lacks and few have, and what each tells."""
        if self._view.column["wish"][lead]:
            return  # it says how, and not what
        telling = list(islice(filter(_names, self._view.stems(lead)), TELLING + 1))
        size = self._view.size
        for stem in telling if len(telling) <= TELLING else ():
            if stem not in self._wording.stems:
                at = self._view.postings(stem).positions
                if 1 < len(at) <= max(KNOWN_TO * size, 2):
                    yield at, math.log((size + 1) / len(at))

    def _worth(self, lead: int, found: Positions, named: Array) -> Array:
        """More if they have some of the question that the lead lacks; long texts name much."""
        has, rarity = self._asked
        beyond = rarity @ (has[:, found] & ~has[:, [lead]])
        asked = UNASKED + (1 - UNASKED) * np.minimum(beyond / ASKED, 1.0)
        return np.asarray(named * asked * self._wording.damped[found])

    @cached_property
    def _asked(self) -> tuple[Flags, Array]:
        """Which of the question's words each has, and how rare these are."""
        terms = self._wording.terms
        has = np.zeros((len(terms), self._view.size), bool)
        for number, term in enumerate(terms):
            has[number, term.found.positions[term.found.ahead]] = True
        return has, np.array([term.rarity for term in terms])

    def _behind(self, lead: int, found: Positions) -> Array:
        """The sums with which they stay behind their lead, whatever their weights."""
        score = weighed(self._sums[lead] + self.share[lead], self._weights[lead]) - APART
        return unweighed(np.full(len(found), score), self._weights[found])


def _names(stem: str) -> bool:
    """Whether it may belong to a name; the day of a record is among its stems."""
    return is_telling(stem) and not stem.isdigit() and stem not in _MONTHS
