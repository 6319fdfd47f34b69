"""A question that was asked gives way to what was said in reply.

It has the words of whoever asks the same, and so is nearer to what he asks than its answer. Between
people it stays: "Shall we try the new hall?" is a suggestion.
"""

from collections.abc import Iterable

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import ECHO, UNANSWERED, Array, Flags, Positions
from local.ledger.search import Choice, DetailRequest
from local.memory.recall.likeness import Wording
from local.memory.recall.precedence import APART, unweighed, weighed
from local.text.features import HEAD, asks, sentences
from local.text.words import stems, words

LOOKED_AT = 10
"""Of the best messages that somebody else answered, a model a person or a person a model."""


def give_way(wording: Wording, sums: Array, weights: Array, relevant: Flags) -> Choice[Array]:
    """What questions lose of their sums, and replies gain, which are then relevant."""
    view, scores = wording.view, weighed(sums, weights)
    ordered = scores.copy()
    answered = _answered(wording, scores, relevant)
    texts = yield from _texts(view, answered)
    asking = [one for one in answered if _asks_it(texts[one], wording.stems)]
    replies = {one: int(view.near[0][1][one]) for one in asking}
    texts = yield from _texts(view, replies.values())
    for question, reply in replies.items():
        if not all(map(asks, sentences(texts[reply]))):
            ordered[reply] = max(ordered[reply], ordered[question])
            ordered[question] = min(ordered[question], ordered[reply] - APART)
            relevant[reply] = True
    return np.where(ordered == scores, 0.0, unweighed(ordered, weights) - sums)


def _answered(wording: Wording, scores: Array, relevant: Flags) -> list[int]:
    """The best short messages that share a word, and that another kind of speaker answered."""
    view = wording.view
    if not view.near:
        return []
    column, reply = view.column, view.near[0][1]
    found: Positions = np.flatnonzero(
        relevant & wording.shares_a_word & (column["length"] <= HEAD) & (reply < view.size)
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
    """Whether it has words of the question where it asks, and none where it tells."""
    every = [(one, asks(one)) for one in sentences(text)]
    asking, telling = (
        frozenset(stems(words(" ".join(one for one, wants in every if wants is sought))))
        for sought in (True, False)
    )
    return asked.isdisjoint(telling) and not asked.isdisjoint(asking)
