"""What came later first: the latest of similar messages, a correction, the reply to a question.

"They raised the API limit to 250" does not have the form of "The API limit is 100", so
`statements.py` cannot compare them. If both match a question about the present almost equally well,
and share enough words, the later message has the current value. Long messages and questions about
the past are left alone: there, similar messages tell of several events.

Where the form of both was recognised, a fact was extracted from each, and the later one replaced
the earlier one. Then the earlier message is outdated, whatever their words are.

A correction such as "No, I meant Wednesday" has no words of the message that it corrects, which is
the speaker's previous one. It changes the order only, like the rule for similar messages. See
decisions 0084 and 0087.

A recorded question has the words of a user who asks the same, so it matches better than its answer
does. So the reply of another speaker ranks above it. If a person replied, or the question is
repeated, the reply takes the place of the question; else the question falls below the reply, since
a model's answer may be wrong and must not rise above what people stated. After a long reply, the
question keeps its rank unless it is repeated: such a reply says much that was not asked for. Who
searches for keywords wants what has them, question or not. See decision 0088.
"""

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain, product

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import ECHO, EXTRACTED, UNANSWERED, Array, Flags, Positions
from local.ledger.search import Choice, DetailRequest
from local.memory.recall.closer import USER_STRENGTH, Mark, Variants
from local.memory.recall.likeness import Likeness, Wording
from local.memory.recall.precedence import (
    RANK_GAP,
    best_positions,
    repeats_question,
    texts_at,
)
from local.memory.recall.query import Query
from local.memory.recall.statements import sentences_of
from local.text.features import HEAD, asks, sentences
from local.text.words import informative_words, stems, words

MAX_EARLIER = 8
"""Number of best messages for which a later one is looked for."""
MAX_LATER = 20
"""Number of best messages that may be the later one."""
SHORT = 200
"""Maximum characters of a message with one value; with 300, answers from long talks got worse."""
NEARLY = 0.9
"""Minimum score of the later message, as a fraction of the earlier one's."""
SIMILAR = 0.4
"""Minimum similarity of two messages about the same thing: the Dice coefficient of their stems."""
MAX_QUESTIONS = 5
"""Maximum number of recorded questions whose texts are read, best first."""
_OPENS_CORRECTION = re.compile(
    r"(?:(?:oh|no|wait|sorry|oops|ah|actually|my (?:bad|mistake))\b[\s,.!\u2013\u2014-]*){0,3}"
    r"(?:i meant|correction\b|scratch that|make (?:that|it)\b)",
    re.IGNORECASE,
)
"""Opens a correction of the message before. "It's", which opens a corrected value in extraction, is
left out: here, nothing shows that a value follows."""


def prefer_latest(query: Query, scores: Array, relevant: Flags, variants: Variants) -> Choice[None]:
    """Let later messages and corrections replace the earlier messages of their speaker."""
    view = variants.view
    stated = np.flatnonzero(relevant & _own_words(variants))
    best: list[int] = best_positions(scores, stated, MAX_LATER).tolist()
    earlier = [one for one in best if one not in variants.replaced_by][:MAX_EARLIER]
    if not query.about_past:
        yield from _follow_facts(view, earlier, relevant, variants)
    next_of = {one: _next_of_speaker(view, one) for one in earlier}
    following = {one: next_ for one, next_ in next_of.items() if next_ is not None}
    pairs = []
    if not (query.about_past or query.stating):
        pairs = list(_later_messages(view, scores, earlier, best))
    needed = {*following.values(), *chain.from_iterable(pairs)}
    texts = variants.texts | (yield from texts_at(view, needed - variants.texts.keys()))
    for one, next_ in following.items():
        if _OPENS_CORRECTION.match(texts[next_]):
            variants.replaced_by[one] = next_
            relevant[next_] = True
    statements = {one for one in {later for _, later in pairs} if _is_statement(texts[one])}
    stems_of = {one: _stems(texts[one]) for one in statements.union(*pairs)}
    for one, later in pairs:
        if (
            later in statements
            and _similarity(stems_of[one], stems_of[later]) >= SIMILAR
            and not _are_about_others(texts[one], texts[later])
        ):
            variants.replaced_by.setdefault(one, later)


def _own_words(variants: Variants) -> Flags:
    """Return which messages are of known people."""
    column = variants.view.column
    is_own = (column["principal"] >= 0) & (variants.strengths >= USER_STRENGTH)
    return np.asarray(is_own & column["spoken"])


def _follow_facts(
    view: View, earlier: Sequence[int], relevant: Flags, variants: Variants
) -> Choice[None]:
    """Let messages with the present values replace those from which former ones were extracted."""
    row, newness = view.column["row"], view.column["newness"]
    if not (view.column["echo"] == EXTRACTED).any():
        return
    short = {int(row[one]): one for one in earlier if view.column["length"][one] <= SHORT}
    replaced = (yield DetailRequest(replaced=list(short))).replaced
    for former, rows in replaced.items():
        one, present = short[former], view.positions(rows)
        latest = max(present.tolist(), key=newness.__getitem__, default=one)
        if newness[latest] > newness[one]:
            variants.replaced_by[one] = latest
            variants.marks[one] = Mark(outdated_by=int(row[latest]))
            relevant[latest] = True


def _later_messages(
    view: View, scores: Array, earlier: Sequence[int], best: Sequence[int]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of short messages with almost equal scores, the latest second message first."""
    length, newness = view.column["length"], view.column["newness"]
    newest_first = sorted(best, key=lambda one: newness[one], reverse=True)
    for later, one in product(newest_first, earlier):
        if (
            max(length[one], length[later]) <= SHORT
            and newness[later] > newness[one]
            and scores[later] >= NEARLY * scores[one]
            and _is_same_speaker(view, one, later)
        ):
            yield one, later


def _next_of_speaker(view: View, position: int) -> int | None:
    """Return the speaker's next message, if it is short and at most one other is in between."""
    for _, next_positions in view.neighbours[:2]:
        next_ = int(next_positions[position])
        if next_ < view.size and _is_same_speaker(view, position, next_):
            return next_ if view.column["length"][next_] <= SHORT else None
    return None


def _is_same_speaker(view: View, one: int, other: int) -> bool:
    columns = (view.column[name] for name in ("principal", "label", "machine"))
    return all(column[one] == column[other] for column in columns)


def _is_statement(text: str) -> bool:
    return not any(map(asks, sentences(text)))


def _are_about_others(*texts: str) -> bool:
    """Return whether both texts state a value, each of a thing that the other does not name."""
    things = [
        [
            _stems(" ".join(shortest))
            for sentence in sentences_of(text)
            if (statement := sentence.statement)
            and (shortest := min(statement.frames, key=len, default=()))
        ]
        for text in texts
    ]
    return all(things) and all(one - other and other - one for one, other in product(*things))


def _stems(text: str) -> frozenset[str]:
    return frozenset(stems(informative_words(text)))


def _similarity(one: AbstractSet[str], other: AbstractSet[str]) -> float:
    """Return the Dice coefficient of two sets."""
    return 2 * len(one & other) / max(len(one) + len(other), 1)


def put_replies_first(
    query: Query, wording: Wording, like: Likeness, scores: Array, relevant: Flags
) -> Choice[Array]:
    """Return the scores, with replies above their questions; the replies become relevant."""
    view, ordered = wording.view, scores.copy()
    if query.stating or not asks(query.text) or not view.neighbours:
        return ordered
    repeated = repeats_question(query, wording, like)
    candidates = _with_reply(wording, scores, relevant, repeated)
    texts = yield from texts_at(view, candidates)
    questions = [one for one in candidates if _only_asks(texts[one], wording.stems)]
    replies = {one: int(view.neighbours[0][1][one]) for one in questions}
    texts = yield from texts_at(view, replies.values())
    for question, reply in replies.items():
        if not all(map(asks, sentences(texts[reply]))):
            if repeated[question] or not view.column["machine"][reply]:  # machines may be wrong
                ordered[reply] = max(ordered[reply], ordered[question])
            ordered[question] = min(ordered[question], ordered[reply] - RANK_GAP)
            relevant[reply] = True
    return ordered


def _with_reply(wording: Wording, scores: Array, relevant: Flags, repeated: Flags) -> list[int]:
    """Return the best short records with a word of the question and a reply of another speaker."""
    view, column = wording.view, wording.view.column
    is_short, reply = column["length"] <= HEAD, view.neighbours[0][1]
    found: Positions = np.flatnonzero(relevant & wording.has_word & is_short & (reply < view.size))
    replies = reply[found]
    by_other = column["machine"][found] != column["machine"][replies]
    by_other |= column["label"][found] != column["label"][replies]
    may_answer = ~np.isin(column["echo"][replies], (ECHO, UNANSWERED))
    found = found[by_other & may_answer & (is_short[replies] | repeated[found])]
    best: list[int] = best_positions(scores, found, MAX_QUESTIONS).tolist()
    return best


def _only_asks(text: str, asked: frozenset[str]) -> bool:
    """Return whether the question's stems occur in questions of the text and in no statement."""
    every = sentences(text)
    questions = [sentence for sentence in every if asks(sentence)]
    if not questions:
        return False
    statements = [sentence for sentence in every if sentence not in questions]
    in_questions, in_statements = (
        frozenset(stems(words(" ".join(some)))) for some in (questions, statements)
    )
    return asked.isdisjoint(in_statements) and not asked.isdisjoint(in_questions)
