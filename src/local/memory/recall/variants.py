"""Updates: of what one principal said about one thing the newest stands first.

What a document, a tool, an assistant or somebody else says about it stands behind what a user
stated, whenever and however often it was said. Nothing is retired here: it is an order, and a mark.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import Array
from local.ledger.records import STRENGTH, TENANT_OWNED
from local.ledger.search import Choice, DetailRequest
from local.memory.recall.echoes import unweighed, weighed
from local.memory.recall.statements import Sentence, is_of_same, is_same, is_variant, sentences_of
from local.protocol.envelope import Caller

OWN_WORDS = STRENGTH["stated"]
APART = 0.01
"""How far below what it stands behind, in the sum of shares."""


class Mark(NamedTuple):
    """The rows of what stands for a record: what is newer, or what has more force."""

    outdated_by: int | None = None
    contradicts: int | None = None


UNMARKED = Mark()


class _Said(NamedTuple):
    position: int
    sentence: Sentence


class Variants:
    """Among the candidates for a question that were looked at."""

    def __init__(self, view: View, caller: Caller) -> None:
        self._view = view
        self._caller = view.names.principals.of(caller.user or TENANT_OWNED)
        self._strengths = view.names.sources.each(STRENGTH.__getitem__)[view.column["source"]]
        self._looked: set[int] = set()
        self._opened: defaultdict[tuple[str, ...], list[_Said]] = defaultdict(list)
        self._pairs: set[tuple[int, int]] = set()
        self._again: defaultdict[int, set[int]] = defaultdict(set)
        self.stands: dict[int, int] = {}
        """The position of what stands for each."""
        self.marks: dict[int, Mark] = {}

    def look_at(self, positions: Iterable[int]) -> Choice[None]:
        """Compare these with one another, and with those before."""
        new = [position for position in positions if position not in self._looked]
        if not new:
            return
        self._looked.update(new)
        rows = self._view.column["row"][new].tolist()
        texts = (yield DetailRequest(texts=rows)).texts
        pairs = len(self._pairs)
        for position, row in zip(new, rows, strict=True):
            self._compare(position, texts.get(row, ""))
        if len(self._pairs) > pairs:
            self._settle()

    def share(self, sums: Array, weights: Array) -> Array:
        """What each gains or loses: what stands for others has the best of their places."""
        scores = weighed(sums, weights)
        ordered = scores.copy()
        behind: defaultdict[int, list[int]] = defaultdict(list)
        for position, stands in self.stands.items():
            behind[stands].append(position)
        for stands, others in sorted(behind.items(), key=lambda each: -scores[each[1]].max()):
            ordered[stands] = max(ordered[stands], scores[others].max())
            ordered[others] = np.minimum(ordered[others], ordered[stands] - APART)
        return np.where(ordered == scores, 0.0, unweighed(ordered, weights) - sums)

    def _compare(self, position: int, text: str) -> None:
        to_user = bool(self._view.column["machine"][position])
        for sentence in sentences_of(text, to_user=to_user):
            said = _Said(position, sentence)
            for other in self._opened[sentence.opening]:
                if other.position != position:
                    self._pair(other, said)
            self._opened[sentence.opening].append(said)

    def _pair(self, one: _Said, other: _Said) -> None:
        stated, another = one.sentence.statement, other.sentence.statement
        if stated is None or another is None or not is_of_same(stated, another):
            return
        older, newer = sorted((one.position, other.position), key=self._when)
        if is_same(stated, another):
            self._again[older].add(newer)
        elif is_variant(stated, another):
            self._pairs.add((older, newer))

    def _when(self, position: int) -> tuple[float, int]:
        column = self._view.column
        return float(column["time"][position]), int(column["row"][position])

    def _settle(self) -> None:
        """Find what stands for what, the newest for all."""
        self.stands, self.marks = {}, {}
        row = self._view.column["row"]
        pairs = sorted(self._pairs, key=lambda pair: self._when(pair[1]), reverse=True)
        for older, newer in pairs:
            if older not in self.stands and self._outdates(older, newer):
                self.stands[older] = newer
                self.marks[older] = Mark(outdated_by=int(row[newer]))
        held = {position for pair in pairs for position in pair} - self.stands.keys()
        for pair in pairs:
            for claim, stated in (pair, pair[::-1]):
                if {claim, stated} <= held and self._has_less_force(claim, stated):
                    self.stands[claim] = stated
                    self.marks[claim] = Mark(contradicts=int(row[stated]))
                    held.discard(claim)

    def _outdates(self, older: int, newer: int) -> bool:
        """Whether one principal, whose word counts, says otherwise since, and has not gone back."""
        principal = self._view.column["principal"]
        if principal[older] != principal[newer] or principal[older] < 0:
            return False
        counts = min(self._strengths[older], self._strengths[newer]) >= OWN_WORDS
        since = (one for one in self._again[older] if principal[one] == principal[older])
        return counts and not any(self._when(one) > self._when(newer) for one in since)

    def _has_less_force(self, claim: int, stated: int) -> bool:
        """Whether it is weaker than what a user stated, or another one's than the caller's own."""
        principal = self._view.column["principal"]
        if self._strengths[stated] < OWN_WORDS:
            return False
        others = principal[claim] != principal[stated] and principal[stated] == self._caller
        return bool(self._strengths[claim] < OWN_WORDS or others)
