"""Rank the reply to a recorded question above that question.

A recorded question has the words of a user who asks the same, so it matches better than its answer
does. This applies to a model's questions and to earlier repetitions of the user's question. Other
questions of people also say something about them ("Shall we try the new hall?"), and keep their
rank.
"""

from collections.abc import Iterable

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import ECHO, UNANSWERED, Array, Flags, Positions
from local.ledger.search import Choice, DetailRequest
from local.memory.recall.likeness import Likeness, Wording
from local.memory.recall.precedence import (
    RANK_GAP,
    apply_weights,
    best_positions,
    remove_weights,
    repeats_question,
)
from local.memory.recall.query import Query
from local.text.features import HEAD, asks, sentences
from local.text.words import stems, words

MAX_READ = 10
"""Maximum number of candidates whose texts are read, best first."""


class Replies:
    """Swaps questions with their replies. `share` is what each record gains or loses."""

    def __init__(self, wording: Wording, like: Likeness, sums: Array, weights: Array) -> None:
        """`sums`: the sums of the other shares."""
        self.share: Array = np.zeros(len(sums))
        self._wording, self._like = wording, like
        self._sums, self._weights = sums, weights

    def put_first(self, query: Query, relevant: Flags) -> Choice[None]:
        """Rank replies above their questions; the replies become relevant."""
        view = self._wording.view
        if query.stating or not view.neighbours:
            return
        may_ask = view.column["machine"] | repeats_question(query, self._wording, self._like)
        scores = apply_weights(self._sums, self._weights)
        candidates = _with_reply(self._wording, scores, relevant & may_ask)
        texts = yield from texts_at(view, candidates)
        questions = [one for one in candidates if _only_asks(texts[one], self._wording.stems)]
        replies = {one: int(view.neighbours[0][1][one]) for one in questions}
        texts = yield from texts_at(view, replies.values())
        ordered = scores.copy()
        for question, reply in replies.items():
            if not all(map(asks, sentences(texts[reply]))):
                ordered[reply] = max(ordered[reply], ordered[question])
                ordered[question] = min(ordered[question], ordered[reply] - RANK_GAP)
                relevant[reply] = True
        gained = remove_weights(ordered, self._weights) - self._sums
        self.share = np.where(ordered == scores, 0.0, gained)


def _with_reply(wording: Wording, scores: Array, may_ask: Flags) -> list[int]:
    """Return the best short records with a word of the question and a reply of the other side."""
    column, reply = wording.view.column, wording.view.neighbours[0][1]
    found: Positions = np.flatnonzero(
        may_ask & wording.has_word & (column["length"] <= HEAD) & (reply < wording.view.size)
    )
    replies = reply[found]
    by_other_side = column["machine"][found] != column["machine"][replies]
    found = found[by_other_side & ~np.isin(column["echo"][replies], (ECHO, UNANSWERED))]
    best: list[int] = best_positions(scores, found, MAX_READ).tolist()
    return best


def texts_at(view: View, positions: Iterable[int]) -> Choice[dict[int, str]]:
    rows = {one: int(view.column["row"][one]) for one in positions}
    texts = (yield DetailRequest(texts=list(rows.values()))).texts if rows else {}
    return {one: texts.get(row, "") for one, row in rows.items()}


def _only_asks(text: str, asked: frozenset[str]) -> bool:
    """Return whether the question's stems occur in questions of the text and in no statement."""
    every = [(sentence, asks(sentence)) for sentence in sentences(text)]
    in_questions, in_statements = (
        frozenset(stems(words(" ".join(one for one, is_question in every if is_question is kind))))
        for kind in (True, False)
    )
    return asked.isdisjoint(in_statements) and not asked.isdisjoint(in_questions)
