"""Updates: of statements of one principal about one thing the newest stands first.

What a document, a tool, an assistant or somebody else says about it stands behind what a user
stated, whenever and however often it was said. Nothing is retired here: it is an order, and a mark.
"""

from collections import defaultdict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import Array
from local.ledger.records import Record
from local.ledger.search import Choice, DetailRequest
from local.memory.recall.echoes import unweighed, weighed
from local.memory.recall.statements import Statement, frames, is_same, is_variant, statements
from local.memory.scopes import STATED, principal, strength
from local.protocol.envelope import Caller

APART = 0.01
"""How far below what it stands behind, in the sum of shares."""


class Mark(NamedTuple):
    """The ids of what stands for a record now: a newer one, or one of more force."""

    outdated_by: str | None = None
    contradicts: str | None = None


NOTHING = Mark()


class _Said(NamedTuple):
    position: int
    statement: Statement


Pair = tuple[int, int]
"""Two positions, the older record's first."""


class Variants:
    """Of the candidates for a question that were looked at."""

    def __init__(self, view: View, caller: Caller) -> None:
        self._view = view
        self._caller = caller
        self._looked: set[int] = set()
        self._framed: defaultdict[tuple[str, ...], list[_Said]] = defaultdict(list)
        self._begun: defaultdict[tuple[str, ...], list[_Said]] = defaultdict(list)
        self._pairs: set[Pair] = set()
        self._same: set[Pair] = set()
        self._records: dict[int, Record] = {}
        self._stands: dict[int, int] = {}
        self._told: dict[int, Mark] = {}

    def look_at(self, positions: Iterable[int]) -> Choice[None]:
        """Compare these with one another and with those before."""
        new = [position for position in positions if position not in self._looked]
        self._looked.update(new)
        row = self._view.column["row"]
        texts = (yield DetailRequest(texts=row[new].tolist())).texts
        for position in new:
            self._compare(position, texts.get(int(row[position]), ""))
        paired = {position for pair in self._pairs for position in pair}
        if unknown := sorted(paired - self._records.keys()):
            records = (yield DetailRequest(records=row[unknown].tolist())).records
            there = [position for position in unknown if int(row[position]) in records]
            self._records |= {position: records[int(row[position])] for position in there}
            self._settle()

    def _compare(self, position: int, text: str) -> None:
        to_user = bool(self._view.column["machine"][position])
        for statement in statements(text, to_user=to_user):
            said = _Said(position, statement)
            for key in frames(statement):
                known = self._framed[key]
                for other in known:
                    self._pair(other, said)
                known.append(said)
            begun = self._begun[statement.words[:2]]
            for other in begun:
                if (other.statement.denied is None) != (statement.denied is None):
                    self._pair(other, said)
            begun.append(said)

    def _pair(self, one: _Said, other: _Said) -> None:
        if one.position == other.position:
            return
        older, newer = sorted((one, other), key=lambda said: self._when(said.position))
        if is_same(older.statement, newer.statement):
            self._same.add((older.position, newer.position))
        elif is_variant(older.statement, newer.statement):
            self._pairs.add((older.position, newer.position))

    def _when(self, position: int) -> tuple[float, int]:
        column = self._view.column
        return float(column["time"][position]), int(column["row"][position])

    def _settle(self) -> None:
        """What stands for what; the newest first."""
        self._stands, self._told = {}, {}
        by_age = sorted(self._pairs, key=lambda pair: self._when(pair[1]), reverse=True)
        for older, newer in by_age:
            if older not in self._stands and self._outdates(older, newer):
                self._stands[older] = newer
                self._told[older] = Mark(outdated_by=self._records[newer].id)
        held_now = {position for pair in by_age for position in pair} - self._stands.keys()
        for pair in by_age:
            for claim, held in (pair, pair[::-1]):
                if held in held_now and self._contradicts(claim, held):
                    self._stands[claim] = held
                    self._told[claim] = Mark(contradicts=self._records[held].id)

    def _outdates(self, older: int, newer: int) -> bool:
        one, other = self._records.get(older), self._records.get(newer)
        if one is None or other is None or one.topic is not None and one.topic == other.topic:
            return False
        same = principal(one) == principal(other) and principal(one) is not None
        return same and strength(one) == strength(other) == STATED and not self._restated(older, newer)

    def _restated(self, older: int, newer: int) -> bool:
        """Whether what the older one says was said again since."""
        again = (two for one, two in self._same if one == older)
        return any(self._when(one) > self._when(newer) for one in again)

    def _contradicts(self, claim: int, held: int) -> bool:
        """Whether what is claimed has less force than what a user stated."""
        one, other = self._records.get(claim), self._records.get(held)
        if one is None or other is None or strength(other) < STATED:
            return False
        own = self._caller.user or ""
        theirs = principal(one) != principal(other) and principal(other) == own
        return strength(one) < strength(other) or theirs

    def mark(self, position: int) -> Mark:
        """What stands for it, by their ids."""
        return self._told.get(position, NOTHING)

    def share(self, sums: Array, weights: Array) -> Array:
        """What each gains or loses: what stands for others takes the best of their places."""
        scores = weighed(sums, weights)
        ordered = scores.copy()
        behind: defaultdict[int, list[int]] = defaultdict(list)
        for position, stands in self._stands.items():
            behind[stands].append(position)
        for stands, others in sorted(behind.items(), key=lambda each: -scores[each[1]].max()):
            ordered[stands] = max(ordered[stands], scores[others].max())
            ordered[others] = np.minimum(ordered[others], ordered[stands] - APART)
        return np.where(ordered == scores, 0.0, unweighed(ordered, weights) - sums)
