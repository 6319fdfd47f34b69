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
    best_positions,
    repeats_question,
)
from local.memory.recall.query import Query
from local.text.features import HEAD, asks, sentences
from local.text.words import stems, words

MAX_READ = 10
"""Maximum number of candidates whose texts are read, best first."""


def put_replies_first(
    query: Query, wording: Wording, like: Likeness, scores: Array, relevant: Flags
) -> Choice[Array]:
    """Return the scores, with replies above their questions; the replies become relevant."""
    view, ordered = wording.view, scores.copy()
    if query.stating or not view.neighbours:
        return ordered
    may_ask = view.column["machine"] | repeats_question(query, wording, like)
    candidates = _with_reply(wording, scores, relevant & may_ask)
    texts = yield from texts_at(view, candidates)
    questions = [one for one in candidates if _only_asks(texts[one], wording.stems)]
    replies = {one: int(view.neighbours[0][1][one]) for one in questions}
    texts = yield from texts_at(view, replies.values())
    for question, reply in replies.items():
        if not all(map(asks, sentences(texts[reply]))):
            ordered[reply] = max(ordered[reply], ordered[question])
            ordered[question] = min(ordered[question], ordered[reply] - RANK_GAP)
            relevant[reply] = True
    return ordered


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
