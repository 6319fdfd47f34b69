"""Questions of several steps: what the best hits name, and the question does not, leads further.

"Where was the spouse of the author of Emma born?" has no word of the last fact; the first one names
the author, the second the spouse. Only short records lead: a long one names too much.
"""

import math
from collections.abc import Iterator

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import Array
from local.memory.recall.likeness import Likeness, Wording
from local.memory.recall.query import Query
from local.text.features import MONTHS
from local.text.keywords import is_telling, stems

LEADS = 8
"""So many of the best hits may lead on."""
STEPS = 2
MOST = 12
"""Telling stems of a record that leads."""
KNOWN_TO = 0.1
"""A stem that this share of the records has leads nowhere."""
LED = 0.8
"""Of what the lead has, what a record gains that has all it names."""
_MONTHS = frozenset(stems(month.lower() for month in MONTHS))


NEED=0.5
FLOOR=0.0
CHAIN=0.0
REST=0.0
CAP=True

class Hops:
    def __init__(self, view: View, wording: Wording, like: Likeness, query: Query) -> None:
        self._view = view
        self._asked = frozenset(stems(query.terms))
        self._wording = wording
        self._like = like
        self.share = np.zeros(view.size)

    def step(self, leads: list[int], sums) -> None:
        """Lift what the leads name."""
        gained = self.share.copy()
        for lead in leads:
            named = dict(self._named(lead))
            every = sum(named.values())
            if not named:
                continue
            found = np.zeros(self._view.size)
            for stem, weight in named.items():
                found[self._view.postings(stem).positions] += weight / every
            found[lead] = 0.0
            lift = self._wording.damped * LED * (self._like.own[lead] + CHAIN * self.share[lead]) * np.where(found >= NEED, found, 0)
            if REST:
                beyond = self._beyond(lead)
                lift *= FLOOR + (1 - FLOOR) * np.minimum(beyond / REST, 1.0)
            if CAP:
                lift = np.minimum(lift, np.maximum(sums[lead] + self.share[lead] - 0.01 - sums, 0))
            np.maximum(gained, lift, out=gained)
        self.share = gained

    def _beyond(self, lead):
        """How much of the question each covers that the lead does not."""
        covered = np.zeros(self._view.size)
        for term in self._wording.terms:
            p = term.found.positions[term.found.ahead]
            if lead not in p:
                covered[p] += term.rarity
        return covered

    def _named(self, lead: int) -> Iterator[tuple[str, float]]:
        telling = [s for s in self._view.stems(lead) if is_telling(s) and not s.isdigit() and s not in _MONTHS]
        if len(telling) > MOST:
            return
        for stem in telling:
            if stem in self._asked:
                continue
            having = len(self._view.postings(stem).positions)
            if 1 < having <= max(KNOWN_TO * self._view.size, 2):
                yield stem, math.log(self._view.size / having)
