"""The cached facts are never older than the ledger."""

import asyncio
import threading

import pytest

from ledgers import DAY, OWNER, fact
from local2.errors import StorageError
from local2.ledger.engines.sqlite.connections import SqlConnection
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.operations.facts import LARGEST_HELD, RecentTopics
from local2.ledger.operations.working_sets import Budget
from local2.ledger.records import NewRecord, Record
from local2.protocol.envelope import new_id
from local2.protocol.memories import OwnerScope
from waiting import eventually

TOPIC = "user.language_preference"


@pytest.fixture
def ledger(database: Database) -> Ledger:
    return Ledger(database, "default")


def language(content: str) -> NewRecord:
    return fact(content, topic=TOPIC)


async def recalled(ledger: Ledger) -> str | None:
    record = await ledger.facts.topic("user", OWNER, TOPIC)
    return record.content if record else None


async def read_without_reader(ledger: Ledger, database: Database) -> Record | None:
    """Read the fact while the database answers nobody."""
    begun, may_end = threading.Event(), threading.Event()

    def hold(_: SqlConnection) -> None:
        begun.set()
        may_end.wait(30)

    holding = asyncio.create_task(database.read(hold))
    await eventually(begun.is_set)
    try:
        async with asyncio.timeout(2):
            return await ledger.facts.topic("user", OWNER, TOPIC)
    finally:
        may_end.set()
        await holding


async def test_a_recently_recalled_fact_is_recalled_without_the_database(
    ledger: Ledger, database: Database
) -> None:
    await ledger.facts.store(language("Elixir"))
    assert await recalled(ledger) == "Elixir"

    record = await read_without_reader(ledger, database)

    assert record is not None
    assert record.content == "Elixir"


async def test_a_new_value_replaces_the_cached_one_immediately(ledger: Ledger) -> None:
    for value in ("Elixir", "Python", "Elixir"):
        await ledger.facts.store(language(value))
        assert await recalled(ledger) == value
        assert await recalled(ledger) == value


async def test_a_read_that_began_before_a_write_does_not_cache_the_old_value(
    ledger: Ledger, database: Database
) -> None:
    """The reader has read the old row when the writer commits the new one."""
    await ledger.facts.store(language("Elixir"))
    has_read, may_answer = threading.Event(), threading.Event()
    read = database.read

    async def read_slowly(work: object, **_: object) -> object:
        def slow(connection: SqlConnection) -> object:
            row = work(connection)  # type: ignore[operator]
            has_read.set()
            may_answer.wait(30)
            return row

        return await read(slow)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(database, "read", read_slowly)
        slow_recall = asyncio.create_task(recalled(ledger))
        try:
            await eventually(has_read.is_set)
            await ledger.facts.store(language("Python"))
        finally:
            may_answer.set()
        assert await slow_recall == "Elixir", "it was so when the read began"

    assert await recalled(ledger) == "Python"


async def test_a_refused_write_leaves_the_value_of_the_ledger(
    ledger: Ledger, database: Database
) -> None:
    await ledger.facts.store(language("Elixir"))
    assert await recalled(ledger) == "Elixir"
    await database.write(
        lambda c: c.execute(
            "CREATE TEMP TRIGGER full BEFORE UPDATE ON main.record "
            "BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    )

    with pytest.raises(StorageError, match="full"):
        await ledger.facts.store(language("Python"))

    assert await recalled(ledger) == "Elixir"


async def test_a_fact_too_large_for_the_cache_is_recalled_from_the_ledger(
    ledger: Ledger, database: Database
) -> None:
    await ledger.facts.store(language("x" * (LARGEST_HELD + 1)))
    assert await recalled(ledger) == "x" * (LARGEST_HELD + 1)
    await database.write(lambda c: c.execute("UPDATE record SET content = 'changed'"))
    assert await recalled(ledger) == "changed", "the ledger was asked again"

    await ledger.facts.store(language("x" * LARGEST_HELD))
    assert await recalled(ledger) == "x" * LARGEST_HELD
    await database.write(lambda c: c.execute("UPDATE record SET content = 'changed again'"))
    assert await recalled(ledger) == "x" * LARGEST_HELD, "the largest that is kept"


def record(topic: str, *, scope: OwnerScope = "user", owner: str = OWNER) -> Record:
    return Record(
        id=new_id(),
        kind="fact",
        scope=scope,
        owner=owner,
        topic=topic,
        content="x",
        event_time=DAY,
    )


def test_evicting_a_fact_leaves_other_facts_and_those_of_other_owners() -> None:
    topics = RecentTopics(Budget(3))
    topics.keep(record("user.a"))
    topics.keep(record("user.b"))

    topics.forget(record("user.a"))
    topics.forget(record("user.b", owner="eve"))
    topics.forget(record("user.b", scope="agent"))

    assert topics.get(("user", OWNER, "user.a")) is None
    assert topics.get(("user", OWNER, "user.b")) is not None
