"""Take a closer look at the best hits: follow what they name, and find those that are outdated.

Questions of several steps: "Where was the spouse of the author of Emma born?" shares no word with
the fact that answers it. A fact that shares words with the question names the author, and facts
about the author name the spouse. So records with the rare words of a hit that are missing from the
question are raised. Only short records lead to others: a long one names too much.

Updates: of several statements of one principal about one thing, the newest ranks first. Statements
of documents, tools, assistants and other users rank below the user's own, however new they are and
however often they were made. Nothing is retired here; records are only reordered and marked.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import numpy as np

from local2.language.statements import Sentence, is_about_same, is_same, is_variant, sentences_of
from local2.language.time import MONTHS
from local2.language.words import is_informative, stems
from local2.ledger.columns import View
from local2.ledger.entries import EXTRACTED, Array, Flags, Positions
from local2.ledger.records import SOURCE_STRENGTH, TENANT_OWNED
from local2.ledger.search import Choice, DetailRequest
from local2.memory.recall.likeness import Likeness, Wording
from local2.memory.recall.precedence import (
    Total,
    apply_weights,
    best_positions,
    remove_weights,
    texts_at,
)
from local2.protocol.envelope import Caller

MAX_LEADS = 8
"""Maximum number of best hits whose names are followed per step."""
MAX_STEPS = 2
"""Maximum number of steps."""
ANSWER_COVERED = 0.8
"""If the best hit has this fraction of the question's words, it is the answer: nothing is
followed."""
MAX_LEAD_STEMS = 8
"""Maximum number of stems in a record whose names are followed."""
COMMON_STEM = 0.03
"""A stem in a larger fraction of the records names nothing."""
MIN_NAMED = 0.5
"""Minimum fraction of a lead's new stems, weighted by rarity, that a record needs to be raised."""
LEAD_GAIN = 0.8
"""Gain of a record with all new stems of the lead, as a fraction of the lead's similarity."""
UNRELATED_FACTOR = 0.5
"""Factor for a record that has no word of the question beyond those of the lead."""
RELATED_COVERAGE = 0.1
"""Fraction of the question, beyond the words of the lead, from which the whole gain applies."""
BELOW_LEAD = 0.01
"""Minimum gap between a lead and the records that it raises, in weighted score."""
_MONTHS = frozenset(stems(month.lower() for month in MONTHS))
USER_STRENGTH = SOURCE_STRENGTH["stated"]
"""Strength of a source from which a statement has the force of the user's own words."""
RANK_GAP = 0.01
"""Gap between a statement and the one that replaces it, in weighted score."""
SHORT = 200
"""Maximum characters of a message with one value; with 300, answers from long talks got worse."""
MAX_COMPARED = 20
"""Number of best hits whose statements are compared with one another."""


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

    @property
    def scores(self) -> Array:
        return apply_weights(self._sums + self.share, self._weights)

    def follow(self, leads: Sequence[int]) -> bool:
        """Raise the records that the leads name, unless the best lead is the answer.

        Return whether any record was raised.
        """
        if self._is_answered(leads):
            return False
        gained = self.share.copy()
        for lead in leads:
            found, named = self._records_named_by(lead)
            if len(found):
                strength = LEAD_GAIN * (self._own[lead] + self.share[lead])
                gain = strength * self._relevance(lead, found, named) - self._linked[found]
                limit = np.maximum(self._sums_below_lead(lead, found) - self._sums[found], 0.0)
                gained[found] = np.maximum(gained[found], np.minimum(gain, limit))
        self.share = gained
        return bool(gained.any())

    def _is_answered(self, leads: Sequence[int]) -> bool:
        return not leads or bool(self._wording.covered[leads[0]] >= ANSWER_COVERED)

    def _records_named_by(self, lead: int) -> tuple[Positions, Array]:
        """Return the records with enough of a lead's new stems, and the fraction that each has."""
        new = list(self._new_stems(lead))
        if not new:
            return np.zeros(0, np.int64), np.zeros(0)
        total = sum(weight for _, weight in new)
        weights = np.concatenate([np.full(len(at), weight / total) for at, weight in new])
        found, index = np.unique(np.concatenate([at for at, _ in new]), return_inverse=True)
        named = np.bincount(index, weights)
        enough = (named >= MIN_NAMED) & (found != lead)
        return found[enough], named[enough]

    def _new_stems(self, lead: int) -> Iterator[tuple[Positions, float]]:
        """Yield positions and weight of each rare stem of a lead that the question lacks."""
        if self._view.column["wish"][lead]:
            return  # a wish about the form of answers names nothing
        names = list(islice(filter(_may_be_name, self._view.stems(lead)), MAX_LEAD_STEMS + 1))
        size = self._view.size
        for stem in names if len(names) <= MAX_LEAD_STEMS else ():
            if stem not in self._wording.stems:
                at = self._view.postings(stem).positions
                if 1 < len(at) <= max(COMMON_STEM * size, 2):
                    yield at, math.log((size + 1) / len(at))

    def _relevance(self, lead: int, found: Positions, named: Array) -> Array:
        """Return factors for the gain.

        Records with words of the question that the lead lacks get more, long texts less.
        """
        has, rarity = self._question_terms
        beyond = rarity @ (has[:, found] & ~has[:, [lead]])
        factor = UNRELATED_FACTOR + (1 - UNRELATED_FACTOR) * np.minimum(
            beyond / RELATED_COVERAGE, 1.0
        )
        return np.asarray(named * factor * self._wording.length_damping[found])

    @cached_property
    def _question_terms(self) -> tuple[Flags, Array]:
        """Which terms of the question each record begins with, and the rarity of each term."""
        terms = self._wording.terms
        has = np.zeros((len(terms), self._view.size), bool)
        for number, term in enumerate(terms):
            has[number, term.found.positions[term.found.ahead]] = True
        return has, np.array([term.rarity for term in terms])

    def _sums_below_lead(self, lead: int, found: Positions) -> Array:
        """Return the sums with which records rank just below their lead, given their weights."""
        lead_score = apply_weights(self._sums[lead] + self.share[lead], self._weights[lead])
        return remove_weights(np.full(len(found), lead_score - BELOW_LEAD), self._weights[found])


def _may_be_name(stem: str) -> bool:
    """Return whether a stem may belong to a name. The stems of a record include its date."""
    return is_informative(stem) and not stem.isdigit() and stem not in _MONTHS


class Mark(NamedTuple):
    """The rows of the records that replace a record: a newer one, or a stronger one."""

    outdated_by: int | None = None
    contradicts: int | None = None


UNMARKED = Mark()


class _Occurrence(NamedTuple):
    position: int
    sentence: Sentence


class Variants:
    """Compares the statements of candidates, and finds those that others replace."""

    def __init__(self, view: View, caller: Caller) -> None:
        self.view = view
        self._caller = view.names.principals.number_of(caller.user or TENANT_OWNED)
        by_source = view.names.sources.map_values(SOURCE_STRENGTH.__getitem__)
        self.strengths: Array = by_source[view.column["source"]]
        self.texts: dict[int, str] = {}
        self._by_opening: defaultdict[tuple[str, ...], list[_Occurrence]] = defaultdict(list)
        self._pairs: set[tuple[int, int]] = set()
        self._restated: defaultdict[int, set[int]] = defaultdict(set)
        self.replaced_by: dict[int, int] = {}
        """Maps the position of each replaced record to that of its replacement."""
        self.marks: dict[int, Mark] = {}

    def compare(self, positions: Iterable[int]) -> Choice[None]:
        """Compare the statements of these records with one another and with earlier ones."""
        if not (new := [one for one in positions if one not in self.texts]):
            return
        self.texts.update((yield from texts_at(self.view, new)))
        pairs = len(self._pairs)
        for position in new:
            self._compare_text(position, self.texts[position])
        if len(self._pairs) > pairs:
            self._find_replacements()

    def put_newest_first(self, scores: Array) -> Array:
        """Return the scores, changed: a replacement takes the best place of its variants."""
        ordered = scores.copy()
        replaced: defaultdict[int, list[int]] = defaultdict(list)
        for position in self.replaced_by:
            replaced[self._final_replacement(position)].append(position)
        for replacement, others in replaced.items():
            ordered[replacement] = scores[[replacement, *others]].max()
            ordered[others] = np.minimum(ordered[others], ordered[replacement] - RANK_GAP)
        return ordered

    def follow_facts(self, scores: Array, relevant: Flags) -> Choice[None]:
        """Let messages with present values replace those from which former facts were extracted.

        What replaces them becomes relevant. The words of both may be different.
        """
        column = self.view.column
        if not (column["echo"] == EXTRACTED).any():
            return
        own = (column["principal"] >= 0) & (self.strengths >= USER_STRENGTH) & column["spoken"]
        short = np.flatnonzero(relevant & own & (column["length"] <= SHORT))
        best = best_positions(scores, short, MAX_COMPARED).tolist()
        rows = {int(column["row"][one]): one for one in best if one not in self.replaced_by}
        replaced = (yield DetailRequest(replaced=list(rows))).replaced
        for former, present in replaced.items():
            one = rows[former]
            latest = max([one, *self.view.positions(present).tolist()], key=self.age_key)
            if latest != one:
                self.replaced_by[one] = latest
                self.marks[one] = Mark(outdated_by=int(column["row"][latest]))
                relevant[latest] = True

    def mark_outdated(self, newer: Mapping[int, int]) -> None:
        """Mark the records at these positions as outdated by the rows."""
        for position, row in newer.items():
            self.marks.setdefault(position, Mark(outdated_by=row))

    def _final_replacement(self, position: int) -> int:
        passed: set[int] = set()  # two rules may contradict each other
        while position not in passed:
            passed.add(position)
            position = self.replaced_by.get(position, position)
        return position

    def _compare_text(self, position: int, text: str) -> None:
        to_user = bool(self.view.column["machine"][position])
        for sentence in sentences_of(text, to_user=to_user):
            occurrence = _Occurrence(position, sentence)
            for other in self._by_opening[sentence.opening]:
                if other.position != position:
                    self._compare_sentences(other, occurrence)
            self._by_opening[sentence.opening].append(occurrence)

    def _compare_sentences(self, one: _Occurrence, other: _Occurrence) -> None:
        stated, another = one.sentence.statement, other.sentence.statement
        if stated is None or another is None or not is_about_same(stated, another):
            return
        older, newer = sorted((one.position, other.position), key=self.age_key)
        if is_same(stated, another):
            self._restated[older].add(newer)
        elif is_variant(stated, another):
            self._pairs.add((older, newer))

    def age_key(self, position: int) -> tuple[float, int]:
        """Return a key for the order of time; messages of one time were received in their order."""
        column = self.view.column
        return float(column["newness"][position]), int(column["row"][position])

    def _find_replacements(self) -> None:
        """Find which record replaces which; the newest one replaces all older variants."""
        self.replaced_by, self.marks = {}, {}
        row = self.view.column["row"]
        pairs = sorted(self._pairs, key=lambda pair: self.age_key(pair[1]), reverse=True)
        for older, newer in pairs:
            if older not in self.replaced_by and self._is_outdated(older, newer):
                self.replaced_by[older] = newer
                self.marks[older] = Mark(outdated_by=int(row[newer]))
        current = {position for pair in pairs for position in pair} - self.replaced_by.keys()
        for pair in pairs:
            for claim, stated in (pair, pair[::-1]):
                if {claim, stated} <= current and self._is_weaker(claim, stated):
                    self.replaced_by[claim] = stated
                    self.marks[claim] = Mark(contradicts=int(row[stated]))
                    current.discard(claim)

    def _is_outdated(self, older: int, newer: int) -> bool:
        """Return whether the same user stated both, and has not restated the older one since."""
        principal = self.view.column["principal"]
        if principal[older] != principal[newer] or principal[older] < 0:
            return False
        both_count = min(self.strengths[older], self.strengths[newer]) >= USER_STRENGTH
        restated = (one for one in self._restated[older] if principal[one] == principal[older])
        return both_count and not any(self.age_key(one) > self.age_key(newer) for one in restated)

    def _is_weaker(self, claim: int, stated: int) -> bool:
        """Return whether a claim is weaker than a user's statement, or contradicts the caller."""
        principal = self.view.column["principal"]
        if self.strengths[stated] < USER_STRENGTH:
            return False
        not_own = principal[claim] != principal[stated] and principal[stated] == self._caller
        return bool(self.strengths[claim] < USER_STRENGTH or not_own)


def look_closer(view: View, relevant: Flags, variants: Variants, hops: Hops) -> Choice[None]:
    """Compare the best records, follow what the current ones name, and compare the best again."""
    best = _best(view, hops.scores, relevant)
    yield from variants.compare(best)
    for _ in range(MAX_STEPS):
        leads = [one for one in best if one not in variants.replaced_by][:MAX_LEADS]
        if not hops.follow(leads):
            return
        best = _best(view, hops.scores, relevant)
        yield from variants.compare(best)


def _best(view: View, scores: Array, relevant: Flags) -> list[int]:
    """Return the best relevant records, without notes of turns, which repeat their messages."""
    column = view.column
    notes = ~column["spoken"] & (column["scope"] == view.names.scopes.number_of("session"))
    candidates = np.flatnonzero(relevant & ~notes)
    best: list[int] = best_positions(scores, candidates, MAX_COMPARED).tolist()
    return best
