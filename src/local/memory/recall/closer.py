"""A closer look at the best hits: what they lead to, and which of them are outdated.

Questions of several steps: "Where was the spouse of the author of Emma born?" has no word of the
fact that answers it. A fact with words of the question names the author, and that one's facts name
the spouse. What the best hits name, and the question does not, leads further. Only short records
lead: a long one names too much.

Updates: of one principal's statements about one thing, the newest comes first. The statements of a
document, a tool, an assistant or somebody else come after a user's, whenever and however often they
were made. Nothing is retired here: this is only an order, and a mark.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import Array, Flags, Positions
from local.ledger.records import STRENGTH, TENANT_OWNED
from local.ledger.search import Choice, DetailRequest
from local.memory.recall.likeness import Likeness, Wording
from local.memory.recall.precedence import unweighed, weighed
from local.memory.recall.statements import Sentence, is_of_same, is_same, is_variant, sentences_of
from local.protocol.envelope import Caller
from local.text.features import MONTHS
from local.text.words import is_informative, stems

LEADS = 8
"""The most best hits that lead on, in a step,"""
STEPS = 2
"""and the most steps."""
ANSWERED = 0.8
"""A best hit with such a share of the question's words is an answer, and none need lead on."""
MOST_NAMES = 8
"""The most stems of a record that leads."""
KNOWN_TO = 0.03
"""A stem in a larger share of the records names nothing."""
NAMED = 0.5
"""How much of what is new in a lead a record needs, rare stems first."""
LED = 0.8
"""The gain, of the lead's share, of a record with all of it,"""
UNASKED = 0.5
"""the part of that for a record without anything of the question that the lead lacks,"""
ASKED = 0.1
"""and the part of the question that is enough for the whole."""
BEHIND_LEAD = 0.01
"""How far behind its lead it stays, in the score."""
_MONTHS = frozenset(stems(month.lower() for month in MONTHS))
OWN_WORDS = STRENGTH["stated"]
APART = 0.01
"""How far below what it stands behind, in the sum of shares."""
COMPARED = 20
"""The number of best hits that are compared with one another, for changes."""


class Hops:
    """The records that others lead to, step by step; `share` is their gain beside other `sums`."""

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
        """Raise what the leads name; return whether there is any and the best is no answer yet."""
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
        """Return the records with much of what is new in a lead, and how much of it."""
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
        """Yield where its stems occur that the question lacks and few have, and their weights."""
        if self._view.column["wish"][lead]:
            return  # it wishes how to be answered, and names nothing
        names = list(islice(filter(_names, self._view.stems(lead)), MOST_NAMES + 1))
        size = self._view.size
        for stem in names if len(names) <= MOST_NAMES else ():
            if stem not in self._wording.stems:
                at = self._view.postings(stem).positions
                if 1 < len(at) <= max(KNOWN_TO * size, 2):
                    yield at, math.log((size + 1) / len(at))

    def _worth(self, lead: int, found: Positions, named: Array) -> Array:
        """Return more for records with what the lead lacks of the question; long texts get less."""
        has, rarity = self._asked
        beyond = rarity @ (has[:, found] & ~has[:, [lead]])
        asked = UNASKED + (1 - UNASKED) * np.minimum(beyond / ASKED, 1.0)
        return np.asarray(named * asked * self._wording.damped[found])

    @cached_property
    def _asked(self) -> tuple[Flags, Array]:
        """The question's words that each has, and how rare these are."""
        terms = self._wording.terms
        has = np.zeros((len(terms), self._view.size), bool)
        for number, term in enumerate(terms):
            has[number, term.found.positions[term.found.ahead]] = True
        return has, np.array([term.rarity for term in terms])

    def _behind(self, lead: int, found: Positions) -> Array:
        """Return the sums with which they stay behind their lead, whatever their weights."""
        score = weighed(self._sums[lead] + self.share[lead], self._weights[lead]) - BEHIND_LEAD
        return unweighed(np.full(len(found), score), self._weights[found])


def _names(stem: str) -> bool:
    """Return whether it may belong to a name; a record's stems include its day."""
    return is_informative(stem) and not stem.isdigit() and stem not in _MONTHS


class Mark(NamedTuple):
    """The rows of the records that replace one: newer ones, or those with more force."""

    outdated_by: int | None = None
    contradicts: int | None = None


UNMARKED = Mark()


class _Occurrence(NamedTuple):
    position: int
    sentence: Sentence


class Variants:
    """Compares statements among the candidates for a question."""

    def __init__(self, view: View, caller: Caller) -> None:
        self._view = view
        self._caller = view.names.principals.of(caller.user or TENANT_OWNED)
        self._strengths = view.names.sources.each(STRENGTH.__getitem__)[view.column["source"]]
        self._looked: set[int] = set()
        self._opened: defaultdict[tuple[str, ...], list[_Occurrence]] = defaultdict(list)
        self._pairs: set[tuple[int, int]] = set()
        self._again: defaultdict[int, set[int]] = defaultdict(set)
        self.stands: dict[int, int] = {}
        """The position of what replaces each."""
        self.marks: dict[int, Mark] = {}

    def look_at(self, positions: Iterable[int]) -> Choice[None]:
        """Compare these with one another, and with earlier ones."""
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
        """Return each one's gain or loss: one that replaces others gets their best place."""
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
            occurrence = _Occurrence(position, sentence)
            for other in self._opened[sentence.opening]:
                if other.position != position:
                    self._pair(other, occurrence)
            self._opened[sentence.opening].append(occurrence)

    def _pair(self, one: _Occurrence, other: _Occurrence) -> None:
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
        """Find which record replaces which, the newest for all."""
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
        """Return whether a principal with authority has stated another value since, for good."""
        principal = self._view.column["principal"]
        if principal[older] != principal[newer] or principal[older] < 0:
            return False
        counts = min(self._strengths[older], self._strengths[newer]) >= OWN_WORDS
        since = (one for one in self._again[older] if principal[one] == principal[older])
        return counts and not any(self._when(one) > self._when(newer) for one in since)

    def _has_less_force(self, claim: int, stated: int) -> bool:
        """Return whether it is weaker than a user's statement, or not the caller's own."""
        principal = self._view.column["principal"]
        if self._strengths[stated] < OWN_WORDS:
            return False
        others = principal[claim] != principal[stated] and principal[stated] == self._caller
        return bool(self._strengths[claim] < OWN_WORDS or others)


def look_closer(view: View, relevant: Flags, variants: Variants, hops: Hops) -> Choice[None]:
    """Compare the best, and what those lead to that are not outdated, with one another."""
    best = _best(view, hops.scores, relevant)
    yield from variants.look_at(best)
    for _ in range(STEPS):
        leads = [one for one in best if one not in variants.stands][:LEADS]
        if not hops.step(leads):
            return
        best = _best(view, hops.scores, relevant)
        yield from variants.look_at(best)


def _best(view: View, scores: Array, relevant: Flags) -> list[int]:
    """Return the best relevant ones with possible values; notes of turns repeat their messages."""
    column = view.column
    notes = ~column["spoken"] & (column["scope"] == view.names.scopes.of("session"))
    of_interest = np.flatnonzero(relevant & ~notes)
    if len(of_interest) > COMPARED:
        best = np.argpartition(-scores[of_interest], COMPARED)[:COMPARED]
        of_interest = of_interest[best]
    best_first: list[int] = of_interest[np.argsort(-scores[of_interest], kind="stable")].tolist()
    return best_first
