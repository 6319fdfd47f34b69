"""What all stages of a compaction share: their job, and the rounds that no stage splits.

A round is an assistant message and everything up to the last tool message that answers its calls.
Every other message is a round of its own. Models' servers refuse a call without its answer, and an
answer without its call, so a conversation may only be cut between rounds.
"""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from itertools import accumulate, pairwise
from typing import Protocol

from msgspec import Struct

from local.conversation.config import ManagedMemoryConfig
from local.conversation.context import TokenCounter
from local.conversation.message import Message
from local.llm.models import ChatModel


class CompactionRuntime(Struct, frozen=True, kw_only=True):
    """The caller's means for a compaction. Without a model, summaries are extracted."""

    model: ChatModel | None = None
    context_tokens: int | None = None
    """The model's context, if that is known."""
    provider: str | None = None
    """The provider of the conversation's model; decides how many bytes a request may have."""
    within: float = 600.0
    """Seconds the model has for each of its answers. Generous, because a local model reads a long
    history for minutes, while nobody waits for a compaction; a model that hangs is given up."""


class Job(Struct, frozen=True, kw_only=True):
    """The material of a stage."""

    config: ManagedMemoryConfig
    count: TokenCounter
    runtime: CompactionRuntime = CompactionRuntime()

    @property
    def target_tokens(self) -> int:
        return self.config.compaction_target_tokens

    def tokens(self, messages: Iterable[Message]) -> int:
        return sum(map(self.count, messages))


class Processor(Protocol):
    """One stage: it makes messages fewer or shorter, and never splits a round."""

    async def process(self, messages: Sequence[Message], job: Job) -> list[Message]:
        """Return what remains; messages that stay as they were are the same objects."""
        ...


class Compaction(Struct, frozen=True, kw_only=True):
    """The result of a compaction."""

    messages: list[Message]
    stages: list[str]
    """Names of the stages that made a difference, in their order."""


def rounds(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """Return the messages in their order, round by round."""
    cuts = [*_starts(messages), len(messages)]
    return [messages[start:end] for start, end in pairwise(cuts)]


def protected_from(messages: Sequence[Message], grace: int) -> int:
    """Return the index from which all messages stay: the `grace`-th last assistant round.

    0 if there are fewer assistant messages. A round that waits for answers always stays.
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
    """Return the place of the assistant's newest round, if its calls still wait for answers."""
    newest = (i for i in reversed(range(len(pieces))) if pieces[i][0].role == "assistant")
    place = next(newest, None)
    return None if place is None or not _is_open(pieces[place]) else place


def _starts(messages: Sequence[Message]) -> list[int]:
    """Return where rounds begin. A late answer extends its round over all messages in between."""
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
    return starts


def _is_open(piece: Sequence[Message]) -> bool:
    answered = {message.tool_call_id for message in piece if message.role == "tool"}
    return any(
        not answered & {call.id, call.call_id}
        for message in piece
        for call in message.tool_calls or ()
    )
