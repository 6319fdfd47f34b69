"""Hindsight's facts: the archive of `export-bank`, or what `memories/list` returns.

Observations are left out, because Hindsight made them of the facts. So are the texts that the facts
were extracted from: documents are for everybody, and these are often somebody's conversations.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from local2.protocol.conversation import is_blank
from local2.protocol.lenient.values import moment_of
from local2.protocol.memories import MemoryType
from local2.protocol.payloads import Json
from local2.sources.items import Fact, LeftOuts
from local2.sources.objects import FoundObject, converted

TYPES: dict[str, MemoryType] = {"world": "fact", "experience": "event", "opinion": "fact"}
KEPT = ("context", "tags", "entities", "metadata", "document_id")
"""Fields that are stored beside the text."""


class Unit(msgspec.Struct, frozen=True):
    """A fact, as the archive and the list have it."""

    text: str
    fact_type: str
    id: str | None = None
    source_id: str | None = None
    state: str | None = None
    context: str | None = None
    tags: list[Any] | None = None
    entities: Any = None
    metadata: Json | None = None
    document_id: str | None = None
    mentioned_at: Any = None
    event_date: Any = None
    date: Any = None
    occurred_start: Any = None
    created_at: Any = None


TIMES = ("mentioned_at", "event_date", "date", "occurred_start", "created_at")


class SourceDocument(msgspec.Struct, frozen=True):
    """A document of the archive, with the facts that were extracted from it."""

    id: str
    facts: list[Json]
    original_text: str | None = None


def items(objects: Iterable[FoundObject], left_out: LeftOuts) -> Iterator[Fact]:
    """Read the facts of an export."""
    for found in objects:
        if "source_bank_id" in found.value:  # the manifest
            continue
        if "facts" not in found.value:
            yield from _facts(found, None, left_out)
            continue
        document = converted(found, SourceDocument, left_out)
        if document is None:
            continue
        if document.original_text:
            left_out.add(f"document {document.id}", "texts that facts were extracted from")
        for number, fact in enumerate(document.facts):
            named = FoundObject(f"document {document.id}: fact {number}", fact)
            yield from _facts(named, f"{document.id}/{number}", left_out)


def _facts(found: FoundObject, place: str | None, left_out: LeftOuts) -> Iterator[Fact]:
    """Yield the fact that an object is, if it is one; `place` is its id if it has none."""
    unit = converted(found, Unit, left_out)
    if unit is None:
        return
    id_ = unit.id or unit.source_id or place
    at = next((at for field in TIMES if (at := moment_of(getattr(unit, field)))), None)
    if unit.fact_type == "observation":
        left_out.add(found.name, "observations, which Hindsight made of the facts")
    elif unit.state == "invalidated":
        left_out.add(found.name, "facts that were retired there")
    elif is_blank(unit.text):
        left_out.add(found.name, "facts without text")
    elif id_ is None or at is None:
        left_out.add(found.name, "facts without an id or a time")
    else:
        yield Fact(
            id=f"hindsight-{id_}",
            content=unit.text,
            event_time=at,
            memory_type=TYPES.get(unit.fact_type, "fact"),
            metadata={field: value for field in KEPT if (value := getattr(unit, field))},
        )
