"""Follow what the best hits name, for questions of several steps.

"Where was the spouse of the author of Emma born?" shares no word with the fact that answers it. A
fact that shares words with the question names the author, and facts about the author name the
spouse. So records with the rare words of a hit that are missing from the question are raised. Only
short records lead to others: a long one names too much.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from itertools import islice

import numpy as np

from local2.language.names import may_be_name
from local2.ledger.columns import Array, Flags, Positions, View
from local2.memory.recall.likeness import Likeness, Wording
from local2.memory.recall.scores import (
    Total,
    apply_weights,
    remove_weights,
)
from local2.memory.recall.tuning import (
    ANSWER_COVERED,
    BELOW_LEAD,
    COMMON_STEM,
    LEAD_GAIN,
    MAX_LEAD_STEMS,
    MIN_NAMED,
    RELATED_COVERAGE,
    UNRELATED_FACTOR,
)


class Hops:
    """Raises the records that the best hits name, step by step. `share` is their gain.

    What a record gained by a link is subtracted: the link and the words are one name.
    """

    def __init__(self, wording: Wording, like: Likeness, total: Total) -> None:
        self._view: View = wording.view
        self._wording = wording
        self._own = like.own
        self._sums = total.sums
        self._weights = total.weights
        self._linked = total.shares["related"]
        self.share = np.zeros(self._view.size)
        self._named: dict[int, tuple[Positions, Array]] = {}
        """What leads name, for those that lead in several steps."""

    @property
    def scores(self) -> Array:
        return apply_weights(self._sums + self.share, self._weights)

    def follow(self, leads: Sequence[int]) -> bool:
        """Raise the records that the leads name, unless the best lead is the answer.

        Return whether any record was raised.
        """
        wording = self._wording
        if not leads or bool(wording.covered[leads[0]] >= ANSWER_COVERED):
            return False
        has, rarity = self._question_terms
        gained = self.share.copy()
        for lead in leads:
            if lead not in self._named:
                self._named[lead] = self._records_named_by(lead)
            found, named = self._named[lead]
            if not len(found):
                continue
            # Records with words of the question that the lead lacks gain more, long texts less.
            beyond = rarity @ (has[:, found] & ~has[:, [lead]])
            factor = UNRELATED_FACTOR + (1 - UNRELATED_FACTOR) * np.minimum(
                beyond / RELATED_COVERAGE, 1.0
            )
            relevance = named * factor * wording.length_damping[found]
            strength = LEAD_GAIN * (self._own[lead] + self.share[lead])
            gain = strength * relevance - self._linked[found]
            # What they name ranks just below the leads, whatever the weights.
            lead_score = apply_weights(self._sums[lead] + self.share[lead], self._weights[lead])
            highest = np.full(len(found), lead_score - BELOW_LEAD)
            below_lead = remove_weights(highest, self._weights[found])
            limit = np.maximum(below_lead - self._sums[found], 0.0)
            gained[found] = np.maximum(gained[found], np.minimum(gain, limit))
        self.share = gained
        return bool(gained.any())

    def _records_named_by(self, lead: int) -> tuple[Positions, Array]:
        """The records with enough of a lead's rare stems that the question lacks.

        With the fraction of these stems, by rarity, that each has.
        """
        view, size = self._view, self._view.size
        found, named = np.zeros(0, np.int64), np.zeros(0)
        names = list(islice(filter(may_be_name, view.stems(lead)), MAX_LEAD_STEMS + 1))
        if len(names) > MAX_LEAD_STEMS or view.column["wish"][lead]:
            return found, named  # a wish about the form of answers names nothing
        having: list[Positions] = []
        weights: list[float] = []
        for stem in names:
            if stem not in self._wording.stems:
                count = view.frequency(stem)
                if 1 < count <= max(COMMON_STEM * size, 2):
                    having.append(view.positions_with(stem))
                    weights.append(math.log((size + 1) / count))
        if having:
            total = sum(weights)
            of_each = [
                np.full(len(at), weight / total) for at, weight in zip(having, weights, strict=True)
            ]
            fractions: Array = np.bincount(np.concatenate(having), np.concatenate(of_each)).astype(
                np.float64
            )
            fractions[lead] = 0.0
            found = np.flatnonzero(fractions >= MIN_NAMED)
            named = fractions[found]
        return found, named

    @cached_property
    def _question_terms(self) -> tuple[Flags, Array]:
        """Which terms of the question each record begins with, and the rarity of each term."""
        terms = self._wording.terms
        has = np.zeros((len(terms), self._view.size), bool)
        for number, term in enumerate(terms):
            has[number, term.found.positions[term.found.ahead]] = True
        return has, np.array([term.rarity for term in terms])
