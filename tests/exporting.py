"""A ledger with an example of everything that an export contains, and copies of it."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from ledgers import DAY, ITEMS, fact, index, item, message, record
from local2.ledger.ledger import Ledger
from local2.ledger.operations.exports import ExportCursor, ExportFilter
from local2.ledger.operations.imports import Importing
from local2.ledger.operations.items import ItemWriter, NewItem
from local2.ledger.operations.relations import TripletFact
from local2.ledger.operations.sessions import SessionKey
from local2.ledger.operations.showings import Showing, ShownRecord
from local2.ledger.operations.turns import Rating
from local2.ledger.records import Actor, NewRecord
from local2.protocol.maintenance import ExportPage, ImportReport
from local2.protocol.memories import Triplet
from local2.protocol.memory_tools import Note
from local2.protocol.payloads import OutputPart
from local2.protocol.portable import Stored, stored_line

IMPORTER = Importing(user=None, agent="cli", at=DAY + timedelta(days=9))
SESSION = SessionKey(owner="richard", session_id="s1")


def named_message(content: str, name: str) -> NewRecord:
    """Return a message with a name that its sender gave it."""
    return message(content, id=name, alias=f"{name}*")


def at(minutes: int) -> datetime:
    return DAY + timedelta(minutes=minutes)


async def fill(ledger: Ledger) -> None:
    """Store facts with histories, edited and late messages, rated turns, documents, and more."""
    for number, value in enumerate(("Elixir", "Erlang", "Gleam")):
        await ledger.facts.store(
            fact(value, id=f"f{number}", topic="user.language", event_time=at(number))
        )
    whole: dict[str, Any] = {
        "label": "Said.",
        "source_ref": "their id",
        "memory_type": "preference",
        "durability": "core",
        "importance": 0.9,
        "metadata": {"nested": [1, None, 1e5, "Ő\0"]},
        "agent": "shell",
        "source_class": "stated",
        "summary": "Short.",
        "keywords": ("tea",),
        "queries": ("What does nobody own?",),
        "confidence": 0.75,
    }
    await ledger.facts.store(fact("Nobody's. 没有人的。", owner="", topic="user.Language", **whole))
    await ledger.knowledge.store(
        [
            TripletFact(triplet=triplet, record=fact(triplet.sentence(), id=triplet.object))
            for triplet in (
                Triplet(subject="Ada", predicate="knows", object="Grace"),
                Triplet(subject="Grace", predicate="knows", object="Barbara"),
            )
        ]
    )
    actor = Actor(agent="shell", user="richard")
    pinned = list((await ledger.records.by_id(["f2"])).values())
    await ledger.facts.pin(pinned, "It matters.", actor, DAY, pinned=True)
    await _converse(ledger)
    await _answer(ledger)
    chunk: dict[str, Any] = {
        "kind": "document_chunk",
        "scope": "tenant",
        "owner": "",
        "session_id": None,
    }
    for version in ("Osmium.", "Osmium is dense."):
        await ledger.documents.store(
            "metals.md", [record(version, source_ref="metals.md#1", label="Metals", **chunk)]
        )
    await index(ledger, {"Gleam": 10.0, "user.language: Gleam": 10.0, "Nobody's. 没有人的。": 20.0})
    part = OutputPart(key="tout_" + "a" * 24, offset=0, text="Teapots.")
    await ledger.outputs.store("richard", part)
    await ledger.outputs.store("richard", msgspec.structs.replace(part, offset=8, last=True))
    storing = ItemWriter(at=DAY, agent="shell", user="richard", session_id="s1")
    stored = item("lead", {"nested": [1, None, 1e5, "Ő\0"]}, "Heavy.", id="i1")
    data = msgspec.structs.replace(item("gold").put, data=bytes(range(256)))
    await ledger.items.put(ITEMS, [stored, NewItem(put=data)], storing)
    shown = (ShownRecord("f2", 0.75), ShownRecord("f1"))
    recall = Showing(
        owner="richard", agent="shell", question="Which language?", shown_at=DAY, records=shown
    )
    await ledger.showings.add([recall])
    for number in range(3):
        merge = _merged if number == 2 else _discard
        await ledger.notes.store(SESSION, "user", f"Note {number}.", DAY, merge=merge)


def _discard(_: Sequence[Note]) -> None:
    return None


def _merged(notes: Sequence[Note]) -> Note:
    return Note(position=notes[-1].position, role="user", content="All.", event_time=DAY, merges=2)


async def _converse(ledger: Ledger) -> None:
    """Store an edited message, one that arrives late between others, and one before all of them."""
    first, second = named_message("One.", "m1"), named_message("Two.", "m2")
    await ledger.conversations.store([first, second])
    edited = msgspec.structs.replace(second, content="Two, edited.")
    late, early = named_message("One and a half.", "m1.5"), named_message("Zero.", "m0")
    await ledger.conversations.store([early, first, late, edited])
    key = {"tool_output_key": "tout_" + "a" * 24}
    await ledger.unreported.store(
        message("Preview.", kind="tool_output", role="tool", pending=True, metadata=key)
    )
    await ledger.records.store([message("Instructions.", kind="transcript", role="system")])
    future = datetime(9999, 1, 1, tzinfo=UTC)
    await ledger.records.store([message("Ahead.", kind="transcript", event_time=future)])


async def _answer(ledger: Ledger) -> None:
    """Store two answers to a question, a rating of each, a note, and a rating that waits."""
    for number, answer in enumerate(("Lead.", "Osmium.")):
        about = {"query_id": "q1", "turn": "t1"}
        await ledger.turns.store(
            [
                record(f"Q: Densest?\nA: {answer}", number, id=f"e{number}", **about),
                message("Densest?", id="t1", event_time=at(number), **about),
                message(answer, id=f"a{number}", role="assistant", event_time=at(number), **about),
            ],
            derived_from=["f2"],
            shown=["f2", "f1"],
        )
        await _rate(ledger, "q1", number)
    await _rate(ledger, "q9", 0)
    note = record("Iridium is denser.", kind="note", scope="user", id="n1", query_id="q5")
    await ledger.turns.store([note])
    await _rate(ledger, "q5", 0)


async def _rate(ledger: Ledger, query_id: str, number: int) -> None:
    rating = Rating(
        owner="richard",
        query_id=query_id,
        session_id="s1",
        score=number - 0.5,
        comment="Hm.",
        event_time=at(number) + timedelta(seconds=1),
    )
    await ledger.turns.rate(rating)


async def pages(ledger: Ledger, wanted: ExportFilter) -> list[ExportPage]:
    """Return all pages of an export."""
    found: list[ExportPage] = []
    cursor: str | None = None
    while not found or cursor is not None:
        found.append(await ledger.exports.page(wanted, ExportCursor.of(cursor)))
        cursor = found[-1].cursor
    return found


async def lines(ledger: Ledger, wanted: ExportFilter | None = None) -> list[bytes]:
    """Return the lines of an export, with their pieces joined."""
    text = b""
    for page in await pages(ledger, wanted or ExportFilter()):
        text += b"".join(bytes(line) + b"\n" for line in page.lines)
        text += page.piece if page.cut or not page.piece else page.piece + b"\n"
    return text.splitlines()


def parsed(found: Sequence[bytes]) -> list[Stored]:
    return [stored_line(line, number) for number, line in enumerate(found, 1)]


async def copy(
    source: Ledger, target: Ledger, wanted: ExportFilter | None = None, *, at_once: int = 3
) -> ImportReport:
    """Import an export, this many lines at a time; return the combined report."""
    found = parsed(await lines(source, wanted))
    total = ImportReport(new={}, known={}, conflicts=[], refused=[])
    for start in range(0, len(found), at_once):
        report = await target.imports.store(found[start : start + at_once], IMPORTER)
        for ours, theirs in ((total.new, report.new), (total.known, report.known)):
            for kind, count in theirs.items():
                ours[kind] = ours.get(kind, 0) + count
        total.replaced += report.replaced
        total.unplaced += report.unplaced
        total.erased += report.erased
        total.conflicts += report.conflicts
        total.refused += report.refused
    return total
