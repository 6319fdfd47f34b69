"""Fit messages into a token budget without a model, by cutting texts and dropping old rounds.

A cut removes the middle of a text: the beginning shows what it is, and the end how it turned out.
Every cut leaves a mark with the number of missing characters, so that no model mistakes a part for
the whole.
"""

import re
from collections.abc import Callable, Sequence

import msgspec

from local2.conversation.config import ManagedMemoryConfig
from local2.conversation.context import TokenCounter
from local2.conversation.message import Message, is_from_user, is_summary
from local2.conversation.parts import Content, as_json, text_and_parts
from local2.conversation.stages import StageInput, open_round, protected_from, rounds

MIN_TEXT_CHARACTERS = 40
"""Minimum characters that every cut leaves: fewer would not show what the text was about."""
BEGINNING_SHARE = 2 / 3
"""Share of the remaining characters taken from the beginning; the rest is taken from the end."""
SUMMARY_FRACTION = 4
"""Divisor: a quarter of the budget is reserved for a summary. Otherwise long tool results, which
can be cut, would push out the only trace of all earlier messages."""
MAX_ARGUMENT_CHARACTERS = 40
"""Maximum characters of a call's arguments when a message is reduced to its text: enough for a name
or a short query, and too few to matter for the size."""

_EARLIER_CUT = re.compile(r" \[… ([0-9]{1,3}(?:,[0-9]{3}){0,4}) characters left out …\] ")

Shorten = Callable[[Message, int, TokenCounter], Message]


class ToolTruncation:
    """Cuts tool results older than the newest rounds to `tool_truncation.max_tokens` each."""

    async def process(self, messages: Sequence[Message], job: StageInput) -> list[Message]:
        config = job.config.active_context.tool_truncation
        boundary = protected_from(messages, config.grace_recent_messages)
        older = [
            shorten(message, config.max_tokens, job.count) if message.role == "tool" else message
            for message in messages[:boundary]
        ]
        return [*older, *messages[boundary:]]


class BackwardPacking:
    """Drops the oldest rounds that do not fit: the last resort of a compaction."""

    async def process(self, messages: Sequence[Message], job: StageInput) -> list[Message]:
        return pack_rounds(messages, job.target_tokens, job.count)


def limit_tokens(
    messages: Sequence[Message], config: ManagedMemoryConfig, count: TokenCounter
) -> list[Message]:
    """Fit messages into `threshold_tokens`, for a model that cannot wait for a compaction.

    Returns the newest rounds that fit the target of a compaction, with older tool results cut as a
    compaction cuts them. Messages that must stay (see `pack_rounds`) may exceed the target, but not
    `threshold_tokens`. To fit them, their texts are cut first, then images, reasoning and long
    arguments are removed, then everything but the system message and the last question.
    """
    limit, policy = config.threshold_tokens, config.active_context
    truncation = policy.tool_truncation
    may_cut: set[str] = set()
    if "tool_truncation" in policy.enabled_stages:
        older = messages[: protected_from(messages, truncation.grace_recent_messages)]
        may_cut = {message.message_id for message in older if message.role == "tool"}

    def prepare(message: Message) -> Message:
        is_cut = message.message_id in may_cut
        return shorten(message, truncation.max_tokens, count) if is_cut else message

    fitted = pack_rounds(messages, config.compaction_target_tokens, count, prepare)
    if sum(map(count, fitted)) > limit:
        fitted = _cut_texts(fitted, limit, count)
    if sum(map(count, fitted)) > limit:
        fitted = _cut_texts([*map(_text_only, fitted)], limit, count)
    if sum(map(count, fitted)) > limit:
        system = fitted[:1] if fitted[0].role == "system" else []
        questions = [message for message in fitted if is_from_user(message)]
        others = [message for message in fitted[len(system) :] if message.role != "tool"]
        last = [msgspec.structs.replace(m, tool_calls=None) for m in (questions or others)[-1:]]
        fitted = _cut_texts([*system, *last], limit, count)
    if sum(map(count, fitted)) > limit:
        fitted = distribute_tokens(fitted, limit, count, _clip)
    while fitted and sum(map(count, fitted)) > limit:
        fitted.pop()  # not even an ellipsis fits
    return fitted


def pack_rounds(
    messages: Sequence[Message],
    budget: int,
    count: TokenCounter,
    prepare: Callable[[Message], Message] | None = None,
) -> list[Message]:
    """Keep as many of the newest rounds as fit into `budget` tokens.

    A leading system message, the newest round, a round that waits for tool results and the user's
    last message always stay. A summary stays too, cut to a quarter of the budget if necessary. If
    these exceed the budget, their tool results are cut. `prepare` may shorten every other message.
    """
    pieces = rounds(messages)
    # These always stay; summaries stay if they fit.
    system = [0] if pieces and pieces[0][0].role == "system" else []
    questions = [i for i, piece in enumerate(pieces) if any(map(is_from_user, piece))]
    waiting_index = open_round(pieces)
    waiting = [] if waiting_index is None else [waiting_index]
    included = {*system, *questions[-1:], *waiting, *range(len(pieces))[-1:]}
    for index, piece in enumerate(pieces):
        if index in included or not is_summary(piece[0]):
            continue
        others = [m for i in included for m in pieces[i]]
        results = sum(count(message) for message in others if message.role == "tool")
        rest = budget - sum(map(count, others)) + results
        # At least a quarter of the budget, if cutting tool results can free that many.
        room = min(max(rest - results, budget // SUMMARY_FRACTION), rest)
        summary = shorten(piece[0], room, count)
        if count(summary) <= room:
            pieces[index] = [summary]
            included.add(index)
    required = [message for index in sorted(included) for message in pieces[index]]
    cut = {m.message_id: m for m in shorten_tool_results(required, budget, count)}
    room = budget - sum(map(count, required))
    for index in reversed(range(len(pieces))):
        if index in included:
            continue
        if prepare is not None:
            pieces[index] = [prepare(message) for message in pieces[index]]
        room -= sum(map(count, pieces[index]))
        if room < 0:
            break
        included.add(index)
    packed = (message for index in sorted(included) for message in pieces[index])
    return [cut.get(message.message_id, message) for message in packed]


def shorten_tool_results(
    messages: Sequence[Message], budget: int, count: TokenCounter
) -> list[Message]:
    """Cut all tool results by the same share, to fit the messages into the budget if possible."""
    excess = sum(map(count, messages)) - budget
    if excess <= 0:
        return list(messages)
    results = sum(count(message) for message in messages if message.role == "tool")
    share = max(0.0, 1 - excess / max(results, 1))
    return [
        shorten(message, int(count(message) * share), count) if message.role == "tool" else message
        for message in messages
    ]


def shorten(message: Message, tokens: int, count: TokenCounter) -> Message:
    """The message with as much of its text as fits into `tokens`.

    A message that fits already, or that a cut would not make smaller, is returned unchanged.
    """
    shorter, whole = message, count(message)
    counted = whole
    text, others = text_and_parts(message.content)
    room = len(text)
    while counted > tokens and room > MIN_TEXT_CHARACTERS:
        room = max(MIN_TEXT_CHARACTERS, min(room * max(tokens, 1) // counted, room * 9 // 10))
        beginning = int(room * BEGINNING_SHARE)
        end = len(text) - (room - beginning)
        left_out = end - beginning
        for earlier in _EARLIER_CUT.finditer(text, beginning, end):
            left_out += int(earlier[1].replace(",", "")) - len(earlier[0])
        cut = f"{text[:beginning]} [… {left_out:,} characters left out …] {text[end:]}"
        content: Content = [{"type": "text", "text": cut}, *others] if others else cut
        shorter = msgspec.structs.replace(message, content=content)
        counted = count(shorter)
    return shorter if counted < whole else message


def distribute_tokens(
    messages: Sequence[Message], budget: int, count: TokenCounter, cut: Shorten = shorten
) -> list[Message]:
    """Divide a token budget among messages, cut each to its share, and return them in order.

    The shortest messages get their shares first, and what they do not need goes to the longer ones.
    """
    fitted = list(messages)
    by_length = sorted(range(len(messages)), key=lambda index: count(messages[index]))
    for done, index in enumerate(by_length):
        share = max(budget, 0) // (len(messages) - done)
        fitted[index] = cut(messages[index], share, count)
        budget -= count(fitted[index])
    return fitted


def _cut_texts(messages: Sequence[Message], limit: int, count: TokenCounter) -> list[Message]:
    """Cut the longest texts, except that of a leading system message."""
    system = messages[:1] if messages and messages[0].role == "system" else ()
    rest = messages[len(system) :]
    return [*system, *distribute_tokens(rest, limit - sum(map(count, system)), count)]


def _clip(message: Message, tokens: int, count: TokenCounter) -> Message:
    """The message with the beginning of its text, or just an ellipsis."""
    text = text_and_parts(message.content)[0]
    while text and count(message) > tokens:
        text = text[: len(text) * 3 // 4]
        message = msgspec.structs.replace(message, content=f"{text}…")
    return message


def _text_only(message: Message) -> Message:
    """Drop everything but the text and the names of called tools and agents."""
    text, others = text_and_parts(message.content)
    if left_out := len(others) + len(message.images or ()):
        text = f"{text}\n[… images or files left out: {left_out} …]".lstrip()
    calls = []
    for called in message.tool_calls or ():
        if (length := len(called.arguments)) > MAX_ARGUMENT_CHARACTERS:
            # In JSON because models' servers parse it.
            arguments = as_json({"left_out": f"{length:,} characters"})
            calls.append(msgspec.structs.replace(called, arguments=arguments))
        else:
            calls.append(called)
    requests = []
    for call in message.agent_calls or ():
        asked = call.request if isinstance(call.request, str) else as_json(call.request)
        if (cut := len(asked) - MAX_ARGUMENT_CHARACTERS) > 0:
            beginning = asked[:MAX_ARGUMENT_CHARACTERS]
            shorter = f"{beginning} [… {cut:,} characters left out …]"
            requests.append(msgspec.structs.replace(call, request=shorter))
        else:
            requests.append(call)
    return msgspec.structs.replace(
        message,
        content=text if left_out else message.content,
        images=None,
        tool_calls=calls or None,
        agent_calls=requests or None,
        reasoning_details=None,
    )
