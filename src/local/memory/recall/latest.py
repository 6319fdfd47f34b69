"""What came later first: the latest of similar messages, a correction, the reply to a question.

"They raised the API limit to 250" does not have the form of "The API limit is 100", so
`statements.py` cannot compare them. If both match a question about the present almost equally well,
and share enough words, the later message has the current value. Long messages and questions about
the past are left alone: there, similar messages tell of several events.

Where the form of both was recognised, a fact was extracted from each, and the later one replaced
the earlier one. Then the earlier message is outdated, whatever their words are.

A message that announces a change ("I left Acme for Northwind") needs neither form nor score
(`announcements.py`); one that shares a rare name is found even without a word of the question.

A correction such as "No, I meant Wednesday" has no words of the message that it corrects, which is
the speaker's previous one. It changes the order only, as similar messages and announcements do. See
decisions 0084, 0087 and 0089.

A recorded question has the words of a user who asks the same, so it matches better than its answer
does. So the reply of another speaker ranks above it. If a person replied, or the question is
repeated, the reply takes the place of the question; else the question falls below the reply, since
a model's answer may be wrong and must not rise above what people stated. After a long reply, the
question keeps its rank unless it is repeated: such a reply says much that was not asked for. Who
searches for keywords wants what has them, question or not. See decision 0088.
"""

from collections.abc import Collection, Iterator, Sequence
from itertools import chain, product

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import ECHO, EXTRACTED, UNANSWERED, Array, Flags, Positions
from local.ledger.search import Choice, DetailRequest
from local.memory.recall.closer import USER_STRENGTH, Mark, Variants
from local.memory.recall.likeness import Likeness, Wording
from local.memory.recall.message_texts import message_text
from local.memory.recall.precedence import (
    RANK_GAP,
    best_positions,
    repeats_question,
    texts_at,
)
from local.memory.recall.query import Query
from local.text.features import HEAD, asks
from local.text.words import stems

MAX_EARLIER = 8
"""Number of best messages for which a later one is looked for."""
MAX_LATER = 20
"""Number of best messages that may be the later one."""
MAX_FOLLOWED, RARE = 4, 4
"""Number of best messages whose names lead to later ones, and the maximum number of messages with a
name."""
SHORT = 200
"""Maximum characters of a message with one value; with 300, answers from long talks got worse."""
NEARLY = 0.9
"""Minimum score of the later message, as a fraction of the earlier one's."""
MAX_QUESTIONS = 5
"""Maximum number of recorded questions whose texts are read, best first."""


def prefer_latest(query: Query, scores: Array, relevant: Flags, variants: Variants) -> Choice[None]:
    """Let later messages and corrections replace the earlier messages of their speaker."""
    view = variants.view
    stated = np.flatnonzero(relevant & _own_words(variants))
    best: list[int] = best_positions(scores, stated, MAX_LATER).tolist()
    earlier = [one for one in best if one not in variants.replaced_by][:MAX_EARLIER]
    if not query.about_past:
        yield from _follow_facts(earlier, relevant, variants)
    next_of = {one: _next_of_speaker(view, one) for one in earlier}
    following = {one: next_ for one, next_ in next_of.items() if next_ is not None}
    pairs = []
    if not (query.about_past or query.stating):
        named = _with_rare_names(variants, earlier)
        pairs = list(_later_messages(variants, earlier, {*best, *named}))
    needed = {*following, *following.values(), *chain.from_iterable(pairs)}
    texts = variants.texts | (yield from texts_at(view, needed - variants.texts.keys()))
    messages = {one: message_text(texts[one]) for one in needed}
    for one, next_ in following.items():
        if messages[next_].corrects(messages[one]):
            variants.replaced_by[one] = next_
            relevant[next_] = True
    asked = frozenset(stems(query.terms))
    for one, later in pairs:
        old, new = messages[one], messages[later]
        is_near = scores[later] >= NEARLY * scores[one]
        if not (is_near or new.may_announce):
            continue
        same_speaker = _is_same_speaker(view, one, later)
        is_near &= same_speaker
        if (is_near and new.is_like(old)) or new.announces(old, asked, same_speaker=same_speaker):
            variants.replaced_by.setdefault(one, later)
            relevant[later] = True


def _own_words(variants: Variants) -> Flags:
    """Return which messages are of known people."""
    column = variants.view.column
    is_own = (column["principal"] >= 0) & (variants.strengths >= USER_STRENGTH)
    return np.asarray(is_own & column["spoken"])


def _follow_facts(earlier: Sequence[int], relevant: Flags, variants: Variants) -> Choice[None]:
    """Let messages with the present values replace those from which former ones were extracted."""
    view, row = variants.view, variants.view.column["row"]
    if not (view.column["echo"] == EXTRACTED).any():
        return
    short = {int(row[one]): one for one in earlier if view.column["length"][one] <= SHORT}
    replaced = (yield DetailRequest(replaced=list(short))).replaced
    for former, rows in replaced.items():
        one, present = short[former], view.positions(rows)
        latest = max([one, *present.tolist()], key=variants.age_key)
        if latest != one:
            variants.replaced_by[one] = latest
            variants.marks[one] = Mark(outdated_by=int(row[latest]))
            relevant[latest] = True


def _with_rare_names(variants: Variants, earlier: Sequence[int]) -> Iterator[int]:
    """Yield the messages with a rare name of the best ones."""
    own = _own_words(variants)
    for text in filter(None, map(variants.texts.get, earlier[:MAX_FOLLOWED])):
        for name in chain.from_iterable(one.names for one in message_text(text[:SHORT]).sentences):
            at = variants.view.postings(name).positions
            at = at[own[at]]
            if len(at) <= RARE:
                yield from at.tolist()


def _later_messages(
    variants: Variants, earlier: Sequence[int], best: Collection[int]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of short messages of one principal, the latest second message first."""
    column = variants.view.column
    length, principal = column["length"], column["principal"]
    newness = {one: variants.age_key(one) for one in {*best, *earlier}}
    newest_first = sorted(best, key=newness.__getitem__, reverse=True)
    for later, one in product(newest_first, earlier):
        if (
            max(length[one], length[later]) <= SHORT
            and newness[later] > newness[one]
            and principal[one] == principal[later]
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
    questions = [one for one in candidates if message_text(texts[one]).only_asks(wording.stems)]
    replies = {one: int(view.neighbours[0][1][one]) for one in questions}
    texts = yield from texts_at(view, replies.values())
    for question, reply in replies.items():
        if message_text(texts[reply]).answers:
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
