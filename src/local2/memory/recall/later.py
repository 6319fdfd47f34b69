"""Find later statements about the same thing, to show beside an item.

Which statement holds is not decided here, and no rank changes: whoever reads an item sees what its
speaker said about the same thing afterwards. Nothing in this module knows a language.

Two records are about the same thing if their vectors are closer than the speaker's statements
usually are, if they share rare words, and if the later one matches the question as well. A message
is compared together with its reply, or with what it replies to: "Sold it." says little alone.
"""

import math
from functools import cached_property

import numpy as np

from local2.language.names import may_be_name
from local2.ledger.columns import View
from local2.ledger.entries import EXTRACTED, Array, Flags, Floats, Positions
from local2.memory.recall.likeness import EPSILON
from local2.memory.recall.precedence import best_positions
from local2.memory.recall.tuning import (
    ASSUMED_DEVIATION,
    ASSUMED_MEAN,
    LATER_ASSUMED,
    LATER_CANDIDATES,
    LATER_OVERLAP,
    LATER_RELEVANCE,
    LATER_SAMPLE,
    MAX_LATER,
    MAX_RELEVANCE,
    MIN_CLOSENESS,
    MIN_LATER,
    MIN_RELEVANCE,
)
from local2.memory.recall.variants import USER_STRENGTH, Variants


class LaterStatements:
    """The statements of people that match a question, compared with items when asked for."""

    def __init__(
        self, variants: Variants, compared: Flags, scores: Array, relevant: Flags, floor: float
    ) -> None:
        """`compared`: the records with a vector by the question's embedder, with its `floor`."""
        self._assumed_mean = floor + (1 - floor) * ASSUMED_MEAN
        self._assumed_deviation = (1 - floor) * ASSUMED_DEVIATION
        self._variants = variants
        self._view: View = variants.view
        self._compared = compared
        self._scores = scores
        self._relevant = relevant
        self._stems: dict[int, frozenset[str]] = {}
        self._rarities: dict[str, float] = {}

    def later_than(self, position: int) -> list[int]:
        """Return the rows of at most three later statements about the same thing, best first."""
        if not self._compared[position] or not len(self._candidates):
            return []
        newer = self._is_newer(position)
        if not newer.any():
            return []
        candidates = self._candidates[newer]
        toward = self._unit_vectors(np.array([position]))[0]
        mean, deviation = self._usual_cosines(position, toward)
        closeness = (self._candidate_vectors[newer] @ toward - mean) / deviation
        relevance = np.minimum(self._scores[candidates] / self._best_score, MAX_RELEVANCE)
        known, found = self._stems_around(position), []
        for index in np.flatnonzero((closeness >= MIN_CLOSENESS) & (relevance >= MIN_RELEVANCE)):
            total = float(closeness[index]) + LATER_RELEVANCE * float(relevance[index])
            shared = self._stems_of(int(candidates[index])) & known
            total += LATER_OVERLAP * sum(map(self._rarity, shared))
            if total >= MIN_LATER:
                found.append((total, int(candidates[index])))
        row = self._view.column["row"]
        return [int(row[later]) for _, later in sorted(found, reverse=True)[:MAX_LATER]]

    def _usual_cosines(self, position: int, toward: Floats) -> tuple[float, float]:
        """Return mean and deviation of the cosines between a record and the other statements.

        A few statements do not show them, so some unrelated ones are assumed.
        """
        cosines = (self._sample_vectors @ toward)[self._sample != position]
        count = LATER_ASSUMED + len(cosines)
        mean = (LATER_ASSUMED * self._assumed_mean + float(cosines.sum())) / count
        # The assumed ones spread around their own mean: another embedder's may be far from it.
        squares = LATER_ASSUMED * self._assumed_deviation**2 + len(cosines) * float(
            cosines.var() if len(cosines) else 0.0
        )
        return mean, math.sqrt(squares / count)

    def _is_newer(self, position: int) -> Flags:
        """Return which candidates its speaker, or the one it replied to, stated later."""
        column, others = self._view.column, self._candidates
        principal = column["principal"][position]
        partner = self._partners[position]
        if principal < 0 or column["machine"][position]:
            principal = column["principal"][partner] if partner < self._view.size else -1
        same = (column["principal"][others] == principal) & (others != position)
        time, row = column["newness"], column["row"]
        later = (time[others] > time[position]) | (
            (time[others] == time[position]) & (row[others] > row[position])
        )
        return np.asarray(same & later)

    def _stems_around(self, position: int) -> frozenset[str]:
        """Return the stems of an item and of its partner."""
        partner = int(self._partners[position])
        own = self._stems_of(position)
        return own | self._stems_of(partner) if partner < self._view.size else own

    def _rarity(self, stem: str) -> float:
        """Return how rare an informative stem is; 0 for others, and for those of a date."""
        if stem not in self._rarities:
            rarity = 0.0
            if may_be_name(stem):
                rarity = math.log((self._view.size + 1) / (self._view.frequency(stem) + 0.5))
            self._rarities[stem] = max(rarity, 0.0)
        return self._rarities[stem]

    def _stems_of(self, position: int) -> frozenset[str]:
        if position not in self._stems:
            self._stems[position] = frozenset(self._view.stems(position))
        return self._stems[position]

    @cached_property
    def _best_score(self) -> float:
        return max(float(self._scores[self._relevant].max(initial=0.0)), EPSILON)

    @cached_property
    def _statements(self) -> Positions:
        column = self._view.column
        stated = (column["principal"] >= 0) & (self._variants.strengths >= USER_STRENGTH)
        stated &= ~column["machine"] & (column["echo"] != EXTRACTED) & self._compared
        session = self._view.names.scopes.number_of("session")
        is_turn = ~column["spoken"] & (column["scope"] == session)
        return np.flatnonzero(stated & ~is_turn)

    @cached_property
    def _candidates(self) -> Positions:
        relevant = self._statements[self._relevant[self._statements]]
        return best_positions(self._scores, relevant, LATER_CANDIDATES)

    @cached_property
    def _candidate_vectors(self) -> Floats:
        return self._unit_vectors(self._candidates)

    @cached_property
    def _sample(self) -> Positions:
        step = max(len(self._statements) // LATER_SAMPLE, 1)
        return self._statements[::step][:LATER_SAMPLE]

    @cached_property
    def _sample_vectors(self) -> Floats:
        return self._unit_vectors(self._sample)

    @cached_property
    def _partners(self) -> Positions:
        """The reply to a person's message, and what an assistant's message replies to."""
        if not self._view.neighbours:
            return np.full(self._view.size, self._view.size, np.int64)
        before, after = self._view.neighbours[0]
        machine = self._view.column["machine"]
        partner = np.where(machine, before, after)
        known = partner < self._view.size
        other = np.append(machine, False)[partner] != machine
        return np.where(known & other, partner, self._view.size)

    def _unit_vectors(self, positions: Positions) -> Floats:
        """Return the vectors of records, each with its partner's, of length 1."""
        vectors = self._view.vectors_at(positions)
        partners = self._partners[positions]
        has = partners < self._view.size
        has[has] &= self._compared[partners[has]]
        vectors[has] += self._view.vectors_at(partners[has])
        lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
        return np.asarray(vectors / np.maximum(lengths, EPSILON), np.float32)
