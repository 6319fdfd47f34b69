"""Backward packing: whole rounds are kept from the newest back, while they fit."""

from collections.abc import Callable, Sequence

from local.conversation.compaction.rounds import rounds, waiting_round
from local.conversation.compaction.stages import Job
from local.conversation.compaction.truncation import shortened
from local.conversation.contents import is_question, is_summary
from local.conversation.message import Message
from local.conversation.tokens import TokenCounter

SUMMARY_PART = 4
"""Of the budget a quarter is for a summary, however long the results of tools are."""


class BackwardPacking:
    """The last resort of a compaction: what does not fit is left out."""

    async def process(self, messages: Sequence[Message], job: Job) -> list[Message]:
        return packed(messages, job.target_tokens, job.count)


def packed(
    messages: Sequence[Message],
    budget: int,
    count: TokenCounter,
    shorten: Callable[[Message], Message] | None = None,
) -> list[Message]:
    """As many of the newest rounds as fit into `budget` tokens; `shorten` is asked of each message.

    Always kept: a leading system message, the newest round, one that waits for answers, and what
    the user said last; then a summary, cut to a quarter of the budget where it has to be. Where
    these are too many, their tool results are cut.
    """
    pieces = rounds(messages)
    kept = _always_kept(pieces)
    for index, piece in enumerate(pieces):
        if index not in kept and is_summary(piece[0]):
            at_most = _room_of_summary([m for i in kept for m in pieces[i]], budget, count)
            summary = shortened(piece[0], at_most, count)
            if count(summary) <= at_most:
                pieces[index] = [summary]
                kept.add(index)
    whole = [message for index in sorted(kept) for message in pieces[index]]
    cut = {message.message_id: message for message in with_cut_results(whole, budget, count)}
    room = budget - sum(map(count, whole))
    for index in reversed(range(len(pieces))):
        if index in kept:
            continue
        if shorten is not None:
            pieces[index] = [shorten(message) for message in pieces[index]]
        room -= sum(map(count, pieces[index]))
        if room < 0:
            break
        kept.add(index)
    shown = (message for index in sorted(kept) for message in pieces[index])
    return [cut.get(message.message_id, message) for message in shown]


def with_cut_results(
    messages: Sequence[Message], budget: int, count: TokenCounter
) -> list[Message]:
    """Each tool result loses its share of the tokens that are too many, where any are."""
    over = sum(map(count, messages)) - budget
    if over <= 0:
        return list(messages)
    results = sum(count(message) for message in messages if message.role == "tool")
    share = max(0.0, 1 - over / max(results, 1))
    return [
        shortened(message, int(count(message) * share), count)
        if message.role == "tool"
        else message
        for message in messages
    ]


def _always_kept(pieces: Sequence[Sequence[Message]]) -> set[int]:
    asked = [i for i, piece in enumerate(pieces) if any(map(is_question, piece))]
    system = [0] if pieces and pieces[0][0].role == "system" else []
    waiting = waiting_round(pieces)
    called = [] if waiting is None else [waiting]
    return {*system, *asked[-1:], *called, *range(len(pieces))[-1:]}


def _room_of_summary(others: Sequence[Message], budget: int, count: TokenCounter) -> int:
    """What the others leave; a quarter of the budget, where their tool results can give way."""
    results = sum(count(message) for message in others if message.role == "tool")
    rest = budget - sum(map(count, others)) + results
    return min(max(rest - results, budget // SUMMARY_PART), rest)
