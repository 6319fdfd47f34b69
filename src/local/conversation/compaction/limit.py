"""What is handed out fits its limit, whatever no compaction could do yet. Needs no model."""

from collections.abc import Callable, Sequence

import msgspec

from local.conversation.compaction.packing import packed
from local.conversation.compaction.rounds import protected_from
from local.conversation.compaction.strategies import enabled_stages
from local.conversation.compaction.truncation import shortened
from local.conversation.config import ManagedMemoryConfig
from local.conversation.contents import is_question, parted
from local.conversation.message import Message, ToolCallMsg
from local.conversation.parts import as_json
from local.conversation.tokens import TokenCounter

SHORT_ARGUMENTS = 40
"""Characters of a call's arguments that stay as they are."""

Cut = Callable[[Message, int, TokenCounter], Message]


def limited(
    messages: Sequence[Message], config: ManagedMemoryConfig, count: TokenCounter
) -> list[Message]:
    """The newest rounds that fit a compaction's target, older tool results cut as it cuts them.

    What has to stay (see `packed`) may be more than that, but not more than `threshold_tokens`: its
    texts are cut, then its images, reasoning and arguments go, then all but the system message and
    the last question. Whatever is cut says so.
    """
    limit = config.threshold_tokens
    kept = packed(
        messages, config.compaction_target_tokens, count, _truncation(messages, config, count)
    )
    for make in (_with_cut_texts, _bare, _essential, _clipped):
        if sum(map(count, kept)) <= limit:
            return kept
        kept = make(kept, limit, count)
    while kept and sum(map(count, kept)) > limit:
        kept.pop()  # not even an ellipsis fits
    return kept


def _truncation(
    messages: Sequence[Message], config: ManagedMemoryConfig, count: TokenCounter
) -> Callable[[Message], Message]:
    """What the stage `tool_truncation` makes of a message, one at a time."""
    policy = config.active_context
    if "tool_truncation" not in enabled_stages(policy):
        return lambda message: message
    truncation = policy.tool_truncation
    newest = messages[protected_from(messages, truncation.grace_recent_messages) :]
    whole = {message.message_id for message in newest}

    def cut(message: Message) -> Message:
        if message.role != "tool" or message.message_id in whole:
            return message
        return shortened(message, truncation.max_tokens, count)

    return cut


def _with_cut_texts(messages: Sequence[Message], limit: int, count: TokenCounter) -> list[Message]:
    """The longest are cut, but for a leading system message."""
    system = messages[:1] if messages and messages[0].role == "system" else ()
    rest = messages[len(system) :]
    return [*system, *_shared(rest, limit - sum(map(count, system)), count, shortened)]


def _bare(messages: Sequence[Message], limit: int, count: TokenCounter) -> list[Message]:
    return _with_cut_texts([_text_only(message) for message in messages], limit, count)


def _essential(messages: Sequence[Message], limit: int, count: TokenCounter) -> list[Message]:
    """A leading system message, and the last question; else what the assistant said last."""
    system = [messages[0]] if messages[0].role == "system" else []
    asked = [message for message in messages if is_question(message)]
    said = [message for message in messages[len(system) :] if message.role != "tool"]
    last = [msgspec.structs.replace(message, tool_calls=None) for message in (asked or said)[-1:]]
    return _with_cut_texts([*system, *last], limit, count)


def _clipped(messages: Sequence[Message], limit: int, count: TokenCounter) -> list[Message]:
    return _shared(messages, limit, count, _clip)


def _shared(
    messages: Sequence[Message], budget: int, count: TokenCounter, cut: Cut
) -> list[Message]:
    """The messages in their order; those over their share are cut, what others leave is shared."""
    fitting = list(messages)
    by_length = sorted(range(len(messages)), key=lambda place: count(messages[place]))
    for done, place in enumerate(by_length):
        share = max(budget, 0) // (len(messages) - done)
        fitting[place] = cut(messages[place], share, count)
        budget -= count(fitting[place])
    return fitting


def _clip(message: Message, tokens: int, count: TokenCounter) -> Message:
    """The beginning of its text, or just an ellipsis."""
    text = parted(message.content)[0]
    while text and count(message) > tokens:
        text = text[: len(text) * 3 // 4]
        message = msgspec.structs.replace(message, content=f"{text}…")
    return message


def _text_only(message: Message) -> Message:
    """Without what is no text; that a call was made stays, and so does what it was of."""
    text, others = parted(message.content)
    if left_out := len(others) + len(message.images or ()):
        text = f"{text}\n[… images or files left out: {left_out} …]".lstrip()
    requests = [
        msgspec.structs.replace(call, request=_short(call.request))
        for call in message.agent_calls or ()
    ]
    return msgspec.structs.replace(
        message,
        content=text if left_out else message.content,
        images=None,
        tool_calls=[_short_call(call) for call in message.tool_calls or ()] or None,
        agent_calls=requests or None,
        reasoning_details=None,
    )


def _short_call(call: ToolCallMsg) -> ToolCallMsg:
    """Its arguments stay JSON."""
    if len(call.arguments) <= SHORT_ARGUMENTS:
        return call
    left_out = {"left_out": f"{len(call.arguments):,} characters"}
    return msgspec.structs.replace(call, arguments=as_json(left_out))


def _short(request: object) -> object:
    text = request if isinstance(request, str) else as_json(request)
    if len(text) <= SHORT_ARGUMENTS:
        return request
    return f"{text[:SHORT_ARGUMENTS]} [… {len(text) - SHORT_ARGUMENTS:,} characters left out …]"
