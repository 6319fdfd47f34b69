"""Standing facts of the user: one that answers stands above talk about the same.

What the user had stored under a key holds; what was said about it may be older, may ask, or may be
a model's mistake. Nor does a fact that others share under a key of the user's stand above his own.
"""

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import EXTRACTED, Array, Flags, Positions
from local.ledger.records import is_users
from local.memory.recall.echoes import weighed
from local.memory.recall.likeness import Likeness, Wording
from local.memory.recall.query import Query

ANSWERS = 0.5
"""How much of the question a fact covers by itself that answers it,"""
NEAR = 0.15
"""or how far its cosine lies above the least, of the nearest one if one asks about oneself."""
SAME = 0.95
"""A message of that cosine asks what is asked; else one of all of its words, and hardly more."""
MORE = 1.25
MOST = 3
"""So many facts are lifted, those first that are most like the question."""
APART = 0.01
"""How far above what they stand above, in the sum of shares."""


class Standing:
    """What facts under keys gain or lose in a search: `share`, beside the other `sums`."""

    def __init__(self, view: View, sums: Array, weights: Array) -> None:
        self._view, self._sums, self._weights = view, sums, weights
        self.share = np.zeros(view.size)
        extracted = view.column["echo"] == EXTRACTED  # their messages stand where they would
        named = np.flatnonzero((view.column["topic"] >= 0) & ~extracted)
        users = view.column["scope"][named] == view.names.scopes.of("user")
        self._own, self._shared = named[users], named[~users]

    def give_way(self, relevant: Flags) -> None:
        """Put shared facts under keys of the user's behind his own, which are then relevant."""
        topic = self._view.column["topic"]
        claiming = self._shared[np.isin(topic[self._shared], topic[self._own])]
        if not len(claiming):
            return
        of_users = self._view.names.topics.each(is_users).astype(bool)
        for position in claiming[of_users[topic[claiming]] & relevant[claiming]].tolist():
            own = self._own[topic[self._own] == topic[position]]
            relevant[own] = True
            least = min(map(self._score, own.tolist())) - APART
            self._put(position, min(self._score(position), least))

    def lift(self, query: Query, wording: Wording, like: Likeness, min_score: float) -> None:
        """Put the user's facts that answer above chat that has no more of the question."""
        if query.window is not None or not len(self._own):
            return
        answering = self._answering(query, wording, like, min_score)
        best = answering[np.argsort(-like.own[answering], kind="stable")][:MOST]
        rivals = self._view.column["spoken"].copy()
        tells_more = ~_says_nothing(self._view, query, wording, like) if len(best) else rivals
        for position in best[::-1].tolist():
            beside = rivals & ~(tells_more & (wording.covers > wording.covers[position]))
            highest = float(self._scores()[beside].max(initial=-np.inf)) + APART
            if highest > self._score(position):
                self._put(position, highest)
                rivals[position] = True  # what answers better stands above it

    def _answering(
        self, query: Query, wording: Wording, like: Likeness, min_score: float
    ) -> Positions:
        answers: Flags = wording.covers[self._own] >= ANSWERS
        if query.of_oneself:
            near = like.meaning[self._own]
            answers |= (near >= min_score + NEAR) & (near == near.max())
        return np.asarray(self._own[answers])

    def _scores(self) -> Array:
        return weighed(self._sums + self.share, self._weights)

    def _score(self, position: int) -> float:
        total = self._sums[position] + self.share[position]
        return float(weighed(total, self._weights[position]))

    def _put(self, position: int, score: float) -> None:
        """Give it this score."""
        weight = float(self._weights[position])
        wanted = score / weight if score >= 0 else score * weight
        self.share[position] = wanted - float(self._sums[position])


def _says_nothing(view: View, query: Query, wording: Wording, like: Likeness) -> Flags:
    """Of what somebody asks about himself: models' words, and the question asked before."""
    if not query.of_oneself:
        return np.zeros(view.size, bool)
    in_words = (wording.covers >= SAME) & (view.column["length"] <= MORE * len(query.text))
    return np.asarray(view.column["machine"] | (like.meaning >= SAME) | in_words)
