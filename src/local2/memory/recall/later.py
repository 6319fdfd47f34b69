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

    def __init__(self, variants: Variants, compared: Flags, scores: Array, relevant: Flags) -> None:
        """`compared`: the records with a vector by the question's embedder."""
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
        toward = self._unit_vectors(np.array([position]))[0]
        mean, deviation = self._usual_cosines(position, toward)
        closeness = (np.vecdot(self._candidate_vectors, toward) - mean) / deviation
        relevance = self._relevance
        may_be_later = newer & (closeness >= MIN_CLOSENESS) & (relevance >= MIN_RELEVANCE)
        if not may_be_later.any():
            return []
        known, found = self._stems_around(position), []
        for index in np.flatnonzero(may_be_later).tolist():
            candidate = int(self._candidates[index])
            shared = self._stems_of(candidate) & known
            total = float(closeness[index]) + LATER_RELEVANCE * float(relevance[index])
            total += LATER_OVERLAP * sum(map(self._rarity, shared))
            if total >= MIN_LATER:
                found.append((total, candidate))
        row = self._view.column["row"]
        return [int(row[later]) for _, later in sorted(found, reverse=True)[:MAX_LATER]]

    def _usual_cosines(self, position: int, toward: Floats) -> tuple[float, float]:
        """Return mean and deviation of the cosines between a record and the other statements.

        A few statements do not show them, so some unrelated ones are assumed.
        """
        cosines = np.vecdot(self._sample_vectors, toward)[self._sample != position]
        count = LATER_ASSUMED + len(cosines)
        mean = (LATER_ASSUMED * ASSUMED_MEAN + float(cosines.sum())) / count
        squares = LATER_ASSUMED * (ASSUMED_DEVIATION**2 + (ASSUMED_MEAN - mean) ** 2)
        return mean, math.sqrt((squares + float(((cosines - mean) ** 2).sum())) / count)

    def _is_newer(self, position: int) -> Flags:
        """Return which candidates its speaker, or the one it replied to, stated later."""
        column, others = self._view.column, self._candidates
        principal = column["principal"][position]
        if principal < 0 or column["machine"][position]:
            partner = int(self._partners(np.array([position]))[0])
            principal = column["principal"][partner] if partner < self._view.size else -1
        same = (column["principal"][others] == principal) & (others != position)
        time, row = column["newness"], column["row"]
        later = (time[others] > time[position]) | (
            (time[others] == time[position]) & (row[others] > row[position])
        )
        return np.asarray(same & later)

    def _stems_around(self, position: int) -> frozenset[str]:
        """Return the stems of an item and of its partner."""
        partner = int(self._partners(np.array([position]))[0])
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
    def _relevance(self) -> Array:
        """The candidates' scores, relative to the best score of all."""
        best_score = max(float(self._scores[self._relevant].max(initial=0.0)), EPSILON)
        return np.minimum(self._scores[self._candidates] / best_score, MAX_RELEVANCE)

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

    def _partners(self, positions: Positions) -> Positions:
        """Return the replies to people's messages, and what assistants' messages reply to.

        The view's size stands for none.
        """
        size = self._view.size
        if not self._view.neighbours:
            return np.full(len(positions), size, np.int64)
        before, after = self._view.neighbours[0]
        is_machine = self._view.column["machine"]
        partners = np.where(is_machine[positions], before[positions], after[positions])
        known = partners < size
        known[known] &= is_machine[partners[known]] != is_machine[positions[known]]
        return np.where(known, partners, size)

    def _unit_vectors(self, positions: Positions) -> Floats:
        """Return the vectors of records, each with its partner's, of length 1."""
        vectors = self._view.vectors_at(positions)
        partners = self._partners(positions)
        has = partners < self._view.size
        has[has] &= self._compared[partners[has]]
        vectors[has] += self._view.vectors_at(partners[has])
        lengths = np.sqrt(np.vecdot(vectors, vectors))
        return np.asarray(vectors / np.maximum(lengths, EPSILON)[:, None], np.float32)
