"""A recorded question gives way to its reply.

It shares the words of a user who asks the same, and so is more like his question than its answer
is. That holds for a model's questions, and for the same question asked before. Other questions of
people are also about them ("Shall we try the new hall?"), and stay where they are.
"""

from collections.abc import Iterable

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import ECHO, UNANSWERED, Array, Flags, Positions
from local.ledger.search import Choice, DetailRequest
from local.memory.recall.likeness import Likeness, Wording
from local.memory.recall.precedence import APART, is_as_asked, unweighed, weighed
from local.memory.recall.query import Query
from local.text.features import HEAD, asks, sentences
from local.text.words import stems, words

LOOKED_AT = 10
"""So many of the best candidates are read."""


class Replies:
    """The questions in a view that give way to their replies. `share` is what each gains by it."""

    def __init__(self, wording: Wording, like: Likeness, sums: Array, weights: Array) -> None:
        """`sums` are those of the other shares."""
        self.share: Array = np.zeros(len(sums))
        self._wording, self._like = wording, like
        self._sums, self._weights = sums, weights

    def give_way(self, query: Query, relevant: Flags) -> Choice[None]:
        """Let them change places; the replies are then relevant."""
        view = self._wording.view
        if query.stating or not view.near:
            return
        may_ask = view.column["machine"] | is_as_asked(query, self._wording, self._like)
        scores = weighed(self._sums, self._weights)
        answered = _answered(self._wording, scores, relevant & may_ask)
        texts = yield from _texts(view, answered)
        asking = [one for one in answered if _asks_it(texts[one], self._wording.stems)]
        replies = {one: int(view.near[0][1][one]) for one in asking}
        texts = yield from _texts(view, replies.values())
        ordered = scores.copy()
        for question, reply in replies.items():
            if not all(map(asks, sentences(texts[reply]))):
                ordered[reply] = max(ordered[reply], ordered[question])
                ordered[question] = min(ordered[question], ordered[reply] - APART)
                relevant[reply] = True
        gained = unweighed(ordered, self._weights) - self._sums
        self.share = np.where(ordered == scores, 0.0, gained)


def _answered(wording: Wording, scores: Array, may_ask: Flags) -> list[int]:
    """Return the best short records that share a word, and that the other side answered."""
    column, reply = wording.view.column, wording.view.near[0][1]
    found: Positions = np.flatnonzero(
        may_ask & wording.shares_a_word & (column["length"] <= HEAD) & (reply < wording.view.size)
    )
    behind = reply[found]
    others = column["machine"][found] != column["machine"][behind]
    found = found[others & ~np.isin(column["echo"][behind], (ECHO, UNANSWERED))]
    best: list[int] = found[np.argsort(-scores[found], kind="stable")][:LOOKED_AT].tolist()
    return best


def _texts(view: View, positions: Iterable[int]) -> Choice[dict[int, str]]:
    rows = {one: int(view.column["row"][one]) for one in positions}
    texts = (yield DetailRequest(texts=list(rows.values()))).texts if rows else {}
    return {one: texts.get(row, "") for one, row in rows.items()}


def _asks_it(text: str, asked: frozenset[str]) -> bool:
    """Return whether a text asks with words of the question, and states nothing with them."""
    every = [(one, asks(one)) for one in sentences(text)]
    asking, stating = (
        frozenset(stems(words(" ".join(one for one, wants in every if wants is sought))))
        for sought in (True, False)
    )
    return asked.isdisjoint(stating) and not asked.isdisjoint(asking)
