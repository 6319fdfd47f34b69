"""Measure how similar each record, with its neighbours, is to a question in meaning and words."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from local2.language.features import HEAD, MAX_PASSAGES
from local2.language.forms import stems_of
from local2.language.time import Window
from local2.language.words import informative_words, stems
from local2.ledger.columns import EXTRACTED, Array, Flags, Positions, Postings, View
from local2.ledger.search import Matches, WordMatches
from local2.memory.recall.query import Query
from local2.memory.recall.scores import best_positions
from local2.memory.recall.tuning import (
    AROUND,
    AROUND_DECAY,
    AROUND_STATING,
    ASSUMED,
    BM25_K1,
    COVERAGE,
    FEW_WORDS,
    HALVING_LENGTH,
    MAX_MEANING,
    MAX_PASSAGED,
    MEANING,
    NEIGHBOUR_WORD,
    NEIGHBOUR_WORD_DECAY,
    PASSAGE_COVERAGE,
    SAME,
    SAME_LENGTH,
    SESSION,
    SESSION_BEST,
    STRETCH,
    WEAK,
    WORDS,
    WORDS_STATING,
)
from local2.vectors.embedder import known

EPSILON = 1e-9


class _Term(NamedTuple):
    """A word of the question, where a form of it occurs, and its weights."""

    stems: tuple[str, ...]
    """Those of its forms; its own comes first."""
    found: Postings
    rarity: float
    """Fraction of the summed rarity of all stems of the question."""
    idf: float


class Wording:
    """Similarity in words, which needs no vector of the question.

    `shares` are components of the score; `own` is the part of a record without its neighbours.
    """

    def __init__(self, worded: WordMatches, query: Query) -> None:
        view = self.view = worded.view
        self.length_damping = view.derive(_length_damping)
        self.has_word: Flags = np.zeros(view.size, bool)
        self.own_coverage: Array = np.zeros(view.size)
        """The part of the question, by rarity, that each record has without neighbours: 0 to 1."""
        self.in_window = _in_window(view, query.window)
        """Which records are from the time that the question names."""
        terms = self.terms = list(_terms(worded, query, self.in_window))
        self.stems = frozenset(stem for term in terms for stem in term.stems)
        self.has_terms: Flags = np.zeros((len(terms), view.size), bool)
        """Which terms of the question each record has, anywhere in its text."""
        self.stated: Flags = np.zeros(len(terms), bool)
        """Which terms of the question any record has that is no question to the memory."""
        self.covered: Array = np.zeros(view.size)
        """The fraction of the stems of the question itself that each record has."""
        asked = frozenset(stems(query.asked))
        # Beside a question to the memory stands its reply; what else does is about something else.
        replies = np.append(view.column["machine"], False)  # the last one stands for no neighbour
        session = view.column["session"]
        bm25, covered = np.zeros((2, view.size))
        # The last one stands for the records without a session.
        covered_in_session = np.zeros(session.max(initial=-1) + 2)
        for number, term in enumerate(terms):
            positions, counts = term.found.positions, term.found.counts
            ahead = positions[term.found.ahead]
            self.has_word[positions] = True
            self.has_terms[number, positions] = True
            self.stated[number] = not view.asking[positions].all()
            if term.stems[0] in asked:
                self.covered[positions] += 1 / len(asked)
            bm25[positions] += term.idf * counts * (BM25_K1 + 1) / (counts + BM25_K1)
            # A record covers a term that it or a neighbour begins with. Farther neighbours come
            # first: nearer ones overwrite them.
            has = np.zeros(view.size + 1)
            for distance in reversed(range(len(view.neighbours))):
                for neighbours in view.neighbours[distance]:
                    beside = neighbours[ahead]
                    beside = beside[~view.asking[ahead] | replies[beside]]
                    has[beside] = NEIGHBOUR_WORD * NEIGHBOUR_WORD_DECAY**distance
            has = has[:-1] * self.length_damping
            has[ahead] = 1.0
            covered += term.rarity * has
            self.own_coverage[ahead] += term.rarity
            in_session = np.zeros(len(covered_in_session), bool)
            in_session[session[ahead]] = True
            covered_in_session += term.rarity * in_session
        covered = np.maximum(covered, PASSAGE_COVERAGE * self._covered_in_passage())
        for rows in worded.phrases:
            positions = view.positions(rows)
            self.has_word[positions] = True
            bm25[positions] += _idf(len(positions), worded.total)
        original = bm25[view.column["echo"] != EXTRACTED]  # without extracted facts
        best = (original if len(original) else bm25).max(initial=0.0)
        least = FEW_WORDS * sum(term.idf for term in terms)
        covered_in_session[-1] = 0.0
        best_session = max(covered_in_session.max(), EPSILON)
        weight = WORDS + WORDS_STATING * query.stating
        self.shares: dict[str, Array] = {
            "words": weight * np.minimum(bm25 / max(best, least, EPSILON), 1.0),
            "coverage": COVERAGE * covered,
            "session": SESSION * (1 - query.stating) * (covered_in_session[session] / best_session),
        }
        self.own: Array = self.shares["words"] + self.shares["coverage"]
        short = view.column["length"] <= SAME_LENGTH * len(query.text)
        self.repeats: Flags = short & (self.own_coverage >= SAME)
        """Which records have the words of the question, and hardly more."""

    def _covered_in_passage(self) -> Array:
        """The part of the question that two passages of a long text have, which follow each other.

        It is 0 where the head has as much, and beyond the best texts by all of their words.
        """
        covered = np.zeros(self.view.size)
        long = self.view.derive(_long)
        if not len(long):
            return covered
        rarity = np.array([term.rarity for term in self.terms])
        anywhere = np.einsum("t,tp->p", rarity, self.has_terms[:, long])
        more = anywhere > self.own_coverage[long]
        best = best_positions(anywhere, np.flatnonzero(more), MAX_PASSAGED)
        if not len(best):
            return covered
        long = np.sort(long[best])
        passages = np.zeros((len(self.terms), len(long)), "<u4")
        for number, term in enumerate(self.terms):
            has = self.has_terms[number, long]
            passages[number, has] = term.found.passages_at(long[has])
        both = (passages | passages >> 1).view(np.uint8)  # each passage with the one after it
        bits = np.unpackbits(both, axis=1, bitorder="little")
        in_both = np.einsum("t,tp->p", rarity, bits).reshape(len(long), MAX_PASSAGES)
        covered[long] = in_both.max(axis=1)
        return covered


class Likeness:
    """Similarity in meaning and words.

    `meaning`, `around` and `session_best` are shares of the score; `own` is the similarity without
    neighbours.
    """

    def __init__(self, found: Matches, wording: Wording, query: Query) -> None:
        view = found.view
        self.cosine = found.cosines()
        self.compared = found.has_comparable_vector()
        # By how many standard deviations each cosine is above the average: the cosines of unrelated
        # texts depend on the question, and on how alike the records are.
        all_known = bool(self.compared.all())
        cosines = self.cosine if all_known else self.cosine[self.compared]
        unrelated = known(found.embedder)
        count = ASSUMED + len(cosines)
        mean = (ASSUMED * unrelated.mean + cosines.sum()) / count
        assumed = ASSUMED * (unrelated.deviation**2 + (unrelated.mean - mean) ** 2)
        deviation = math.sqrt((assumed + ((cosines - mean) ** 2).sum()) / count)
        above = np.maximum((self.cosine - mean) / deviation, 0.0)
        if not all_known:
            above = np.where(self.compared, above, 0.0)
        self.meaning = np.minimum(MEANING * above, MAX_MEANING)
        self.own: Array = self.meaning + wording.own
        # The similarity of each record's best neighbour, reduced by its distance.
        values = np.zeros((2, view.size + 1))  # the last one stands for no neighbour
        np.maximum(self.own, 0.0, out=values[0, :-1])
        values[1, :-1] = values[0, :-1] * ~view.asking  # for all but replies
        in_a_row, best = values.ravel(), np.zeros(view.size)
        for distance, (before, after) in enumerate(view.derive(_places_of_neighbours)):
            nearest = np.maximum(in_a_row.take(before), in_a_row.take(after))
            np.maximum(best, AROUND_DECAY**distance * nearest, out=best)
        around = AROUND * (1 - AROUND_STATING * query.stating)
        self.around: Array = around * wording.length_damping * best
        self.session_best: Array = np.zeros(view.size)
        if query.stating:
            session = view.column["session"]
            best = np.zeros(session.max(initial=-1) + 2)  # the last one: without a session
            np.maximum.at(best, session, self.own)
            best[-1] = 0.0
            self.session_best = SESSION_BEST * query.stating * best[session]

    def hits(self, wording: Wording, min_score: float) -> Flags:
        """Which records have a word of the question, or a cosine of at least `min_score`.

        A record without a comparable vector needs only a neighbour with a word.
        """
        near = self.compared & (self.cosine >= min_score)
        unknown = ~self.compared & (wording.shares["coverage"] > 0)
        return np.asarray(wording.has_word | near | unknown)

    def weak_hits(self, hit: Flags, min_score: float) -> Flags:
        """The records that almost are hits.

        Without hits, there are none: an empty result shows that nothing is known.
        """
        near = self.compared & (self.cosine >= WEAK * min_score)
        return np.asarray(near & ~hit & hit.any())


def _places_of_neighbours(view: View) -> list[tuple[Positions, Positions]]:
    """For each distance, where the values of the messages before and after each record are.

    They are in a row: first every value as a reply counts it, then as all others do.
    """
    first = np.where(view.column["machine"], 0, view.size + 1)
    return [(first + before, first + after) for before, after in view.neighbours]


def _length_damping(view: View) -> Array:
    """The factor by which neighbours count for each record: less for a long one."""
    return np.asarray(1 / (1 + (view.column["length"] / HALVING_LENGTH) ** 2))


def _long(view: View) -> Positions:
    return np.flatnonzero(view.column["length"] > HEAD)


def _in_window(view: View, window: Window | None) -> Flags:
    if window is None:
        return np.zeros(view.size, bool)
    since = window.since.timestamp() if window.since else -math.inf
    until = window.until.timestamp() if window.until else math.inf
    time = view.column["time"]
    return np.asarray((time >= since) & (time < until))


def _terms(worded: WordMatches, query: Query, in_window: Flags) -> Iterator[_Term]:
    """Yield the words of the question; those in few records weigh most.

    Of a statement, also those in few stretches of talk: its greeting and its manner are in many.
    The records from a time that the question names have the words that name it.
    """
    wanted = dict.fromkeys(map(stems_of, query.terms))
    of_time = frozenset(map(stems_of, informative_words(query.window.text if query.window else "")))
    dated = Postings.of_all(np.flatnonzero(in_window))
    found: list[_Term] = []
    for forms in wanted:
        postings = Postings.joined([worded.view.postings(stem) for stem in forms])
        if forms in of_time:
            postings = Postings.joined([postings, dated])
        having = worded.count_having(forms, len(postings.positions))
        ahead = worded.count_having(forms, int(postings.ahead.sum()))
        rarity = math.log((worded.total + 1) / (ahead + 0.5))
        idf = _idf(having, worded.total)
        if query.stating and worded.counts is None:  # candidates do not show where else a word is
            stretch, number = worded.view.derive(_stretches)
            spoken = stretch[postings.positions]
            having_it = len(np.unique(spoken[spoken >= 0]))
            # From 0, for a word that is in no stretch, to 1.
            spread = 1 - math.log((number + 1) / (having_it + 0.5)) / math.log((number + 1) / 0.5)
            rarity *= 1 - query.stating * spread
            idf *= 1 - query.stating * spread
        found.append(_Term(forms, postings, rarity, idf))
    total = max(sum(term.rarity for term in found), EPSILON)
    for term in found:
        yield term._replace(rarity=term.rarity / total)


def _stretches(view: View) -> tuple[Positions, int]:
    """Which stretch of its session each message is in, -1 outside sessions; their number."""
    session = view.column["session"]
    (spoken,) = np.nonzero(session >= 0)
    order = spoken[np.lexsort((view.column["session_position"][spoken], session[spoken]))]
    begins = np.flatnonzero(np.diff(session[order], prepend=-1))
    lengths = np.diff(begins, append=len(order))
    place = np.arange(len(order)) - np.repeat(begins, lengths)
    starts = place % STRETCH == 0
    stretch = np.full(view.size, -1, np.int64)
    stretch[order] = np.cumsum(starts) - 1
    return stretch, int(starts.sum())


def _idf(having: float, total: float) -> float:
    return max(math.log((total - having + 0.5) / (having + 0.5)), EPSILON)
