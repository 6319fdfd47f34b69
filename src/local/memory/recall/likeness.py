"""How similar each record is to a question, in meaning and in words, with its neighbours."""

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
"""BM25, relative to the best one's; and the addition for a question that states something."""
COVERAGE = 0.6
"""How much of the question the message covers, rare words first, with the messages around it."""
LENT, LENT_ON = 0.6, 0.8
"""The weight of a word that only the next message has, and its part one step further."""
AROUND, AROUND_ON = 0.4, 0.7
"""The part of the best neighbour's three shares that counts, and its part one step further."""
AROUND_STATING = 0.5
"""How much less that is where the question states something."""
LONG = 1_200.0
"""Characters at which the neighbours count half: long messages speak for themselves."""
SESSION = 0.15
"""How much of the question the session covers, against the best session."""
SATURATION = 1.2
"""BM25's k1. It has no b: a short text does not say more."""
EPSILON = 1e-9


class _Term(NamedTuple):
    """A stem of the question: where it occurs, and its weight by how few records have it."""

    stem: str
    found: Postings
    rarity: float
    """As a share of all of the question's."""
    idf: float


class Wording:
    """The question's words in each record; known before the question's vector."""

    def __init__(self, worded: WordMatches, query: Query) -> None:
        view = self.view = worded.view
        self.damped = 1 / (1 + (view.column["length"] / LONG) ** 2)
        self.shares_a_word: Flags = np.zeros(view.size, bool)
        self.covers: Array = np.zeros(view.size)
        """How much of the question each covers by itself, from 0 to 1."""
        terms = self.terms = list(_terms(worded, query))
        self.stems = frozenset(term.stem for term in terms)
        weight = WORDS + WORDS_STATING * query.stating
        self.shares: dict[str, Array] = {
            "words": weight * self._bm25(worded, terms),
            "coverage": COVERAGE * self._coverage(terms),
            "session": SESSION * self._session(terms),
        }
        self.own: Array = self.shares["words"] + self.shares["coverage"]
        self.covered = self._covered(terms, frozenset(stems(terms_of(query.text))))

    def _bm25(self, worded: WordMatches, terms: list[_Term]) -> Array:
        scores = np.zeros(self.view.size)
        for term in terms:
            counts = term.found.counts
            self.shares_a_word[term.found.positions] = True
            scores[term.found.positions] += (
                term.idf * counts * (SATURATION + 1) / (counts + SATURATION)
            )
        for rows in worded.phrases:
            positions = self.view.positions(rows)
            self.shares_a_word[positions] = True
            scores[positions] += _idf(len(positions), worded.total)
        original = scores[self.view.column["echo"] != EXTRACTED]  # what is said, not read in it
        best = (original if len(original) else scores).max(initial=0.0)
        return np.asarray(np.minimum(scores / max(best, EPSILON), 1.0))

    def _covered(self, terms: list[_Term], asked: frozenset[str]) -> Array:
        """Return the share of the question's own words that each has, in this or another ending."""
        covered = np.zeros(self.view.size)
        for term in terms:
            if term.stem in asked:
                covered[term.found.positions] += 1 / len(asked)
        return covered

    def _coverage(self, terms: list[_Term]) -> Array:
        """Return sums over the terms: 1, or what a neighbour lends to a short message."""
        view = self.view
        covered = np.zeros(view.size)
        for term in terms:
            ahead = term.found.positions[term.found.ahead]
            has = np.zeros(view.size + 1)
            for distance in reversed(range(len(view.near))):  # the nearest one is written last
                for neighbours in view.near[distance]:
                    has[neighbours[ahead]] = LENT * LENT_ON**distance
            has = has[:-1] * self.damped
            has[ahead] = 1.0
            covered += term.rarity * has
            self.covers[ahead] += term.rarity
        return covered

    def _session(self, terms: list[_Term]) -> Array:
        session = self.view.column["session"]
        covered = np.zeros(session.max(initial=-1) + 2)  # the last is for what is in none
        for term in terms:
            ahead = term.found.positions[term.found.ahead]
            has = np.zeros(len(covered), bool)
            has[session[ahead]] = True
            covered += term.rarity * has
        covered[-1] = 0.0
        return np.asarray(covered[session] / max(covered.max(), EPSILON))


class Likeness:
    """Likeness in meaning, too. `shares` are those of the score; `own` leaves out neighbours."""

    def __init__(self, found: Matches, wording: Wording, query: Query) -> None:
        self.meaning = found.cosines()
        self.compared = found.compared()
        self.own: Array = self.meaning + wording.own
        around = AROUND * (1 - AROUND_STATING * query.stating)
        self.shares: dict[str, Array] = {
            "meaning": self.meaning,
            "around": around * wording.damped * _around(found.view, self.own),
        }


def _around(view: View, own: Array) -> Array:
    """Return the best of the neighbours, the nearer the better."""
    values = np.append(np.maximum(own, 0.0), 0.0)
    best = np.zeros(view.size)
    for distance, neighbours in enumerate(view.near):
        for each in neighbours:
            np.maximum(best, AROUND_ON**distance * values[each], out=best)
    return best


def _terms(worded: WordMatches, query: Query) -> Iterator[_Term]:
    """Yield the terms; words that few records have weigh most."""
    each = dict.fromkeys(stems(query.terms))
    postings = {stem: worded.view.postings(stem) for stem in each}
    having = {stem: worded.having(stem, len(postings[stem].positions)) for stem in each}
    ahead = {stem: worded.having(stem, int(postings[stem].ahead.sum())) for stem in each}
    rarity = {stem: math.log((worded.total + 1) / (ahead[stem] + 0.5)) for stem in each}
    every = max(sum(rarity.values()), EPSILON)
    for stem in each:
        yield _Term(stem, postings[stem], rarity[stem] / every, _idf(having[stem], worded.total))


def _idf(having: float, total: float) -> float:
    return max(math.log((total - having + 0.5) / (having + 0.5)), EPSILON)
