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

import re
from collections.abc import Collection, Iterator, Sequence
from collections.abc import Set as AbstractSet
from functools import cached_property
from itertools import chain, product

import numpy as np

from local.ledger.columns import View
from local.ledger.entries import ECHO, EXTRACTED, UNANSWERED, Array, Flags, Positions
from local.ledger.search import Choice, DetailRequest
from local.memory.recall.announcements import (
    AnalysedSentence,
    analyse,
    announces,
    corrects,
    stems_of,
)
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
from local.text.words import stems, words

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
SIMILAR = 0.4
"""Minimum similarity of two messages about the same thing: the Dice coefficient of their stems."""
_ONESELF = frozenset({"i", "my", "me", "mine", "myself"})
MAX_QUESTIONS = 5
"""Maximum number of recorded questions whose texts are read, best first."""
_OPENS_CORRECTION = re.compile(
    r"(?:(?:oh|no|wait|sorry|oops|ah|actually|my (?:bad|mistake))\b[\s,.!\u2013\u2014-]*){0,3}"
    r"(?:i meant|correction\b|scratch that|make (?:that|it)\b)",
    re.IGNORECASE,
)
"""Opens a correction of the message before. "It's", which opens a corrected value in extraction, is
left out: nothing shows that a value follows, unless it names the former one ("It's 43, not 42")."""


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
        named = _with_rare_names(variants, earlier)
        pairs = list(_later_messages(view, earlier, {*best, *named}))
    needed = {*following, *following.values(), *chain.from_iterable(pairs)}
    texts = variants.texts | (yield from texts_at(view, needed - variants.texts.keys()))
    messages = {one: _Message(texts[one]) for one in needed}
    for one, next_ in following.items():
        if messages[next_].corrects(messages[one]):
            variants.replaced_by[one] = next_
            relevant[next_] = True
    asked = frozenset(stems(query.terms))
    for one, later in pairs:
        old, new = messages[one], messages[later]
        same_speaker = _is_same_speaker(view, one, later)
        is_near = same_speaker and scores[later] >= NEARLY * scores[one]
        if (is_near and new.is_like(old)) or new.announces(old, asked, same_speaker=same_speaker):
            variants.replaced_by.setdefault(one, later)
            relevant[later] = True


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


def _with_rare_names(variants: Variants, earlier: Sequence[int]) -> Iterator[int]:
    """Yield the messages with a rare name of the best ones."""
    own = _own_words(variants)
    for text in filter(None, map(variants.texts.get, earlier[:MAX_FOLLOWED])):
        for name in chain.from_iterable(one.names for one in analyse(text[:SHORT])):
            at = variants.view.postings(name).positions
            at = at[own[at]]
            if len(at) <= RARE:
                yield from at.tolist()


def _later_messages(
    view: View, earlier: Sequence[int], best: Collection[int]
) -> Iterator[tuple[int, int]]:
    """Yield pairs of short messages of one principal, the latest second message first."""
    length, newness = view.column["length"], view.column["newness"]
    principal = view.column["principal"]
    newest_first = sorted(best, key=lambda one: newness[one], reverse=True)
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


class _Message:
    """A text, read as far as the rules need it."""

    def __init__(self, text: str) -> None:
        self._text = text

    @cached_property
    def sentences(self) -> tuple[AnalysedSentence, ...]:
        return analyse(self._text[:HEAD])

    @cached_property
    def stems(self) -> frozenset[str]:
        return stems_of(self._text)

    @cached_property
    def of_oneself(self) -> bool:
        return not _ONESELF.isdisjoint(words(self._text))

    @cached_property
    def things(self) -> list[frozenset[str]]:
        """The things whose values the text states, by form."""
        return [
            stems_of(" ".join(shortest))
            for sentence in sentences_of(self._text)
            if (statement := sentence.statement)
            and (shortest := min(statement.frames, key=len, default=()))
        ]

    def corrects(self, earlier: "_Message") -> bool:
        opens = _OPENS_CORRECTION.match(self._text) is not None
        return opens or corrects(self.sentences, earlier.sentences)

    def announces(
        self, earlier: "_Message", asked: AbstractSet[str], *, same_speaker: bool
    ) -> bool:
        """Return whether this announces a change; nobody else changes what a speaker owns."""
        may_change = same_speaker or not (self.of_oneself or earlier.of_oneself)
        return may_change and announces(self.sentences, earlier.sentences, asked)

    def is_like(self, earlier: "_Message") -> bool:
        """Return whether this states something about the same thing in much the same words."""
        common, all_stems = self.stems & earlier.stems, len(self.stems) + len(earlier.stems)
        if 2 * len(common) < SIMILAR * max(all_stems, 1):
            return False
        states = not any(map(asks, sentences(self._text)))
        return states and not _are_of_others(self.things, earlier.things)


def _are_of_others(things: Sequence[frozenset[str]], others: Sequence[frozenset[str]]) -> bool:
    """Return whether both texts state a value, each of a thing that the other does not name."""
    pairs = product(things, others)
    return bool(things and others) and all(one - other and other - one for one, other in pairs)


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
