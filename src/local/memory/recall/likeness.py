"""Measure how similar each record, with its neighbours, is to a question in meaning and words."""

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import EXTRACTED, Array, Flags, Postings
from local.ledger.search import Matches, WordMatches
from local.memory.recall.query import Query
from local.text.words import stems
from local.text.words import terms as terms_of

WORDS, WORDS_STATING = 0.35, 0.2
"""Share of BM25, relative to the best record, and what is added if the query states something."""
COVERAGE = 0.6
"""Share of a message that, with its neighbours, has all words of the question; rare words count
more."""
NEIGHBOUR_WORD, NEIGHBOUR_WORD_DECAY = 0.6, 0.8
"""Weight of a word that only an adjacent message has, and the factor for each step further away."""
AROUND, AROUND_DECAY = 0.4, 0.7
"""Fraction of the best neighbour's meaning, words and coverage that counts, and the factor for each
step further away."""
AROUND_STATING = 0.5
"""How much `AROUND` is reduced if the query states something, as a fraction."""
HALVING_LENGTH = 1_200.0
"""Length in characters at which neighbours count half: long messages need no context."""
SESSION = 0.15
"""Share of the session that covers most of the question."""
SATURATION = 1.2
"""BM25's k1. There is no b: a match in a short text is not better."""
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
        self.length_damping = 1 / (1 + (view.column["length"] / HALVING_LENGTH) ** 2)
        self.has_word: Flags = np.zeros(view.size, bool)
        self.own_coverage: Array = np.zeros(view.size)
        """The part of the question, by rarity, that each record has without neighbours: 0 to 1."""
        terms = self.terms = list(_terms(worded, query))
        self.stems = frozenset(term.stem for term in terms)
        weight = WORDS + WORDS_STATING * query.stating
        self.shares: dict[str, Array] = {
            "words": weight * self._bm25(worded, terms),
            "coverage": COVERAGE * self._coverage(terms),
            "session": SESSION * self._session_coverage(terms),
        }
        self.own: Array = self.shares["words"] + self.shares["coverage"]
        self.covered = self._covered(terms, frozenset(stems(terms_of(query.text))))

    def _bm25(self, worded: WordMatches, terms: list[_Term]) -> Array:
        scores = np.zeros(self.view.size)
        for term in terms:
            counts = term.found.counts
            self.has_word[term.found.positions] = True
            scores[term.found.positions] += (
                term.idf * counts * (SATURATION + 1) / (counts + SATURATION)
            )
        for rows in worded.phrases:
            positions = self.view.positions(rows)
            self.has_word[positions] = True
            scores[positions] += _idf(len(positions), worded.total)
        original = scores[self.view.column["echo"] != EXTRACTED]  # without extracted facts
        best = (original if len(original) else scores).max(initial=0.0)
        return np.asarray(np.minimum(scores / max(best, EPSILON), 1.0))

    def _covered(self, terms: list[_Term], asked: frozenset[str]) -> Array:
        """Return the fraction of the stems of the question itself that each record has."""
        covered = np.zeros(self.view.size)
        for term in terms:
            if term.stem in asked:
                covered[term.found.positions] += 1 / len(asked)
        return covered

    def _coverage(self, terms: list[_Term]) -> Array:
        """Return the rarity-weighted sum of the terms that a record or its neighbours have."""
        view = self.view
        covered = np.zeros(view.size)
        for term in terms:
            ahead = term.found.positions[term.found.ahead]
            has = np.zeros(view.size + 1)
            for distance in reversed(
                range(len(view.neighbours))
            ):  # nearer ones overwrite farther ones
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

    `shares` are components of the score; `own` is the similarity without neighbours.
    """

    def __init__(self, found: Matches, wording: Wording, query: Query) -> None:
        self.meaning = found.cosines()
        self.compared = found.has_comparable_vector()
        self.own: Array = self.meaning + wording.own
        around = AROUND * (1 - AROUND_STATING * query.stating)
        self.shares: dict[str, Array] = {
            "meaning": self.meaning,
            "around": around * wording.length_damping * _around(found.view, self.own),
        }


def _around(view: View, own: Array) -> Array:
    """Return the similarity of each record's best neighbour, reduced by its distance."""
    values = np.append(np.maximum(own, 0.0), 0.0)
    best = np.zeros(view.size)
    for distance, neighbours in enumerate(view.neighbours):
        for positions in neighbours:
            np.maximum(best, AROUND_DECAY**distance * values[positions], out=best)
    return best


def _terms(worded: WordMatches, query: Query) -> Iterator[_Term]:
    """Yield the stems of the question; those in few records weigh most."""
    wanted = dict.fromkeys(stems(query.terms))
    postings = {stem: worded.view.postings(stem) for stem in wanted}
    having = {stem: worded.count_having(stem, len(postings[stem].positions)) for stem in wanted}
    ahead = {stem: worded.count_having(stem, int(postings[stem].ahead.sum())) for stem in wanted}
    rarity = {stem: math.log((worded.total + 1) / (ahead[stem] + 0.5)) for stem in wanted}
    total = max(sum(rarity.values()), EPSILON)
    for stem in wanted:
        yield _Term(stem, postings[stem], rarity[stem] / total, _idf(having[stem], worded.total))


def _idf(having: float, total: float) -> float:
    return max(math.log((total - having + 0.5) / (having + 0.5)), EPSILON)
