"""Exports and imports of a ledger: scopes, merging with existing records, pages, and dry runs."""

import json
import math
from datetime import datetime, timedelta
from typing import Any

import msgspec
import numpy as np
import pytest

from exporting import IMPORTER, SESSION, copy, fill, lines, pages, parsed
from ledgers import (
    DAY,
    EMBEDDER,
    ITEMS,
    OWNER,
    erase,
    fact,
    find,
    item,
    message,
    record,
    searching,
    to_index,
)
from local2.errors import BadRequestError, InvalidArgumentsError
from local2.ledger.erasing import Selection
from local2.ledger.ledger import Ledger
from local2.ledger.operations import exports
from local2.ledger.operations.exports import ExportCursor, ExportFilter
from local2.ledger.operations.items import ItemSelection, ItemWriter
from local2.ledger.operations.relations import MAX_RELATIONS
from local2.ledger.operations.sessions import SessionKey
from local2.ledger.records import Actor, NewRecord
from local2.ledger.search import Place
from local2.protocol.envelope import Caller, utc_now
from local2.protocol.maintenance import Conflict
from local2.protocol.portable import (
    AuditLine,
    FeedbackLine,
    NoteLine,
    OutputLine,
    RecordLine,
    RelationLine,
    Stored,
    StoredVector,
)

TOPIC = "project.language"
NOT_HIS = SessionKey(owner="eve", session_id="s1")
EDITOR = Actor(agent="shell", run="run1")
OLDER, NEWER = DAY, DAY + timedelta(days=1)


def shared(content: str, *, at: datetime, **columns: Any) -> NewRecord:
    return fact(
        content, **{"scope": "tenant", "owner": "", "topic": TOPIC, "event_time": at, **columns}
    )


def lines_of_type(found: list[Stored], type_: type[Stored]) -> list[Stored]:
    return [line for line in found if isinstance(line, type_)]


async def exported(ledger: Ledger, wanted: ExportFilter | None = None) -> list[Stored]:
    return parsed(await lines(ledger, wanted))


async def test_an_imported_ledger_exports_the_same(ledger: Ledger, other: Ledger) -> None:
    await fill(ledger)

    await copy(ledger, other)

    assert sorted(await lines(other)) == sorted(await lines(ledger))


async def test_imported_records_are_found_by_words_and_wait_for_the_index(
    ledger: Ledger, other: Ledger
) -> None:
    await fill(ledger)
    await copy(ledger, other)

    assert "Gleam" in (await find(other, searching("gleam"))).contents
    assert "Elixir" not in (await find(other, searching("elixir"))).contents, "it is history"
    waiting = {one.id for one in await to_index(other, 999)}
    assert "f2" in waiting
    assert "f0" not in waiting


async def test_vectors_are_exported_on_request(ledger: Ledger, other: Ledger) -> None:
    await fill(ledger)

    await copy(ledger, other, ExportFilter(vectors=True))

    assert [one.vector is not None for one in await to_index(other, 999) if one.id == "f2"] == [
        True
    ]
    assert not any(one.vector for one in await exported(ledger) if isinstance(one, RecordLine))


@pytest.mark.parametrize(
    ("numbers", "stored"),
    [
        pytest.param([3.0, 4.0], [0.6, 0.8], id="scaled to length 1"),
        pytest.param([3e38, 0.0], [1.0, 0.0], id="larger than 16 bits hold"),
        pytest.param([1e-30, 0.0], [1.0, 0.0], id="smaller than 16 bits hold"),
        pytest.param([math.nan, 1.0], None, id="not a number"),
        pytest.param([math.inf, 1.0], None, id="infinite"),
        pytest.param([0.0, 0.0], None, id="without a direction"),
    ],
)
async def test_an_imported_vector_can_be_compared_or_is_made_again(
    ledger: Ledger, other: Ledger, numbers: list[float], stored: list[float] | None
) -> None:
    await ledger.records.store([record("One.")])
    (line,) = [line for line in await exported(ledger) if isinstance(line, RecordLine)]
    vector = StoredVector(embedder=EMBEDDER, data=np.array(numbers, np.float32).tobytes())

    await other.imports.store([msgspec.structs.replace(line, vector=vector)], IMPORTER)

    (waiting,) = await to_index(other, 9)
    if stored is None:
        assert waiting.vector is None
    else:
        assert waiting.vector is not None
        np.testing.assert_allclose(np.frombuffer(waiting.vector, np.float32), stored, rtol=1e-3)


async def test_an_imported_vector_of_another_length_than_the_first_is_made_again(
    ledger: Ledger, other: Ledger
) -> None:
    await ledger.records.store([record("One."), record("Two.")])
    found = [line for line in await exported(ledger) if isinstance(line, RecordLine)]
    vectors = [np.ones(length, np.float32).tobytes() for length in (3, 2)]
    with_vectors = [
        msgspec.structs.replace(line, vector=StoredVector(embedder=EMBEDDER, data=data))
        for line, data in zip(found, vectors, strict=True)
    ]

    await other.imports.store(with_vectors, IMPORTER)

    kept = {one.id: one.vector is not None for one in await to_index(other, 9)}
    assert kept == {found[0].id: True, found[1].id: False}


@pytest.mark.parametrize(
    ("wanted", "kinds"),
    [
        pytest.param(
            ExportFilter(
                places=(
                    Place("session", "richard", "chat_message"),
                    Place("session", "richard", "tool_output"),
                ),
                owner="richard",
                session_id="s1",
            ),
            {"record", "place", "feedback", "note", "output"},
            id="a session",
        ),
        pytest.param(
            ExportFilter(places=(Place("tenant", "", "document_chunk"),), talks=False),
            {"record", "audit"},
            id="everybody's documents",
        ),
        pytest.param(
            ExportFilter(places=(Place("session", "ada", "chat_message"),), owner="ada"),
            set(),
            id="somebody who has nothing",
        ),
    ],
)
async def test_an_exported_scope_contains_only_its_own_records(
    ledger: Ledger, wanted: ExportFilter, kinds: set[str]
) -> None:
    await fill(ledger)
    await ledger.records.store([message("Hers.", owner="eve", session_id="s1")])

    found = await exported(ledger, wanted)

    assert {str(line.__struct_config__.tag) for line in found} - {"relation"} >= kinds
    assert "Hers." not in {line.content for line in found if isinstance(line, RecordLine)}
    places = {place.scope for place in wanted.places or ()}
    assert {line.scope for line in found if isinstance(line, RecordLine)} <= places
    assert await ledger.exports.count(wanted) == len(lines_of_type(found, RecordLine))


async def test_of_two_values_of_a_topic_the_newer_is_active_and_the_other_history(
    ledger: Ledger, other: Ledger
) -> None:
    for here, there in ((OLDER, NEWER), (NEWER, OLDER)):
        topic = f"{TOPIC}.{here.day}"
        await ledger.facts.store(shared("Theirs.", at=there, topic=topic, id=f"t{here.day}"))
        await other.facts.store(shared("Ours.", at=here, topic=topic, id=f"o{here.day}"))
        await other.facts.topic("tenant", "", topic)

    report = await copy(ledger, other)

    active = [await other.facts.topic("tenant", "", f"{TOPIC}.{day}") for day in (1, 2)]
    assert [one.content for one in active if one] == ["Theirs.", "Ours."]
    for day in (1, 2):
        history = await other.facts.history("tenant", "", f"{TOPIC}.{day}")
        assert {one.content for one in history} == {"Theirs.", "Ours."}
    assert report.conflicts == [
        Conflict(kept="t1", history="o1", topic=f"{TOPIC}.1"),
        Conflict(kept="o2", history="t2", topic=f"{TOPIC}.2"),
    ]
    again = await copy(ledger, other)
    assert (again.new, again.conflicts) == ({}, [])


async def test_of_two_versions_of_a_document_the_newer_is_active(
    ledger: Ledger, other: Ledger
) -> None:
    for target, content, at in ((ledger, "New.", NEWER), (other, "Old.", OLDER)):
        chunk = record(
            content,
            kind="document_chunk",
            scope="tenant",
            owner="",
            session_id=None,
            source_ref="a.md#1",
            event_time=at,
        )
        await target.documents.store("a.md", [chunk])

    report = await copy(ledger, other)

    assert [conflict.document for conflict in report.conflicts] == ["a.md#1"]
    place = (Place("tenant", "", "document_chunk"),)
    found = await find(other, searching("new", "old", places=place))
    assert found.contents == {"New."}


async def test_a_newer_backup_replaces_records_that_it_knows_as_replaced(
    ledger: Ledger, other: Ledger
) -> None:
    first = message("One.", id="m1", alias="m1*")
    await ledger.conversations.store([first])
    await copy(ledger, other)
    await ledger.conversations.store([message("One, edited.", id="m1", alias="m1*")])

    report = await copy(ledger, other)

    assert (report.replaced, report.new["record"], report.known["record"]) == (1, 1, 1)
    assert (await find(other, searching("one"))).contents == {"One, edited."}


async def test_an_edit_that_a_backup_made_here_can_be_undone(ledger: Ledger, other: Ledger) -> None:
    await ledger.facts.store(fact("Osmium.", id="f0"))
    await copy(ledger, other)
    (older,) = (await ledger.records.by_id(["f0"])).values()
    await ledger.facts.edit(older, fact("Iridium.", id="f1"), "Wrong.", EDITOR)
    await copy(ledger, other)
    edits = (await other.audit.page(lambda _: True, 9, run=EDITOR.run)).rows

    (undone,) = await other.audit.undo(edits, Actor(agent="cli"))

    assert undone.problem is None
    assert (await find(other, searching("osmium", "iridium"))).contents == {"Osmium."}


async def test_a_session_continues_after_the_messages_of_a_backup(
    ledger: Ledger, other: Ledger
) -> None:
    await ledger.conversations.store([message("One.", id="m1"), message("Two.", id="m2")])
    await copy(ledger, other)
    await ledger.conversations.store(
        [
            message(f"{name}.", id=id_)
            for name, id_ in (("One", "m1"), ("Half", "m3"), ("Two", "m2"))
        ]
    )

    await copy(ledger, other)

    loaded = await other.sessions.load(
        SESSION, 9, (), lambda stored: [one.content for one in stored.messages]
    )
    assert loaded == ["One.", "Half.", "Two."]


async def test_different_notes_take_the_next_positions(ledger: Ledger, other: Ledger) -> None:
    for target, content in ((ledger, "Theirs."), (other, "Ours.")):
        await target.notes.store(SESSION, "user", content, DAY, merge=lambda _: None)

    for _ in range(2):
        await copy(ledger, other)

    loaded = await other.sessions.load(SESSION, 9, (), lambda stored: stored.notes)
    assert [(note.position, note.content) for note in loaded] == [(1, "Ours."), (2, "Theirs.")]


async def test_the_time_of_a_record_is_stored_in_utc(ledger: Ledger, other: Ledger) -> None:
    await ledger.records.store([message("One.", id="m1")])
    (line,) = await exported(ledger)
    later = datetime.fromisoformat("2026-05-01T01:00:00+02:00")

    await other.imports.store([msgspec.structs.replace(line, event_time=later)], IMPORTER)

    (stored,) = await lines(other)
    assert json.loads(stored)["event_time"] == "2026-04-30T23:00:00Z"


async def test_a_time_before_our_calendar_is_refused(ledger: Ledger, other: Ledger) -> None:
    await ledger.records.store([message("One.", id="m1")])
    (line,) = await exported(ledger)
    early = datetime.fromisoformat("0001-01-01T00:00:00+23:59")

    with pytest.raises(InvalidArgumentsError, match=r"^event_time: "):
        await other.imports.store([msgspec.structs.replace(line, event_time=early)], IMPORTER)
    assert await exported(other) == []


async def test_an_imported_rating_applies_to_an_existing_answer(
    ledger: Ledger, other: Ledger
) -> None:
    await fill(ledger)
    records = [one for one in await exported(ledger) if isinstance(one, RecordLine)]
    unrated = [one for one in records if one.id != "e1"]
    await other.imports.store(unrated, IMPORTER)
    await other.turns.store([record("Q: Densest?\nA: Osmium.", id="e1", query_id="q1", turn="t1")])

    await copy(ledger, other)

    (episode, *_) = [one for one in await exported(other) if getattr(one, "id", "") == "e1"]
    assert isinstance(episode, RecordLine)
    assert episode.score == 0.5


async def test_lines_about_missing_records_are_skipped_and_counted(
    ledger: Ledger, other: Ledger
) -> None:
    await fill(ledger)
    others = [
        one
        for one in await exported(ledger)
        if isinstance(one, RelationLine | AuditLine)
        or (isinstance(one, FeedbackLine) and one.answer is not None)
    ]

    report = await other.imports.store(others, IMPORTER)

    assert (report.new, report.unplaced) == ({}, len(others))
    assert await exported(other) == []


async def test_a_dry_run_reports_what_an_import_would_do_and_writes_nothing(
    ledger: Ledger, other: Ledger
) -> None:
    await fill(ledger)
    found = await exported(ledger)

    report = await other.imports.store(found, IMPORTER, dry_run=True)

    assert report.new["record"] == len(lines_of_type(found, RecordLine))
    assert await exported(other) == []


async def test_pages_fit_the_bus_and_a_larger_line_is_sent_in_pieces(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    most = 4_000
    monkeypatch.setattr(exports, "MESSAGE_LINE_BYTES", most)
    texts = ["x" * (most // 3)] * 7 + ["ő" * 2 * most] + ["Short."] * 99
    await ledger.records.store([message(text) for text in texts])

    found = await pages(ledger, ExportFilter())

    assert all(len(page.piece) + sum(map(len, map(bytes, page.lines))) <= most for page in found)
    records = [one for one in await exported(ledger) if isinstance(one, RecordLine)]
    assert [one.content for one in records] == texts
    assert sum(page.counts.get("record", 0) for page in found) == len(texts)


@pytest.mark.parametrize(
    "cursor", ["", "{}", '["nothing",0,0]', '["relation",0,0]', '["record",["a","b","c"],0]']
)
def test_an_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(BadRequestError, match="cursor"):
        ExportCursor.of(cursor)


async def test_an_import_does_not_restore_an_erased_fact_even_if_it_was_stated(
    ledger: Ledger, other: Ledger
) -> None:
    stated = fact("Elixir", topic="user.language", source_class="asserted")
    await ledger.facts.store(stated)
    await copy(ledger, other)
    await erase(other, Selection(owner=OWNER, topic="user.language"), at=NEWER)

    report = await copy(ledger, other)

    assert report.erased == 1
    assert await other.facts.topic("user", OWNER, "user.language") is None


async def test_a_fact_merged_into_one_that_was_erased_here_stands_alone(ledger: Ledger) -> None:
    into = fact("Osmium is dense.")
    await ledger.facts.store(into)
    await erase(ledger, Selection(owner=OWNER, id=into.id), at=NEWER)
    merged = fact_line("m", superseded_by=into.id, retired_at=DAY, retired_why="merged")

    await ledger.imports.store([merged], IMPORTER)

    (found,) = (await ledger.records.by_id(["m"])).values()
    assert found.superseded_by is None


async def test_the_audit_of_erasures_and_denied_requests_is_imported(
    ledger: Ledger, other: Ledger
) -> None:
    await ledger.facts.store(fact("Elixir", topic="user.language"))
    await erase(ledger, Selection(owner=OWNER, topic="user.language"), at=NEWER)
    await ledger.audit.deny("export", Caller(tenant="default"), "A reader may not.", NEWER)

    report = await copy(ledger, other)

    assert report.unplaced == 0
    actions = {line.action for line in await exported(other) if isinstance(line, AuditLine)}
    assert actions >= {"erased", "denied"}


def notes_ratings_and_outputs(found: list[Stored]) -> list[Stored]:
    return [line for line in found if isinstance(line, FeedbackLine | NoteLine | OutputLine)]


@pytest.mark.parametrize("session_id", [None, "s1"])
async def test_an_import_restores_only_later_notes_ratings_and_outputs_after_forgetting(
    ledger: Ledger, other: Ledger, session_id: str | None
) -> None:
    await fill(ledger)
    await copy(ledger, other)
    await ledger.notes.store(NOT_HIS, "user", "Eve's.", DAY, merge=lambda _: None)
    await erase(other, Selection(owner=OWNER, session_id=session_id), at=utc_now())
    erased = len(notes_ratings_and_outputs(await exported(ledger)))
    later = utc_now() + timedelta(seconds=1)
    await ledger.notes.store(SESSION, "user", "Said since.", later, merge=lambda _: None)

    report = await copy(ledger, other)

    notes = [
        one.content
        for one in notes_ratings_and_outputs(await exported(other))
        if isinstance(one, NoteLine)
    ]
    assert notes == ["Eve's.", "Said since."]
    assert report.erased >= erased - 1
    assert len(notes_ratings_and_outputs(await exported(other))) == 2


async def test_an_import_restores_forgotten_records_once_that_is_allowed(
    ledger: Ledger, other: Ledger
) -> None:
    await fill(ledger)
    for allow_again in (False, True):
        await erase(other, Selection(owner=OWNER), at=utc_now(), allow_again=allow_again)

    report = await copy(ledger, other)

    assert report.erased == 0
    assert len(notes_ratings_and_outputs(await exported(other))) == len(
        notes_ratings_and_outputs(await exported(ledger))
    )


def storing(at: datetime) -> ItemWriter:
    return ItemWriter(at=at, agent="shell", user=OWNER, session_id="s1")


async def test_of_two_items_with_one_key_the_newer_is_kept_and_found(
    ledger: Ledger, other: Ledger
) -> None:
    for key, here, there in (("a", OLDER, NEWER), ("b", NEWER, OLDER)):
        theirs = item(key, {"of": "them"}, f"Osmium {key} of them.", session_id="s1")
        ours = item(key, {"of": "us"}, f"Osmium {key} of us.", session_id="s1")
        await ledger.items.put(ITEMS, [theirs], storing(there))
        await other.items.put(ITEMS, [ours], storing(here))

    first, again = await copy(ledger, other), await copy(ledger, other)

    found = {
        one.key: bytes(one.value)
        for one in (await other.items.within(ITEMS, ItemSelection())).items
    }
    assert found == {"a": b'{"of":"them"}', "b": b'{"of":"us"}'}
    search = searching("osmium", places=(Place("user", OWNER, "episode"),))
    assert set((await find(other, search)).contents) == {"Osmium a of them.", "Osmium b of us."}
    assert (first.new["item"], first.known["item"]) == (1, 1)
    assert (again.new.get("item"), again.known["item"]) == (None, 2)


async def test_an_import_does_not_restore_forgotten_items(ledger: Ledger, other: Ledger) -> None:
    forgotten, remaining = item("gone", 1), item("stays", 2)
    session = msgspec.structs.replace(storing(OLDER), session_id="s2")
    for each in (ledger, other):
        await each.items.put(ITEMS, [forgotten], storing(OLDER))
        await each.items.put(ITEMS, [remaining], session)
    await erase(other, Selection(owner=OWNER, session_id="s1"), at=NEWER)

    report = await copy(ledger, other)

    assert [one.key for one in await other.items.keys(ITEMS, ItemSelection())] == ["stays"]
    assert (report.erased, report.new) == (1, {})


@pytest.mark.parametrize("whole", [False, True], ids=["by key", "by namespace"])
async def test_an_import_does_not_restore_deleted_items_unless_they_were_stored_later(
    ledger: Ledger, other: Ledger, *, whole: bool
) -> None:
    gone, again = item("gone", 1, "Osmium."), item("again", 2, "Iridium.")
    await ledger.items.put(ITEMS, [gone, again], storing(OLDER))
    await copy(ledger, other)
    keys, namespaces = ([], [gone.put.namespace]) if whole else ([gone.put, again.put], [])
    await other.items.delete(ITEMS, keys, namespaces, storing(DAY))
    later, early = item("again", 3, "Rhenium.", id="r"), item("gone", 4, "Dense osmium.", id="d")
    await ledger.items.put(ITEMS, [later], storing(NEWER))
    await ledger.items.put(ITEMS, [early], storing(OLDER))

    report = await copy(ledger, other)

    assert [one.key for one in await other.items.keys(ITEMS, ItemSelection())] == ["again"]
    assert report.erased == 1
    search = searching("osmium", "rhenium", places=(Place("user", OWNER, "episode"),))
    assert (await find(other, search)).contents == {"Rhenium."}


def fact_line(id_: str = "x", **fields: Any) -> RecordLine:
    defaults: dict[str, Any] = {
        "id": id_,
        "kind": "fact",
        "content": f"{id_[:9]} is heavy.",
        "event_time": DAY,
        "source_class": "stated",
        "scope": "user",
        "owner": OWNER,
    }
    return RecordLine(**{**defaults, **fields})


def relation_line(source: str, target: str, relation: str = "supports") -> RelationLine:
    return RelationLine(source=source, relation=relation, target=target)


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        (relation_line("f0", "f1", "befriends"), "relation: expected one of"),
        (relation_line("f0", "f0"), "target: it is the same record"),
        (fact_line("x" * 10_000), "id: expected at most 256 characters, got 10,000"),
        (fact_line(owner="ri\0chard"), "owner: 'ri\\x00chard' contains the character NUL"),
        (fact_line(topic="colour"), "topic: 'colour' is not a topic key. A topic key is user."),
        (fact_line(topic="user.name", scope="tenant", owner=""), "topic: 'user.name' is a key"),
        (fact_line(content=" \n"), "content: the text is blank"),
        (fact_line(content=" \n", kind="note"), "content: the text is blank"),
        (
            NoteLine(
                owner=OWNER,
                session_id="s",
                position=1,
                role="user",
                content=" ",
                event_time=DAY.isoformat(),
            ),
            "content: the text is blank",
        ),
        (fact_line(superseded_by="x"), "superseded_by: a record cannot replace itself"),
    ],
)
async def test_what_no_caller_could_store_is_refused_by_its_line(
    ledger: Ledger, line: Stored, problem: str
) -> None:
    known = [fact_line("f0"), fact_line("f1")]
    report = await ledger.imports.store([known[0], line, known[1]], IMPORTER, number=7)

    (refused,) = report.refused
    assert (refused.line, refused.problem[: len(problem)]) == (8, problem)
    assert report.new == {"record": 2}
    assert [one.id for one in lines_of_type(await exported(ledger), RecordLine)] == ["f0", "f1"]  # type: ignore[union-attr]


@pytest.mark.parametrize(("end", "far"), [("source", "target"), ("target", "source")])
async def test_a_relation_beyond_the_maximum_of_a_record_is_refused(
    ledger: Ledger, end: str, far: str
) -> None:
    edges = [
        RelationLine(**{end: "hub", far: f"f{number}"}, relation="supports")
        for number in range(MAX_RELATIONS + 1)
    ]
    records = [fact_line("hub"), *(fact_line(f"f{number}") for number in range(len(edges)))]
    for known in ({}, {"relation": MAX_RELATIONS}):
        report = await ledger.imports.store([*records, *edges, *edges[:1]], IMPORTER)

        (refused,) = report.refused
        assert refused.line == len(records) + len(edges)
        assert refused.problem == f"{end}: the record has 100 relations already, the maximum."
        assert report.known.get("relation", 0) == known.get("relation", 0) + 1


async def test_records_that_replace_each_other_in_a_circle_are_refused(ledger: Ledger) -> None:
    retired: dict[str, Any] = {"retired_at": DAY, "retired_why": "superseded"}
    circle = [
        fact_line(id_, superseded_by=newer, **retired)
        for id_, newer in (("f0", "f1"), ("f1", "f2"), ("f2", "f0"))
    ]
    report = await ledger.imports.store([*circle, fact_line("f2")], IMPORTER)

    (refused,) = report.refused
    assert (refused.line, "in a circle" in refused.problem) == (3, True)
    chain = await ledger.records.chain("f0")
    assert {one.id for one in chain} == {"f0", "f1", "f2"}


@pytest.mark.parametrize("pages", [1, 2])
async def test_what_a_refused_record_was_to_replace_stands(ledger: Ledger, pages: int) -> None:
    retired: dict[str, Any] = {"retired_at": DAY, "retired_why": "superseded"}
    await ledger.imports.store([fact_line("f0"), fact_line("f1")], IMPORTER)
    lines_ = [
        fact_line("f0", superseded_by="blank", **retired),
        fact_line("f1", superseded_by="circling", **retired),
        fact_line("blank", content=" "),
        fact_line("circling", superseded_by="f1", **retired),
    ]
    size = len(lines_) // pages
    reports = [
        await ledger.imports.store(lines_[at : at + size], IMPORTER)
        for at in range(0, len(lines_), size)
    ]

    assert [len(report.refused) for report in reports] == [0, 1][-pages:]
    assert sum(report.replaced for report in reports) == 0
    assert (await find(ledger, searching("heavy"))).contents == {"f0 is heavy.", "f1 is heavy."}


async def test_what_a_missing_record_was_to_replace_stands_until_that_is_imported(
    ledger: Ledger,
) -> None:
    retired = fact_line("f0", superseded_by="f1", retired_at=DAY, retired_why="superseded")
    await ledger.imports.store([fact_line("f0")], IMPORTER)
    for _ in range(2):  # as in the export of one scope, or if the import is interrupted
        report = await ledger.imports.store([retired], IMPORTER)
        assert report.replaced == 0
    assert (await find(ledger, searching("heavy"))).contents == {"f0 is heavy."}

    report = await ledger.imports.store([fact_line("f1")], IMPORTER)

    assert report.replaced == 1
    assert (await find(ledger, searching("heavy"))).contents == {"f1 is heavy."}
    audit = (await ledger.audit.page(lambda _: True, 9, record_id="f0")).rows
    assert [row.action for row in audit] == ["superseded", "awaits"]


async def test_what_a_record_with_erased_words_was_to_replace_stands(ledger: Ledger) -> None:
    erased = fact_line("f1")
    await ledger.imports.store([fact_line("f0"), erased], IMPORTER)
    await erase(ledger, Selection(owner=OWNER, id="f1"))
    again = msgspec.structs.replace(erased, id="f2")
    retired = fact_line("f0", superseded_by="f2", retired_at=DAY, retired_why="superseded")

    report = await ledger.imports.store([retired, again], IMPORTER)

    assert (report.erased, report.replaced) == (1, 0)
    assert (await find(ledger, searching("heavy"))).contents == {"f0 is heavy."}


async def test_relations_of_supersession_in_a_circle_are_refused(ledger: Ledger) -> None:
    facts_ = [fact_line(f"f{number}") for number in range(3)]
    edges = [
        relation_line(source, target, "supersedes")
        for source, target in (("f0", "f1"), ("f1", "f2"), ("f2", "f0"))
    ]
    report = await ledger.imports.store([*facts_, *edges], IMPORTER)

    (refused,) = report.refused
    assert (refused.line, "in a circle" in refused.problem) == (6, True)
    assert report.new["relation"] == 2


async def test_of_two_that_supersede_each_other_the_second_relation_is_refused(
    ledger: Ledger,
) -> None:
    retired = fact_line("a", superseded_by="b", retired_at=DAY, retired_why="merged")
    edges = [relation_line("b", "a", "supersedes"), relation_line("a", "b", "supersedes")]
    report = await ledger.imports.store([retired, fact_line("b"), *edges], IMPORTER)

    (refused,) = report.refused
    assert (refused.line, "in a circle" in refused.problem) == (4, True)


async def test_what_superseded_its_own_replacement_is_imported_as_it_was(ledger: Ledger) -> None:
    retired: dict[str, Any] = {"retired_at": DAY, "retired_why": "merged"}
    merged = [fact_line(old, superseded_by=new, **retired) for old, new in ("ab", "bc")]
    edges = [relation_line("a", target, "supersedes") for target in "bc"]
    report = await ledger.imports.store([*merged, fact_line("c"), *edges], IMPORTER)

    assert report.refused == []
    assert lines_of_type(await exported(ledger), RelationLine) == edges


@pytest.mark.parametrize("replaced_first", [True, False])
async def test_what_replaces_a_record_is_not_superseded_by_it(
    ledger: Ledger, *, replaced_first: bool
) -> None:
    retired: dict[str, Any] = {"retired_at": DAY, "retired_why": "superseded"}
    replaced = fact_line("f0", superseded_by="f1", **retired)
    replacing: list[Stored] = [
        fact_line("f1"),
        fact_line("f2"),
        relation_line("f2", "f1", "supersedes"),
    ]
    contrary = relation_line("f0", "f2", "supersedes")
    if not replaced_first:  # the file that replaced it is imported later
        await ledger.imports.store([fact_line("f0"), fact_line("f2"), contrary], IMPORTER)
    report = await ledger.imports.store([replaced, *replacing, contrary], IMPORTER)

    assert ["in a circle" in refused.problem for refused in report.refused] == [True]
    (kept,) = (await ledger.records.by_id(["f0"])).values()
    assert kept.superseded_by == "f1"
