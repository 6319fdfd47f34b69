"""Measure how similar each record, with its neighbours, is to a question in meaning and words."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from local2.language.words import stems
from local2.ledger.columns import EXTRACTED, Array, Flags, Positions, Postings, View
from local2.ledger.search import Matches, WordMatches
from local2.memory.recall.query import Query
from local2.memory.recall.tuning import (
    AROUND,
    AROUND_DECAY,
    AROUND_STATING,
    ASSUMED,
    ASSUMED_DEVIATION,
    ASSUMED_MEAN,
    BM25_K1,
    COVERAGE,
    FEW_WORDS,
    HALVING_LENGTH,
    MAX_MEANING,
    MEANING,
    NEIGHBOUR_WORD,
    NEIGHBOUR_WORD_DECAY,
    SAME,
    SAME_LENGTH,
    SESSION,
    SESSION_BEST,
    STRETCH,
    WEAK,
    WORDS,
    WORDS_STATING,
)

EPSILON = 1e-9


class _Term(NamedTuple):
    """A stem of the question, its occurrences and its weights."""

    stem: str
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
        terms = self.terms = list(_terms(worded, query))
        self.stems = frozenset(term.stem for term in terms)
        self.has_terms: Flags = np.zeros((len(terms), view.size), bool)
        """Which terms of the question each record has, anywhere in its text."""
        for number, term in enumerate(terms):
            self.has_terms[number, term.found.positions] = True
        weight = WORDS + WORDS_STATING * query.stating
        self.shares: dict[str, Array] = {
            "words": weight * self._bm25(worded, terms),
            "coverage": COVERAGE * self._coverage(terms),
            "session": SESSION * (1 - query.stating) * self._session_coverage(terms),
        }
        self.own: Array = self.shares["words"] + self.shares["coverage"]
        short = view.column["length"] <= SAME_LENGTH * len(query.text)
        self.repeats: Flags = short & (self.own_coverage >= SAME)
        """Which records have the words of the question, and hardly more."""
        asked = frozenset(stems(query.asked))
        self.covered: Array = np.zeros(view.size)
        """The fraction of the stems of the question itself that each record has."""
        for term in terms:
            if term.stem in asked:
                self.covered[term.found.positions] += 1 / len(asked)

    def _bm25(self, worded: WordMatches, terms: list[_Term]) -> Array:
        scores = np.zeros(self.view.size)
        for term in terms:
            counts = term.found.counts
            self.has_word[term.found.positions] = True
            scores[term.found.positions] += term.idf * counts * (BM25_K1 + 1) / (counts + BM25_K1)
        for rows in worded.phrases:
            positions = self.view.positions(rows)
            self.has_word[positions] = True
            scores[positions] += _idf(len(positions), worded.total)
        original = scores[self.view.column["echo"] != EXTRACTED]  # without extracted facts
        best = (original if len(original) else scores).max(initial=0.0)
        all_words = sum(term.idf for term in terms)
        return np.asarray(np.minimum(scores / max(best, FEW_WORDS * all_words, EPSILON), 1.0))

    def _coverage(self, terms: list[_Term]) -> Array:
        """The rarity-weighted sum of the terms that a record or its neighbours have."""
        view = self.view
        covered = np.zeros(view.size)
        for term in terms:
            ahead = term.found.positions[term.found.ahead]
            has = np.zeros(view.size + 1)
            # Farther neighbours first: nearer ones overwrite them.
            for distance in reversed(range(len(view.neighbours))):
                for neighbours in view.neighbours[distance]:
                    has[neighbours[ahead]] = NEIGHBOUR_WORD * NEIGHBOUR_WORD_DECAY**distance
            has = has[:-1] * self.length_damping
            has[ahead] = 1.0
            covered += term.rarity * has
            self.own_coverage[ahead] += term.rarity
        return covered

    def _session_coverage(self, terms: list[_Term]) -> Array:
        session = self.view.column["session"]
        covered = np.zeros(session.max(initial=-1) + 2)  # the last one: records without a session
        for term in terms:
            ahead = term.found.positions[term.found.ahead]
            has = np.zeros(len(covered), bool)
            has[session[ahead]] = True
            covered += term.rarity * has
        covered[-1] = 0.0
        return np.asarray(covered[session] / max(covered.max(), EPSILON))


class Likeness:
    """Similarity in meaning and words.

    `meaning`, `around` and `session_best` are shares of the score; `own` is the similarity without
    neighbours.
    """

    def __init__(self, found: Matches, wording: Wording, query: Query) -> None:
        self.cosine = found.cosines()
        self.compared = found.has_comparable_vector()
        self.meaning = np.minimum(MEANING * _deviations(self.cosine, self.compared), MAX_MEANING)
        self.own: Array = self.meaning + wording.own
        around = AROUND * (1 - AROUND_STATING * query.stating)
        self.around: Array = around * wording.length_damping * _around(found.view, self.own)
        self.session_best: Array = np.zeros(found.view.size)
        if query.stating:
            self.session_best = (
                SESSION_BEST * query.stating * _best_of_session(found.view, self.own)
            )

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


def _deviations(cosine: Array, compared: Flags) -> Array:
    """By how many standard deviations each cosine is above the average, or 0.

    The cosines of unrelated texts depend on the question, and on how alike the records are.
    """
    all_known = bool(compared.all())
    known = cosine if all_known else cosine[compared]
    count = ASSUMED + len(known)
    mean = (ASSUMED * ASSUMED_MEAN + known.sum()) / count
    assumed = ASSUMED * (ASSUMED_DEVIATION**2 + (ASSUMED_MEAN - mean) ** 2)
    deviation = math.sqrt((assumed + ((known - mean) ** 2).sum()) / count)
    above = np.maximum((cosine - mean) / deviation, 0.0)
    return np.asarray(above if all_known else np.where(compared, above, 0.0))


def _length_damping(view: View) -> Array:
    """The factor by which neighbours count for each record: less for a long one."""
    return np.asarray(1 / (1 + (view.column["length"] / HALVING_LENGTH) ** 2))


def _around(view: View, own: Array) -> Array:
    """The similarity of each record's best neighbour, reduced by its distance."""
    values = np.zeros(view.size + 1)  # the last one stands for no neighbour
    np.maximum(own, 0.0, out=values[:-1])
    best = np.zeros(view.size)
    for distance, (before, after) in enumerate(view.neighbours):
        nearest = np.maximum(values[before], values[after])
        np.maximum(best, AROUND_DECAY**distance * nearest, out=best)
    return best


def _best_of_session(view: View, own: Array) -> Array:
    """The similarity of the best message of each record's session; 0 without a session."""
    session = view.column["session"]
    best = np.zeros(session.max(initial=-1) + 2)  # the last one: records without a session
    np.maximum.at(best, session, own)
    best[-1] = 0.0
    return np.asarray(best[session])


def _terms(worded: WordMatches, query: Query) -> Iterator[_Term]:
    """Yield the stems of the question; those in few records weigh most.

    Of a statement, also those in few stretches of talk: its greeting and its manner are in many.
    """
    wanted = dict.fromkeys(stems(query.terms))
    postings = {stem: worded.view.postings(stem) for stem in wanted}
    having = {stem: worded.count_having(stem, len(postings[stem].positions)) for stem in wanted}
    ahead = {stem: worded.count_having(stem, int(postings[stem].ahead.sum())) for stem in wanted}
    rarity = {stem: math.log((worded.total + 1) / (ahead[stem] + 0.5)) for stem in wanted}
    idf = {stem: _idf(having[stem], worded.total) for stem in wanted}
    if query.stating and worded.counts is None:  # candidates do not show where else a stem is
        for stem in wanted:
            spread = 1 - _concentration(worded.view, postings[stem].positions)
            rarity[stem] *= 1 - query.stating * spread
            idf[stem] *= 1 - query.stating * spread
    total = max(sum(rarity.values()), EPSILON)
    for stem in wanted:
        yield _Term(stem, postings[stem], rarity[stem] / total, idf[stem])


def _concentration(view: View, positions: Positions) -> float:
    """1 for a stem that is in no stretch of talk, and less the more of them it is in."""
    stretch, number = view.derive(_stretches)
    having = len(np.unique(stretch[positions[stretch[positions] >= 0]]))
    return math.log((number + 1) / (having + 0.5)) / math.log((number + 1) / 0.5)


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
