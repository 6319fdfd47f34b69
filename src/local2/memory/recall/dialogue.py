"""What a message is worth as part of a conversation: as the reply to a question, or as a mere nod.

A recorded question has the words of a user who asks the same, so it matches better than its answer
does. So the reply of another speaker ranks above it. If a person replied, or the question is
repeated, the reply takes the place of the question; else the question falls below the reply, since
a model's answer may be wrong and must not rise above what people stated. After a long reply, the
question keeps its rank unless it is repeated: such a reply says much that was not asked for. Who
searches for keywords wants what has them, question or not. See decision 0048.

"Noted." after a statement matches by the words of its neighbours and says nothing: it ranks below
everything else. A reply to a question is no nod, however short it is.
"""

import numpy as np

from local2.language.features import HEAD
from local2.language.questions import asks
from local2.language.sentences import sentences
from local2.language.words import informative_stems
from local2.ledger.columns import View
from local2.ledger.entries import ECHO, UNANSWERED, Array, Flags, Positions
from local2.ledger.search import Choice
from local2.memory.recall.likeness import Wording
from local2.memory.recall.precedence import Total, best_positions, texts_at
from local2.memory.recall.query import Query
from local2.memory.recall.tuning import (
    MAX_NODS,
    MAX_QUESTIONS,
    NOD,
    NOD_CHARACTERS,
    NOD_LENGTH,
    NOD_WORDS,
    RANK_GAP,
)


def put_replies_first(
    query: Query, wording: Wording, repeated: Flags, scores: Array, relevant: Flags
) -> Choice[Array]:
    """Return the scores, with replies above their questions; the replies become relevant.

    `repeated`: the records that ask the same as the question.
    """
    view = wording.view
    if query.stating or not asks(query.text) or not view.neighbours:
        return scores
    row = view.column["row"]
    has_question: dict[int, bool] = view.found_in_texts("questions")
    best = _with_reply(wording, scores, relevant, repeated)
    texts = yield from texts_at(
        view, [one for one in best if has_question.get(int(row[one]), True)]
    )
    for position, text in texts.items():
        has_question[int(row[position])] = any(map(asks, sentences(text)))
    candidates = [one for one in best if has_question[int(row[one])]]
    questions = [one for one in candidates if _only_asks(texts[one], wording.stems)]
    replies = {one: int(view.neighbours[0][1][one]) for one in questions}
    texts = yield from texts_at(view, replies.values())
    ordered = scores.copy()
    for question, reply in replies.items():
        if not all(map(asks, sentences(texts[reply]))):
            if repeated[question] or not view.column["machine"][reply]:  # machines may be wrong
                ordered[reply] = max(ordered[reply], ordered[question])
            ordered[question] = min(ordered[question], ordered[reply] - RANK_GAP)
            relevant[reply] = True
    return ordered


def _with_reply(wording: Wording, scores: Array, relevant: Flags, repeated: Flags) -> list[int]:
    """Return the best short records with a word of the question and a reply of another speaker.

    After a long reply, only those that ask the same again.
    """
    has_reply, has_short_reply = wording.view.derive(_replied)
    found = relevant & wording.has_word & (has_short_reply | (repeated & has_reply))
    best: list[int] = best_positions(scores, np.flatnonzero(found), MAX_QUESTIONS).tolist()
    return best


def _replied(view: View) -> tuple[Flags, Flags]:
    """Return which short records have a reply of another speaker, and which have a short one."""
    column, reply = view.column, view.neighbours[0][1]
    is_short = column["length"] <= HEAD
    found = np.flatnonzero(is_short & (reply < view.size))
    replies = reply[found]
    by_other = column["machine"][found] != column["machine"][replies]
    by_other |= column["label"][found] != column["label"][replies]
    may_answer = ~np.isin(column["echo"][replies], (ECHO, UNANSWERED))
    has_reply, has_short_reply = np.zeros((2, view.size), bool)
    has_reply[found] = by_other & may_answer
    has_short_reply[found] = has_reply[found] & is_short[replies]
    return has_reply, has_short_reply


def _only_asks(text: str, asked: frozenset[str]) -> bool:
    """Return whether these stems occur in the questions of a text and in no statement."""
    found = sentences(text)
    questions = [one for one in found if asks(one)]
    statements = [one for one in found if one not in questions]
    return not asked.isdisjoint(informative_stems(" ".join(questions))) and asked.isdisjoint(
        informative_stems(" ".join(statements))
    )


def nods(view: View, total: Total, relevant: Flags) -> Choice[Array]:
    """Return the share of the short replies of assistants that say nothing of their own."""
    share = np.zeros(view.size)
    short_replies = view.derive(_short_replies)
    found = short_replies[relevant[short_replies]]
    if not len(found):
        return share
    before = view.neighbours[0][0]
    replies: list[int] = best_positions(total.scores, found, MAX_NODS).tolist()
    row = view.column["row"]
    known: dict[tuple[int, int], bool] = view.found_in_texts("nods")
    statements = {reply: int(before[reply]) for reply in replies}
    keys = {reply: (int(row[reply]), int(row[said])) for reply, said in statements.items()}
    unknown = {reply: said for reply, said in statements.items() if keys[reply] not in known}
    texts = yield from texts_at(view, {*unknown, *unknown.values()})
    for reply, statement in unknown.items():
        known[keys[reply]] = _is_nod(texts[reply], texts[statement])
    share[[reply for reply in replies if known[keys[reply]]]] = NOD
    return share


def _is_nod(reply: str, statement: str) -> bool:
    """Return whether a reply to a statement says nothing of its own; nothing was asked."""
    if any(map(asks, sentences(f"{statement}\n{reply}"))):
        return False
    return len(informative_stems(reply) - informative_stems(statement)) <= NOD_WORDS


def _short_replies(view: View) -> Positions:
    """Return the replies of assistants to people that are short, or as short as the statement."""
    if not view.neighbours:
        return np.zeros(0, np.int64)
    column, before = view.column, view.neighbours[0][0]
    answered = column["spoken"] & (column["source"] == view.names.sources.number_of("answered"))
    found = np.flatnonzero(answered & (before < view.size))
    length, statement_length = column["length"][found], column["length"][before[found]]
    is_short = length <= np.maximum(NOD_CHARACTERS, NOD_LENGTH * statement_length)
    return np.asarray(found[is_short & ~column["machine"][before[found]]])
