"""Find which statements are outdated or contradicted, and put the newest first.

Of several statements of one principal about one thing, the newest ranks first. Statements of
documents, tools, assistants and other users rank below the user's own, however new they are and
however often they were made. Nothing is retired here; records are only reordered and marked.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np

from local2.language.statements import Sentence, is_about_same, is_same, is_variant, sentences_of
from local2.language.words import informative_stems
from local2.ledger.columns import Array, Flags, View
from local2.ledger.records import SOURCE_STRENGTH, TENANT_OWNED
from local2.ledger.search import Choice, DetailRequest
from local2.memory.intake.episodes import split_episode
from local2.memory.recall.likeness import Wording
from local2.memory.recall.scores import (
    best_positions,
    texts_at,
)
from local2.memory.recall.tuning import (
    MAX_COMPARED,
    RANK_GAP,
    SHORT,
)
from local2.protocol.envelope import Caller

USER_STRENGTH = SOURCE_STRENGTH["stated"]
"""Strength of a source from which a statement has the force of the user's own words."""


class Mark(NamedTuple):
    """The rows of the records that replace a record: a newer one, or a stronger one."""

    outdated_by: int | None = None
    contradicts: int | None = None


UNMARKED = Mark()


class _Occurrence(NamedTuple):
    position: int
    sentence: Sentence


def source_strengths(view: View) -> Array:
    by_source = view.names.sources.map_values(SOURCE_STRENGTH.__getitem__)
    return np.asarray(by_source[view.column["source"]])


def episodes(view: View) -> Flags:
    """Which records are whole turns, of which only what the user said is compared."""
    in_session = view.column["scope"] == view.names.scopes.number_of("session")
    answered = view.column["source"] == view.names.sources.number_of("answered")
    return np.asarray(in_session & answered & ~view.column["spoken"])


def compared_strengths(view: View) -> Array:
    return np.where(view.derive(episodes), USER_STRENGTH, view.derive(source_strengths))


def _has_facts(view: View) -> bool:
    column = view.column
    return bool((column["type"] >= 0).any() or (column["topic"] >= 0).any())


class Variants:
    """Compares the statements of candidates, and finds those that others replace."""

    def __init__(self, view: View, caller: Caller) -> None:
        self.view = view
        self._caller = view.names.principals.number_of(caller.user or TENANT_OWNED)
        self.strengths = view.derive(compared_strengths)
        self._seen: set[int] = set()
        self._opened_alike: defaultdict[int, list[int]] = defaultdict(list)
        """The positions of the texts with an opening, by its hash."""
        self._texts: dict[int, str] = {}
        self._compared: set[int] = set()
        self._by_opening: defaultdict[tuple[str, ...], list[_Occurrence]] = defaultdict(list)
        self._pairs: set[tuple[int, int]] = set()
        self._restated: defaultdict[int, set[int]] = defaultdict(set)
        self.replaced_by: dict[int, int] = {}
        """Maps the position of each replaced record to that of its replacement."""
        self.marks: dict[int, Mark] = {}

    def compare(self, positions: Iterable[int]) -> Choice[None]:
        """Compare the statements of these records with one another and with earlier ones."""
        if not (new := [position for position in positions if position not in self._seen]):
            return
        self._seen.update(new)
        # Only texts with a sentence that opens like one of another text are compared. How texts
        # open is known from former searches.
        row, machine = self.view.column["row"], self.view.column["machine"]
        known: dict[tuple[int, bool], tuple[int, ...]] = self.view.found_in_texts("openings")
        keys = {position: (int(row[position]), bool(machine[position])) for position in new}
        yield from self._read([position for position in new if keys[position] not in known])
        alike: dict[int, None] = {}
        for position, key in keys.items():
            if key not in known:
                read = sentences_of(self._texts[position], to_user=key[1])
                known[key] = tuple({hash(sentence.opening) for sentence in read})
            for opening in known[key]:
                others = self._opened_alike[opening]
                others.append(position)
                if len(others) > 1:
                    alike |= dict.fromkeys(others)
        uncompared = [position for position in alike if position not in self._compared]
        yield from self._read(uncompared)
        pairs = len(self._pairs)
        for position in uncompared:
            self._compare_text(position, self._texts[position])
        self._compared.update(uncompared)
        if len(self._pairs) > pairs:
            self._find_replacements()

    def _read(self, positions: Iterable[int]) -> Choice[None]:
        unread = [position for position in positions if position not in self._texts]
        is_episode = self.view.derive(episodes)
        for position, text in (yield from texts_at(self.view, unread)).items():
            self._texts[position] = split_episode(text)[0] if is_episode[position] else text

    def put_newest_first(self, scores: Array) -> Array:
        """The scores, changed: a replacement takes the best place of its variants."""
        if not self.replaced_by:
            return scores
        ordered = scores.copy()
        replaced: defaultdict[int, list[int]] = defaultdict(list)
        for position in self.replaced_by:
            final = position
            passed: set[int] = set()  # two rules may contradict each other
            while final not in passed:
                passed.add(final)
                final = self.replaced_by.get(final, final)
            replaced[final].append(position)
        for replacement, others in replaced.items():
            ordered[replacement] = scores[[replacement, *others]].max()
            ordered[others] = np.minimum(ordered[others], ordered[replacement] - RANK_GAP)
        return ordered

    def follow_facts(self, scores: Array, wording: Wording, relevant: Flags) -> Choice[None]:
        """Let what states present values replace messages from which former facts were extracted.

        What replaces them becomes relevant. The words of both may be different. A message may state
        several facts: it keeps its place if one that stands has a word of the question that neither
        the one that was replaced nor the present one has.
        """
        column = self.view.column
        if not self.view.derive(_has_facts):
            return
        own = (column["principal"] >= 0) & (self.strengths >= USER_STRENGTH) & column["spoken"]
        short = np.flatnonzero(relevant & own & (column["length"] <= SHORT))
        best = best_positions(scores, short, MAX_COMPARED).tolist()
        positions = {
            int(column["row"][position]): position
            for position in best
            if position not in self.replaced_by
        }
        replaced = (yield DetailRequest(replaced=list(positions))).replaced
        for former, instead in replaced.items():
            position = positions[former]
            has, said = wording.has_terms, informative_stems("\n".join(instead.texts))
            about_it = has[:, self.view.positions(instead.facts)].any(axis=1)
            about_it |= np.array([not said.isdisjoint(term.stems) for term in wording.terms], bool)
            about_another = has[:, self.view.positions(instead.stand)].any(axis=1)
            if (about_another & ~about_it).any():
                continue
            present = self.view.positions(instead.stating).tolist()
            latest = max([position, *present], key=self.age_key)
            if latest != position:
                self.replaced_by[position] = latest
                self.marks[position] = Mark(outdated_by=int(column["row"][latest]))
                relevant[latest] = True

    def mark_outdated(self, newer: Mapping[int, int]) -> None:
        """Mark the records at these positions as outdated by the rows."""
        for position, row in newer.items():
            self.marks.setdefault(position, Mark(outdated_by=row))

    def _compare_text(self, position: int, text: str) -> None:
        to_user = bool(self.view.column["machine"][position])
        for sentence in sentences_of(text, to_user=to_user):
            statement = sentence.statement
            for other in self._by_opening[sentence.opening]:
                stated = other.sentence.statement
                if other.position == position or statement is None or stated is None:
                    continue
                if not is_about_same(stated, statement):
                    continue
                older, newer = sorted((other.position, position), key=self.age_key)
                if is_same(stated, statement):
                    self._restated[older].add(newer)
                elif is_variant(stated, statement):
                    self._pairs.add((older, newer))
            self._by_opening[sentence.opening].append(_Occurrence(position, sentence))

    def age_key(self, position: int) -> tuple[float, int]:
        """A key for the order of time; messages of one time were received in their order."""
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
        """Whether the same user stated both, and has not restated the older one since."""
        principal = self.view.column["principal"]
        if principal[older] != principal[newer] or principal[older] < 0:
            return False
        both_count = min(self.strengths[older], self.strengths[newer]) >= USER_STRENGTH
        return both_count and not any(
            self.age_key(again) > self.age_key(newer)
            for again in self._restated[older]
            if principal[again] == principal[older]
        )

    def _is_weaker(self, claim: int, stated: int) -> bool:
        """Whether a claim is weaker than a user's statement, or contradicts the caller."""
        principal = self.view.column["principal"]
        if self.strengths[stated] < USER_STRENGTH:
            return False
        not_own = principal[claim] != principal[stated] and principal[stated] == self._caller
        return bool(self.strengths[claim] < USER_STRENGTH or not_own)
