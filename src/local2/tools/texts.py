"""What the tools' results say: lists of memories, cut so that they fit.

The text is for a model, and numbered. The data has the same memories, up to what the bus carries.
"""

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, TypeVar

import msgspec

from local2.background import read_text
from local2.keys import is_topic
from local2.language.passages import cut_to_passage
from local2.language.sentences import excerpt
from local2.ledger.records import Record
from local2.memory.recall.results import RecallItem
from local2.memory.scopes import view
from local2.protocol.envelope import Caller, utc_now
from local2.protocol.memories import StandingFact
from local2.protocol.memory_tools import Hit, LaterStatement
from local2.protocol.payloads import Json
from local2.quoting import INSET, LATER_CHARACTERS, inset, quoted_line, said_by_others

TEXT_BYTES = 8_000
"""Maximum bytes of all memories in the text for a model, whose context is small."""
MARKS = len(b"\xe2\x80\xa6 " * 2)
"""Bytes of the marks where something is left out, which do not count."""
DATA_BYTES = 400_000
"""Maximum bytes of all memories in the data; the bus carries messages of up to 1 MB."""


class WithContent(Protocol):
    """A Struct that has a field `content`."""

    @property
    def content(self) -> str: ...


M = TypeVar("M", bound=WithContent)


def shortened(memories: Sequence[M], budget: int, question: str | None = None) -> list[M]:
    """Cut long memories so that all fit into the budget, in bytes of JSON; mark cuts with "…".

    They are cut after the beginning, or to the passage that has most of a question's words.
    """
    limit = budget // max(len(memories), 1)
    return [
        memory
        if _size(memory.content) <= limit
        else msgspec.structs.replace(memory, content=_cut(memory.content, limit, question))  # type: ignore[type-var]
        for memory in memories
    ]


def later_shortened(statements: Sequence[LaterStatement], items: int) -> tuple[LaterStatement, ...]:
    """What stands beside one of so many items, which all together fit into a message."""
    return tuple(shortened(statements, DATA_BYTES // items))


async def cut_to_passages(memories: Sequence[M], question: str) -> list[M]:
    """Cut long memories for the text for a model, in a thread if there is much to search."""
    limit = TEXT_BYTES // max(len(memories), 1)
    size = sum(len(memory.content) for memory in memories if len(memory.content) > limit)
    return await read_text(shortened, size, memories, TEXT_BYTES, question)


class ListedMemory(NamedTuple):
    """A memory in a list. `word`: what kind of memory it is."""

    score: float
    moment: datetime
    text: str
    word: str = ""
    later: Sequence[LaterStatement] = ()


def replacement_note(item: Hit | RecallItem, numbers: Mapping[str, int]) -> str:
    """Say what replaces a memory, with its number if it is listed."""
    for word, id_ in (("outdated", item.outdated_by), ("contradicted", item.contradicts)):
        if id_ is not None:
            return f" ({word} by {numbers[id_]})" if id_ in numbers else f" ({word})"
    return ""


RELATED_CHARACTERS = 200
"""Maximum characters of a standing fact in a text for a model."""
NO_TIME = "(There was no time to look for facts about the same thing.)"


def related_fields(related: Sequence[Record] | None, caller: Caller) -> Json:
    """The fields of `WithRelated`; None stands for no time to look."""
    standing = [view(record, caller, StandingFact) for record in related or ()]
    return {"related": shortened(standing, DATA_BYTES), "related_in_time": related is not None}


def related_line(related: Sequence[Record] | None) -> str:
    """Tell a model which facts stand, and how to settle what no longer holds."""
    if related is None:
        return f"\n{NO_TIME}"
    if not related:
        return ""
    standing = "; ".join(map(_standing, related))
    return (
        f"\nAlso standing: {standing} — if one no longer holds, call remember_fact with the "
        "new fact again and replaces=['its id'], or retire_fact(ids=['its id'], reason='…')."
    )


def _standing(record: Record) -> str:
    named = f"{record.topic}: " if record.topic else ""
    said = quoted_line(excerpt(record.content, RELATED_CHARACTERS))
    return f"[{record.id}] {record.event_time.date().isoformat()} {named}{said}"


def numbered(memories: Sequence[ListedMemory]) -> str:
    """Write memories as a numbered list for a model."""
    lines = [f"[Memory recall — {utc_now().date().isoformat()}]"]
    for number, (score, moment, text, word, later) in enumerate(memories, start=1):
        kind = f"{word}, " if word else ""
        lines.append(f"{number}. (relevance: {score:.2f}) {kind}{moment.date().isoformat()}")
        lines.append(f"{INSET}{inset(text)}")
        for statement in later:
            days = (statement.event_time - moment).days
            since = f"{days} days later" if days > 1 else "later"
            day = statement.event_time.date().isoformat()
            by = said_by_others(statement.source_class)
            label = statement.label
            name = f"{label}: " if label and not is_topic(label) else ""
            said = excerpt(f"{name}{statement.content}", LATER_CHARACTERS)
            lines.append(f"{INSET}({since}, {day}{by}) {said}")
    return "\n".join(lines)


def _cut(text: str, limit: int, question: str | None) -> str:
    if question is not None:
        text = cut_to_passage(text, question, limit * len(text) // _size(text))
        # A passage may have more bytes a character than the rest, or as many and two marks.
        if _size(text) <= limit + MARKS:
            return text
    lengths = range(min(len(text), limit + 1))
    end = bisect_right(lengths, limit, key=lambda length: _size(text[:length])) - 1
    return f"{text[:end]} …"


def _size(text: str) -> int:
    """The bytes of a text as JSON, without quotes; escapes take up to six bytes each."""
    return len(msgspec.json.encode(text)) - 2
