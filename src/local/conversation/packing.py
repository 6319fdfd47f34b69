"""Backward packing: whole rounds are kept from the newest back, while they fit."""

from collections.abc import Iterator, Sequence

from local.conversation.compaction import Job
from local.conversation.contents import is_question, is_summary
from local.conversation.message import Message
from local.conversation.rounds import rounds
from local.conversation.tokens import TokenCounter
from local.conversation.truncation import shortened


class BackwardPacking:
    """The last resort of a compaction: what does not fit is left out."""

    async def process(self, messages: Sequence[Message], job: Job) -> list[Message]:
        return packed(messages, job.target_tokens, job.count)


def packed(messages: Sequence[Message], budget: int, count: TokenCounter) -> list[Message]:
    """As many of the newest rounds as fit into `budget` tokens.

    Always kept: a leading system message, the newest round, and what the user said last. Where
    these alone are too many, the newest round's tool results are cut. A summary comes next.
    """
    pieces = rounds(messages)
    kept = _always_kept(pieces)
    room = budget - sum(count(message) for i in kept for message in pieces[i])
    if room < 0:
        pieces[-1] = _cut_results(pieces[-1], room, count)
    for index in _by_worth(pieces):
        size = sum(map(count, pieces[index]))
        if index in kept or (size > room and is_summary(pieces[index][0])):
            continue
        if size > room:
            break
        room -= size
        kept.add(index)
    return [message for index in sorted(kept) for message in pieces[index]]


def _always_kept(pieces: Sequence[Sequence[Message]]) -> set[int]:
    asked = [i for i, piece in enumerate(pieces) if is_question(piece[0])]
    system = [0] if pieces and pieces[0][0].role == "system" else []
    return {*system, *asked[-1:], *range(len(pieces))[-1:]}


def _by_worth(pieces: Sequence[Sequence[Message]]) -> Iterator[int]:
    """The summary, then the newest."""
    yield from (i for i, piece in enumerate(pieces) if is_summary(piece[0]))
    yield from reversed(range(len(pieces)))


def _cut_results(newest: Sequence[Message], room: int, count: TokenCounter) -> Sequence[Message]:
    """Each tool result loses its share of the tokens that are too many."""
    sizes = [count(message) if message.role == "tool" else 0 for message in newest]
    share = max(0.0, 1 + room / max(sum(sizes), 1))
    return [
        shortened(message, int(size * share), count) if size else message
        for message, size in zip(newest, sizes, strict=True)
    ]
