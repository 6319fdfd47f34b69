"""A ledger of the first release opens, keeps everything, and is searched like a new one."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from local2.bus.connection import Connection
from local2.bus.vector_client import VectorClient
from local2.ledger.door import Ledger
from local2.ledger.records import Counts, TaskKind
from local2.ledger.sqlite.database import Database, SqlConnection
from local2.ledger.sqlite.sql import migrations
from local2.memory.intake.conversations import Turn
from local2.memory.recall.recaller import RecallRequest
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.envelope import Caller, utc_now
from local2.protocol.payloads import MemoryChange, ToolCallRecord
from local2.settings import MemorySettings
from recalling import recall

ROWS = [
    # id, kind, owner, topic, content, metadata, agent, session, query, superseded by, index state
    ("f1", "fact", "richard", "user.metal", "Gold", "{}", "shell", "s1", None, "f2", 3),
    ("f2", "fact", "richard", "user.metal", "Osmium", "{}", "shell", "s1", None, None, 1),
    ("f3", "fact", "", "project.deadline", "Friday", "{}", "shell", "s1", None, None, 1),
    ("f4", "fact", "", "user.metal", "Iridium", "{}", None, None, None, None, 0),
    (
        "e1",
        "episode",
        "richard",
        None,
        "Q: Dense?\nA: Osmium.",
        '{"tool_calls": 1}',
        "g",
        "s1",
        "q1",
        None,
        1,
    ),
    ("e2", "episode", "eve", None, "Eve sells osmium.", "{}", "g", "s1", "q2", None, 0),
]
SCHEMA = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"


async def contents_of(database: Database, statement: str) -> list[tuple[Any, ...]]:
    def read(connection: SqlConnection) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in connection.execute(statement)]

    return await database.read(read)


def _fill(connection: SqlConnection) -> int:
    for row in ROWS:
        connection.execute(
            "INSERT INTO record (tenant, id, kind, owner, topic, content, metadata, agent,"
            " session_id, query_id, superseded_by, index_state, event_time)"
            " VALUES ('default', ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, '2026-05-02T14:23:01.000+00:00')",
            row,
        )
    connection.execute("INSERT INTO vector SELECT row, 'none', x'0000803f' FROM record")
    connection.execute("INSERT INTO feedback VALUES ('default', 'q1', 0.5, 'Good.', '2026')")
    return connection.execute(
        "INSERT INTO audit (tenant, action, record_id, event_time)"
        " VALUES ('default', 'superseded', 'f1', '2026-05-03T09:00:00.000+00:00')"
    ).rowcount


@pytest.fixture
async def old(tmp_path: Path) -> Path:
    """A ledger as the first release left it."""
    file = tmp_path / "old.sqlite3"
    async with Database.open(file, migrations()[:1]) as database:
        await database.write(_fill)
    return file


@pytest.fixture
async def migrated(old: Path) -> AsyncIterator[Database]:
    async with Database.open(old, migrations()) as database:
        yield database


@pytest.fixture
async def memory(bus: Connection, migrated: Database) -> Memory:
    """A memory over the migrated ledger, without vector worker and indexer."""

    def announce(subject: str, change: MemoryChange) -> None:
        del subject, change

    return Memory(
        Ledger(migrated, "default"),
        VectorClient(bus, search_timeout=1),
        MemorySettings(),
        announce=announce,
    )


@pytest.fixture
def richard(memory: Memory) -> MemoryService:
    return memory.of(Caller(tenant="default", user="richard", agent="shell", session_id="s2"))


ALL_RECORDS = (
    "SELECT id, kind, owner, topic, content, metadata, agent, session_id, query_id,"
    " superseded_by, index_state FROM record ORDER BY row"
)


async def test_migration_keeps_every_record(migrated: Database) -> None:
    assert await contents_of(migrated, ALL_RECORDS) == ROWS
    vectors = await contents_of(migrated, "SELECT embedder, data FROM vector")
    assert vectors == [("none", b"\x00\x00\x80?")] * len(ROWS)
    assert await contents_of(migrated, "SELECT query_id, score FROM feedback") == [("q1", 0.5)]
    assert await contents_of(migrated, "SELECT record_id FROM audit") == [("f1",)]


async def test_records_dated_in_the_future_count_as_stored_by_the_migration(
    tmp_path: Path,
) -> None:
    file, began = tmp_path / "old.sqlite3", utc_now()
    before = [migration for migration in migrations() if migration.name < "0018"]
    insert = (
        "INSERT INTO record (tenant, id, kind, owner, content, event_time)"
        " VALUES ('default', ?, 'note', '', '', ?)"
    )
    async with Database.open(file, before) as database:
        times = [(year, f"{year}-05-02T14:23:01.000+00:00") for year in ("2025", "9999")]
        await database.write(lambda c: c.executemany(insert, times).rowcount)

    async with Database.open(file, migrations()) as database:
        (past, future) = await Ledger(database, "default").records.at([1, 2])

    assert (past.stored_at, past.newness) == (None, past.event_time)
    assert began - timedelta(seconds=1) < future.newness <= utc_now()
    assert future.event_time.year == 9999


async def test_topics_survive_the_migration(memory: Memory, richard: MemoryService) -> None:
    assert await richard.recall_topic("user.metal") == "Osmium"
    assert await richard.recall_topic("project.deadline") == "Friday"
    assert await memory.of(Caller(tenant="default")).recall_topic("user.metal") == "Iridium"
    assert await memory.of(Caller(tenant="default", user="eve")).recall_topic("user.metal") is None
    assert [record.content for record in await richard.facts.history("user.metal")] == [
        "Osmium",
        "Gold",
    ]


async def test_a_new_value_replaces_the_one_of_the_first_release(richard: MemoryService) -> None:
    written = await richard.facts.store_topic("user.metal", "Tungsten")

    assert written.superseded == "f2"
    assert [r.content for r in await richard.facts.history("user.metal")] == [
        "Tungsten",
        "Osmium",
        "Gold",
    ]


async def test_old_facts_are_recalled_by_words_and_replaced_ones_are_not(
    memory: Memory, richard: MemoryService
) -> None:
    assert await recall(richard, "metal: gold, osmium or iridium?") == ["Osmium"]
    assert await recall(richard, "deadline", scope="tenant") == ["Friday"]
    assert await recall(memory.of(Caller(tenant="default", user="eve")), "metal osmium") == []


async def test_old_episodes_are_searched_with_their_ratings_by_their_owner(
    memory: Memory, richard: MemoryService
) -> None:
    (hit,) = (await richard.search_episodic("osmium")).hits

    assert hit.content == "Q: Dense?\nA: Osmium."
    assert (hit.metadata["score"], hit.metadata["tool_calls"]) == (0.5, 1)
    (eves,) = (await memory.of(Caller(tenant="default", user="eve")).search_episodic("osmium")).hits
    assert eves.content == "Eve sells osmium."


async def test_records_waiting_for_the_index_still_wait(memory: Memory) -> None:
    counts = await memory.ledger.counts()

    assert (counts.records, counts.waiting, counts.indexed) == (6, 2, 3)


async def test_features_are_computed_in_the_background_without_changing_results(
    memory: Memory, migrated: Database, richard: MemoryService
) -> None:
    ask = RecallRequest(query="metal: gold, osmium or iridium?", top_k=20)
    before = await richard.recall(ask)
    await memory.ledger.backfill()
    read = await contents_of(
        migrated,
        "SELECT id, stems, length FROM feature JOIN record ON record.row = record ORDER BY id",
    )
    memory.ledger.searches._working_sets._sets.clear()

    assert [id_ for id_, *_ in read] == sorted(row[0] for row in ROWS)
    assert read[1] == ("e2", " ev=1 sell=1 osmium=1 2=1 mai=1 2026=1 |  ", 17)
    assert await richard.recall(ask) == before

    await migrated.write(lambda c: c.execute("UPDATE feature SET stems = ' | '").rowcount)
    await memory.ledger.backfill()
    assert await contents_of(migrated, "SELECT DISTINCT stems FROM feature") == [(" | ",)]


async def test_a_migrated_schema_equals_that_of_a_new_ledger(
    migrated: Database, tmp_path: Path
) -> None:
    async with Database.open(tmp_path / "new.sqlite3", migrations()) as new:
        assert await contents_of(migrated, SCHEMA) == await contents_of(new, SCHEMA)
        version = await contents_of(new, "PRAGMA user_version")
        assert (
            await contents_of(migrated, "PRAGMA user_version") == version == [(len(migrations()),)]
        )


async def test_full_text_and_records_agree_after_the_migration(migrated: Database) -> None:
    check = "INSERT INTO record_text (record_text, rank) VALUES ('integrity-check', 1)"

    await migrated.write(lambda c: c.execute(check).rowcount)


async def test_full_text_and_records_agree_after_every_kind_of_change(
    migrated: Database, richard: MemoryService
) -> None:
    await richard.write_topic("user.metal", "Tungsten")
    await richard.write_topic("project.deadline", "Monday")
    await migrated.write(lambda c: c.execute("DELETE FROM record WHERE id = 'e2'").rowcount)
    await migrated.write(
        lambda c: c.execute("UPDATE record SET content = 'x', label = 'y'").rowcount
    )
    check = "INSERT INTO record_text (record_text, rank) VALUES ('integrity-check', 1)"

    await migrated.write(lambda c: c.execute(check).rowcount)


async def test_a_reopened_database_is_not_migrated_again(old: Path) -> None:
    for _ in range(2):
        async with Database.open(old, migrations()) as database:
            assert await contents_of(database, "PRAGMA user_version") == [(len(migrations()),)]
            assert len(await contents_of(database, "SELECT id FROM record")) == len(ROWS)


WAITING = [
    # id, kind, superseded by, index state (waits, in, waits for removal, out), unjudged
    ("waits", "fact", None, 0, 1),
    ("in", "fact", None, 1, 0),
    ("judging", "fact", None, 1, 1),
    ("leaving", "fact", "in", 2, 0),
    ("gone", "fact", "in", 3, 0),
    ("unsearched", "transcript", None, 3, 0),
]


def _add_pending_work(connection: SqlConnection) -> int:
    return connection.executemany(
        "INSERT INTO record (tenant, id, kind, content, superseded_by, index_state, unjudged,"
        " scope, owner, event_time) VALUES ('default', ?1, ?2, ?1, ?3, ?4, ?5, 'user', 'richard',"
        " '2026-05-02T14:23:01.000+00:00')",
        WAITING,
    ).rowcount


async def test_pending_work_of_an_older_ledger_becomes_tasks(tmp_path: Path) -> None:
    file = tmp_path / "waiting.sqlite3"
    before = [migration for migration in migrations() if migration.name < "0011"]
    async with Database.open(file, before) as database:
        await database.write(_add_pending_work)

    async with Database.open(file, migrations()) as database:
        ledger = Ledger(database, "default")
        kinds: tuple[TaskKind, ...] = ("index", "unindex", "judge")
        tasks = {
            kind: [task.id for task in await ledger.backlog.claim({kind: 9}, now=utc_now())]
            for kind in kinds
        }
        counts = await ledger.counts()
        missing, unknown = await ledger.index.compare_ids({"in", "leaving"})

    assert tasks == {"index": ["waits"], "unindex": ["leaving"], "judge": ["waits", "judging"]}
    assert counts == Counts(records=6, indexed=2, waiting=1)
    assert (missing, unknown) == (["judging"], ["leaving"])


TURN_RECORDS = [
    # id, kind, content, role, label, source_ref
    ("e1", "episode", "Q: Dense?\nA: Osmium.", None, None, None),
    ("m1", "chat_message", "Dense?", "user", None, "q1:user"),
    ("t1", "tool_output", "22.59", "tool", "weigh", "c1"),
    ("m2", "chat_message", "Osmium.", "assistant", None, "q1:agent"),
    ("e2", "episode", "Q: Light?\nA: Lithium.", None, None, None),
]
"""Two turns with one query id, of which the second took messages of the first."""
KNOWN_TURN = Turn(
    query="Dense?",
    answer="Osmium.",
    at=datetime(2026, 5, 2, 14, 23, 1, tzinfo=UTC),
    tool_calls=[ToolCallRecord(id="c1", name="weigh", content="22.59")],
    session_id="s1",
    query_id="q1",
)


def _remember_turns(connection: SqlConnection) -> int:
    for row in TURN_RECORDS:
        connection.execute(
            "INSERT INTO record (tenant, id, kind, content, role, label, source_ref, owner,"
            " session_id, query_id, event_time) VALUES ('default', ?, ?, ?, ?, ?, ?, 'richard',"
            " 's1', 'q1', '2026-05-02T14:23:01.000+00:00')",
            row,
        )
    return connection.execute(
        "INSERT INTO feedback VALUES"
        " ('default', 'richard', 'q1', 0.5, 'Good.', '2026-05-03T00:00:00.000+00:00')"
    ).rowcount


@pytest.fixture
async def with_turns(tmp_path: Path) -> Path:
    """A ledger written before turns had names, with turns in it."""
    file = tmp_path / "turns.sqlite3"
    before = [migration for migration in migrations() if migration.name < "0007"]
    async with Database.open(file, before) as database:
        await database.write(_remember_turns)
    return file


async def test_turns_of_older_ledgers_are_recognised_and_can_be_revised(
    bus: Connection, with_turns: Path
) -> None:
    def announce(subject: str, change: MemoryChange) -> None:
        del subject, change

    async with Database.open(with_turns, migrations()) as database:
        vectors = VectorClient(bus, search_timeout=1)
        memory = Memory(Ledger(database, "default"), vectors, MemorySettings(), announce=announce)
        richard = memory.of(
            Caller(tenant="default", user="richard", agent="shell", session_id="s1")
        )
        turns = await contents_of(database, "SELECT id, turn, score FROM record ORDER BY row")
        rated = await contents_of(database, "SELECT answer, score FROM feedback")
        await richard.intake.store_turn(KNOWN_TURN)
        again = await contents_of(database, "SELECT id, turn, score FROM record ORDER BY row")
        later = KNOWN_TURN.at + timedelta(minutes=1)
        await richard.intake.store_turn(replace(KNOWN_TURN, answer="Iridium.", at=later))
        loaded = await richard.sessions.load("s1", 100)

    of_turns = [("e1", "m1"), ("m1", "m1"), ("t1", "m1"), ("m2", "m1"), ("e2", None)]
    assert turns == again == [(*one, 0.5) for one in of_turns]
    assert rated == [("e2", 0.5)]
    assert [message.content for message in loaded.messages] == ["Dense?", "", "22.59", "Iridium."]


STATED = [
    # id, kind, scope, owner, role, turn, metadata, superseded by
    ("question", "chat_message", "session", "ada", "user", "question", "{}", None),
    ("answer", "chat_message", "session", "ada", "assistant", "question", "{}", None),
    ("result", "tool_output", "session", "ada", "tool", "question", "{}", None),
    ("episode", "episode", "session", "ada", None, "question", '{"recalled":true}', None),
    ("note", "episode", "session", "ada", None, None, "{}", None),
    ("chunk", "document_chunk", "tenant", "", None, None, "{}", None),
    ("own", "fact", "user", "ada", None, None, "{}", "newer"),
    ("newer", "fact", "user", "ada", None, None, "{}", None),
    ("shared", "fact", "tenant", "", None, None, '{"stated_by":"ada","kept":1}', None),
    ("of old", "fact", "agent", "shell", None, None, "{}", None),
]
"""Records of a ledger written before records named who stated them."""


def _state(connection: SqlConnection) -> int:
    connection.execute(
        "INSERT INTO audit (tenant, action, record_id, event_time)"
        " VALUES ('default', 'superseded', 'own', '2026-05-04T00:00:00.000+00:00')"
    )
    return connection.executemany(
        "INSERT INTO record (tenant, id, kind, scope, owner, role, turn, metadata, superseded_by,"
        " content, event_time)"
        " VALUES ('default', ?, ?, ?, ?, ?, ?, ?, ?, 'Text.', '2026-05-02T14:23:01.000+00:00')",
        STATED,
    ).rowcount


async def test_records_of_older_ledgers_get_their_author_and_time_of_replacement(
    tmp_path: Path,
) -> None:
    file = tmp_path / "stated.sqlite3"
    before = [migration for migration in migrations() if migration.name < "0012"]
    async with Database.open(file, before) as database:
        await database.write(_state)

    async with Database.open(file, migrations()) as database:
        stated = await contents_of(
            database, "SELECT id, source_class, stated_by FROM record ORDER BY row"
        )
        retired = await contents_of(
            database, "SELECT id, retired_at, retired_why FROM record WHERE retired_why IS NOT NULL"
        )
        metadata = await contents_of(database, "SELECT metadata FROM record WHERE id = 'shared'")

    assert stated == [
        ("question", "stated", "ada"),
        ("answer", "answered", "ada"),
        ("result", "observed", "ada"),
        ("episode", "answered", "ada"),
        ("note", "asserted", "ada"),
        ("chunk", "document", None),
        ("own", "asserted", "ada"),
        ("newer", "asserted", "ada"),
        ("shared", "asserted", "ada"),
        ("of old", "asserted", None),
    ]
    assert retired == [("own", "2026-05-04T00:00:00.000+00:00", "superseded")]
    assert metadata == [('{"kept":1}',)]
