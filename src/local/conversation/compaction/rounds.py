"""Where a conversation may be cut: between rounds, and never inside one.

A round is an assistant message up to the last tool message that answers its calls. Every other
message stands alone.
"""

from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate, pairwise

from local.conversation.message import Message


def rounds(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """The messages in their order, in pieces that belong together."""
    cuts = [*_starts(messages), len(messages)]
    return [messages[start:end] for start, end in pairwise(cuts)]


def protected_from(messages: Sequence[Message], grace: int) -> int:
    """The index from which all messages stay: the round of the `grace`-th last assistant message.

    0 where there are fewer assistant messages. A round that waits for answers stays in any case.
    """
    pieces = rounds(messages)
    cuts = list(accumulate(map(len, pieces), initial=0))
    boundary = len(messages)
    if grace > 0:
        said = [i for i, message in enumerate(messages) if message.role == "assistant"]
        boundary = said[-grace] if len(said) >= grace else 0
    if (waiting := waiting_round(pieces)) is not None:
        boundary = min(boundary, cuts[waiting])
    return cuts[bisect_right(cuts, boundary) - 1]


def waiting_round(pieces: Sequence[Sequence[Message]]) -> int | None:
    """The place of the assistant's newest round, if answers to its calls are still to come."""
    newest = (i for i in reversed(range(len(pieces))) if pieces[i][0].role == "assistant")
    place = next(newest, None)
    return None if place is None or not _is_open(pieces[place]) else place


def _starts(messages: Sequence[Message]) -> list[int]:
    """Where rounds begin; one that a late answer reaches swallows what was said in between."""
    starts: list[int] = []
    asked_in: dict[str, int] = {}
    for index, message in enumerate(messages):
        if message.role != "tool" or not starts:
            starts.append(index)
        elif message.tool_call_id in asked_in:
            while starts[-1] > asked_in[message.tool_call_id]:
                starts.pop()
        for call in message.tool_calls or ():
            asked_in[call.id] = asked_in[call.call_id] = index
    return starts


def _is_open(piece: Sequence[Message]) -> bool:
    answered = {message.tool_call_id for message in piece if message.role == "tool"}
    return any(
        not answered & {call.id, call.call_id}
        for message in piece
        for call in message.tool_calls or ()
    )
