"""What all stages of a compaction share: the job they receive, and the rounds they never split.

A round is an assistant message and everything up to the last tool message that answers its calls.
Every other message is a round by itself. Models' servers refuse a call without its result and a
result without its call, so a conversation may be cut only between rounds.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Protocol

from msgspec import Struct

from local2.conversation.config import ManagedMemoryConfig
from local2.conversation.context import TokenCounter
from local2.conversation.message import Message
from local2.llm.models import ChatModel


class CompactionRuntime(Struct, frozen=True, kw_only=True):
    """What the caller provides for a compaction. Without a model, summaries are extracted."""

    model: ChatModel | None = None
    context_tokens: int | None = None
    """The size of the model's context, if known."""
    provider: str | None = None
    """The provider of the conversation's model, which limits the bytes of a request."""
    within: float = 600.0
    """Seconds that the model has for each answer. This is generous: a local model takes minutes to
    read a long history, and nobody waits for a compaction. A model that hangs is given up."""


class StageInput(Struct, frozen=True, kw_only=True):
    """The input of a stage."""

    config: ManagedMemoryConfig
    count: TokenCounter
    runtime: CompactionRuntime = CompactionRuntime()

    @property
    def target_tokens(self) -> int:
        return self.config.compaction_target_tokens

    def tokens(self, messages: Iterable[Message]) -> int:
        return sum(map(self.count, messages))


class Processor(Protocol):
    """One stage, which makes messages fewer or shorter and never splits a round."""

    async def process(self, messages: Sequence[Message], job: StageInput) -> list[Message]:
        """The remaining messages; unchanged ones are the same objects."""
        ...


class Compaction(Struct, frozen=True, kw_only=True):
    messages: list[Message]
    stages: list[str]
    """Names of the stages that saved tokens, in their order."""


def rounds(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """Split the messages into rounds, in their order.

    A late tool result extends its round over all messages in between.
    """
    starts: list[int] = []
    called_at: dict[str, int] = {}
    for index, message in enumerate(messages):
        if message.role != "tool" or not starts:
            starts.append(index)
        elif message.tool_call_id in called_at:
            while starts[-1] > called_at[message.tool_call_id]:
                starts.pop()
        for call in message.tool_calls or ():
            called_at[call.id] = called_at[call.call_id] = index
    return [messages[start:end] for start, end in pairwise([*starts, len(messages)])]


def protected_from(messages: Sequence[Message], grace: int) -> int:
    """The index from which all messages stay: the start of the `grace`-th last round.

    Only rounds of the assistant count; the index is 0 if there are fewer. A round that waits for
    tool results always stays.
    """
    pieces = rounds(messages)
    cuts = list(accumulate(map(len, pieces), initial=0))
    boundary = len(messages)
    if grace > 0:
        assistant = [i for i, message in enumerate(messages) if message.role == "assistant"]
        boundary = assistant[-grace] if len(assistant) >= grace else 0
    if (waiting := open_round(pieces)) is not None:
        boundary = min(boundary, cuts[waiting])
    return cuts[bisect_right(cuts, boundary) - 1]


def open_round(pieces: Sequence[Sequence[Message]]) -> int | None:
    """The index of the assistant's newest round, if its calls still wait for results."""
    newest = (i for i in reversed(range(len(pieces))) if pieces[i][0].role == "assistant")
    if (index := next(newest, None)) is None:
        return None
    answered = {message.tool_call_id for message in pieces[index] if message.role == "tool"}
    calls = [call for message in pieces[index] for call in message.tool_calls or ()]
    is_open = any(not answered & {call.id, call.call_id} for call in calls)
    return index if is_open else None
