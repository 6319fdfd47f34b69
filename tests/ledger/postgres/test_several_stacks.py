"""Several stacks write one ledger: each sees what the others have committed, and misses nothing."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from itertools import count
from random import Random
from typing import Any

import pytest

from ledger.postgres.conftest import another_stack_writes
from ledgers import EMBEDDER, OWNER, erase, fact, find, index, message, record, searching
from local2.errors import StorageError
from local2.ledger.columns import Candidate
from local2.ledger.engines import Row
from local2.ledger.engines.postgres import connections
from local2.ledger.engines.postgres.connections import PostgresConnection, connect
from local2.ledger.engines.postgres.database import CONNECTIONS, Database
from local2.ledger.erasing import Selection
from local2.ledger.ledger import Ledger
from local2.ledger.operations import transactions, working_sets
from local2.ledger.operations.records import store_record
from local2.ledger.operations.sessions import SessionKey
from local2.ledger.operations.transactions import TombstoneState, Transaction, as_json
from local2.ledger.records import UNLIMITED, NewRecord, Task
from local2.ledger.search import Place
from local2.memory.backlog import Backlog
from local2.memory.changes import Changes
from local2.memory.extraction.job import Extraction
from local2.memory.extraction.rules import RulesExtractor
from local2.protocol.envelope import utc_now
from local2.protocol.tool import caller_waits_until
from waiting import eventually

STEPS = 120
STUCK = 30.0
"""Seconds after which a write waits for ever."""


@pytest.fixture
def writers(url: str) -> Iterator[list[PostgresConnection]]:
    """Connections that take no lock, so that they write at the same time."""
    with ExitStack() as opened:
        raws = [opened.enter_context(connect(url).raw) for _ in range(8)]
        for raw in raws:
            raw.execute("SELECT set_config('local2.tenant', 'default', false)")
        yield [PostgresConnection(raw) for raw in raws]


@pytest.mark.parametrize("seed", range(3))
async def test_a_reader_misses_nothing_in_whatever_order_transactions_end(
    here: Database, ledger: Ledger, writers: list[PostgresConnection], seed: int
) -> None:
    random, numbers = Random(seed), count()  # noqa: S311
    begun: dict[PostgresConnection, list[str]] = {}
    committed: set[str] = set()

    for _ in range(STEPS):
        writer = random.choice(writers)
        written = begun.get(writer)
        if written is None:
            writer.raw.execute("BEGIN")
            begun[writer] = []
        elif len(written) < random.randrange(4):
            text = f"Gold number {next(numbers)}."
            tx = Transaction(here, writer, "default", UNLIMITED, TombstoneState())
            store_record(tx, record(text))
            written.append(text)
        else:
            if random.random() < 0.8:
                writer.raw.execute("COMMIT")
                committed |= set(written)
            else:
                writer.raw.execute("ROLLBACK")
            del begun[writer]
        if random.random() < 0.5:
            assert (await find(ledger, searching("gold"))).contents == committed

    assert (await find(ledger, searching("gold"))).contents == committed
    assert len(committed) > STEPS / 8


async def test_searches_at_the_same_time_miss_nothing_that_is_committed_later(
    here: Database, writers: list[PostgresConnection], monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL's reads run in several threads, which bring one memory in RAM up to date."""
    ledger, has_read, may_go_on = Ledger(here, "default"), asyncio.Event(), threading.Event()
    loop, candidates_of = asyncio.get_running_loop(), working_sets.candidates_of

    class WatchedLock:
        def __init__(self) -> None:
            self._lock = threading.Lock()

        def __enter__(self) -> None:
            if not self._lock.acquire(blocking=False):
                may_go_on.set()
                self._lock.acquire()

        def __exit__(self, *_: object) -> None:
            self._lock.release()

    def wait_once(rows: Sequence[Row]) -> list[Candidate]:
        if not has_read.is_set():
            loop.call_soon_threadsafe(has_read.set)
            may_go_on.wait()
        return candidates_of(rows)

    monkeypatch.setattr(working_sets, "Lock", WatchedLock)
    monkeypatch.setattr(working_sets, "candidates_of", wait_once)
    writers[0].raw.execute("BEGIN")
    tx = Transaction(here, writers[0], "default", UNLIMITED, TombstoneState())
    store_record(tx, record("Gold written first."))
    await ledger.records.store([record("Gold committed first.")])

    first = asyncio.create_task(find(ledger, searching("gold")))
    await has_read.wait()
    second = asyncio.create_task(find(ledger, searching("gold")))
    second.add_done_callback(lambda _: may_go_on.set())
    for found in (await first, await second):
        assert found.contents == {"Gold committed first."}
    writers[0].raw.execute("COMMIT")

    found = await find(ledger, searching("gold"))
    assert found.contents == {"Gold written first.", "Gold committed first."}


async def test_what_one_stack_forgets_the_next_search_of_another_does_not_find(
    ledger: Ledger, theirs: Ledger
) -> None:
    for number in range(10):
        await ledger.records.store([message(f"Gold {number}.", number, session_id=f"s{number}")])
        assert (await find(theirs, searching("gold"))).contents == {f"Gold {number}."}
        await erase(ledger, Selection(owner=OWNER, session_id=f"s{number}"))
        seen = await find(theirs, searching("gold"))
        assert (seen.contents, list(seen.found.view.rows)) == (set(), [])


async def test_what_one_stack_forgets_another_does_not_store_again(
    ledger: Ledger, theirs: Ledger
) -> None:
    late = message("Osmium is the densest metal that I own.", turn="t1", query_id="q1")
    assert not (await theirs.records.store([message("Lead.")]))[0].erased
    await theirs.records.store([late])
    await erase(ledger, Selection(owner=OWNER))

    (again,) = await theirs.records.store([late])

    assert again.erased


async def test_a_fact_that_one_stack_replaces_is_the_new_one_for_another(
    ledger: Ledger, theirs: Ledger
) -> None:
    for metal in ("Gold.", "Lead.", "Gold."):
        await ledger.facts.store(fact(metal, topic="user.metal"))
        found = await theirs.facts.topic("user", OWNER, "user.metal")
        assert found is not None
        assert found.content == metal


async def test_of_a_topic_stated_by_many_stacks_at_once_one_version_is_active(
    ledger: Ledger, theirs: Ledger
) -> None:
    ledgers = [ledger, theirs]
    metals = [f"Metal {number}." for number in range(20)]

    await asyncio.gather(*(
        ledgers[number % 2].facts.store(fact(metal, number, topic="user.metal"))
        for number, metal in enumerate(metals)
    ))  # fmt: skip

    versions = await ledgers[0].facts.history("user", OWNER, "user.metal")
    assert {one.content for one in versions} == set(metals)
    assert sum(one.superseded_by is None for one in versions) == 1


async def test_notes_of_several_stacks_follow_each_other(ledger: Ledger, theirs: Ledger) -> None:
    ledgers, session = [ledger, theirs], SessionKey(OWNER, "s1")

    await asyncio.gather(*(
        ledgers[number % 2].notes.store(
            session, "user", f"Note {number}.", utc_now(), merge=lambda _: None
        )
        for number in range(20)
    ))  # fmt: skip

    last = await ledgers[0].notes.store(session, "user", "Last.", utc_now(), merge=lambda _: None)
    assert [note.position for note in last.notes] == [*range(1, 22)]


async def test_a_write_waits_only_for_writes_about_the_same_owner(
    url: str, here: Database, ledger: Ledger
) -> None:
    async with another_stack_writes(url, here):
        waiting = asyncio.create_task(ledger.facts.store(fact("Gold.", topic="user.metal")))
        await ledger.facts.store(fact("Lead.", topic="user.metal", owner="eve"))
        assert not waiting.done()

    assert (await waiting).was_new


async def test_a_write_waits_for_others_no_longer_than_its_caller(
    url: str, here: Database, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(transactions, "LEAST_PATIENCE", 0.05)
    caller_waits_until.set(utc_now())
    metals = [f"Metal {number}." for number in range(2 * CONNECTIONS)]

    async def add_at_once(new: NewRecord) -> object:
        """Begin with a statement that is prepared, and sent after what begins a transaction."""
        rows_of_owner = ledger._rows.resting_on([OWNER])
        return await rows_of_owner.write(Transaction.add_rows, {new.id: new})

    async with another_stack_writes(url, here):
        refused = await asyncio.gather(
            *(ledger.facts.store(fact(metal, topic="user.metal")) for metal in metals),
            *(add_at_once(record(metal)) for metal in metals),
            return_exceptions=True,
        )

    assert {type(error) for error in refused} == {StorageError}
    assert "Try again" in str(refused[0])
    assert await ledger.facts.history("user", OWNER, "user.metal") == []
    caller_waits_until.set(None)
    added = await asyncio.gather(*(add_at_once(record(metal)) for metal in metals))
    assert len(added) == len(metals)  # their connections serve again


async def test_a_stack_that_hangs_within_a_write_holds_up_no_other_and_does_it_again(
    ledger: Ledger, theirs: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "LONGEST_SILENCE", 0.2)
    hangs, goes_on = asyncio.Event(), threading.Event()
    loop, tries = asyncio.get_running_loop(), list[int]()

    def write(tx: Transaction) -> None:
        tx.execute("version")  # it has its locks now
        tries.append(len(tries))
        loop.call_soon_threadsafe(hangs.set)
        goes_on.wait()
        tx.add_rows({"r1": record("Gold.", id="r1")})

    writing = asyncio.create_task(ledger._rows.write(write))
    await hangs.wait()
    try:
        async with asyncio.timeout(STUCK):
            await theirs.records.store([record("Lead.", id="r2")])
    finally:
        goes_on.set()
        await writing

    assert tries == [0, 1]
    assert sorted(await theirs.records.by_id(["r1", "r2"])) == ["r1", "r2"]


async def test_mixed_writes_of_three_stacks_all_succeed(url: str) -> None:
    async with Database.open(url) as one, Database.open(url) as two, Database.open(url) as three:
        ledgers = [Ledger(database, "default") for database in (one, two, three)]

        async def write(number: int) -> None:
            ledger, random = ledgers[number % 3], Random(number)  # noqa: S311
            owner = random.choice(("eve", OWNER))
            match random.randrange(5):
                case 0:
                    topic = random.choice(("user.metal", "user.city"))
                    await ledger.facts.store(fact(f"Fact {number}.", topic=topic, owner=owner))
                case 1:
                    edited = f"Message {number}."
                    await ledger.conversations.store([message(edited, id="m1", owner=owner)])
                case 2:
                    await index(ledger, dict.fromkeys([f"Fact {n}." for n in range(number)], 10))
                case 3:
                    await erase(ledger, Selection(owner=owner, session_id="s1"))
                case _:
                    tasks = await ledger.backlog.claim({"index": 3}, now=utc_now())
                    await ledger.backlog.finish(tasks)

        await asyncio.gather(*map(write, range(200)))

        for owner in ("eve", OWNER):
            for topic in ("user.metal", "user.city"):
                versions = await ledgers[0].facts.history("user", owner, topic)
                assert sum(version.superseded_by is None for version in versions) == 1
        assert await ledgers[0].problems() == []


@asynccontextmanager
async def while_eve_writes(database: Database) -> AsyncIterator[None]:
    """A write of what is Eve's lasts as long as the context, which must not wait for it."""
    has_begun, may_end = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()

    def write_slowly(tx: Transaction) -> None:
        tx.execute("last_row").fetchone()
        loop.call_soon_threadsafe(has_begun.set)
        may_end.wait()

    rows = Ledger(database, "default").facts._rows.resting_on(["eve"])
    writing = asyncio.create_task(rows.write(write_slowly))
    await has_begun.wait()
    try:
        async with asyncio.timeout(30):
            yield
    finally:
        may_end.set()
        await writing


async def waiting_to_be_read(stack: Database, ledger: Ledger, *new: NewRecord) -> list[Task]:
    """Store messages that wait to be searched for facts; return the tasks, which `stack` claims."""
    await stack.say_alive("test", utc_now())
    for said in new:
        await ledger.conversations.store([said])
    tasks = await ledger.backlog.claim({"extract": 9}, now=utc_now())
    assert len(tasks) == len(new)
    return tasks


async def read_for_facts(ledger: Ledger, tasks: list[Task]) -> None:
    changes = Changes(Backlog(ledger.backlog), lambda *_: None)
    await Extraction(ledger, changes, RulesExtractor()).do(tasks)


async def is_read(ledger: Ledger) -> bool:
    return "extract" not in [counted.kind for counted in await ledger.backlog.counts()]


def unread(content: str, **columns: Any) -> NewRecord:
    return message(content, tasks=("extract",), **columns)


async def test_facts_of_one_owner_are_extracted_while_another_owner_writes(
    here: Database, there: Database, ledger: Ledger
) -> None:
    tasks = await waiting_to_be_read(here, ledger, unread("Hello."))

    async with while_eve_writes(there):
        ids = [task.id for task in tasks]
        await ledger.extraction.store([], tasks, sources=ids, owners=[OWNER])

    assert await is_read(ledger)


async def test_a_message_edited_before_it_is_read_waits_for_no_other_owner(
    here: Database, there: Database, ledger: Ledger
) -> None:
    tasks = await waiting_to_be_read(here, ledger, unread("Bath.", id="m1"))
    await ledger.conversations.store([unread("Bergen.", id="m1")])

    async with while_eve_writes(there):
        await read_for_facts(ledger, tasks)  # its task was withdrawn


async def test_messages_are_read_together_although_one_was_edited_meanwhile(
    here: Database, ledger: Ledger
) -> None:
    both = [unread("I live in Bath.", id="m1"), unread("I love rye bread.", id="m2")]
    tasks = await waiting_to_be_read(here, ledger, *both)
    await ledger.conversations.store([message("I live in Bergen.", id="m1")])

    await read_for_facts(ledger, tasks)

    (found,) = await ledger.upkeep.facts(Place("user", OWNER, "fact"), 0, 9)
    assert "rye bread" in found.content
    assert await is_read(ledger)


@pytest.mark.parametrize("everything", [True, False])
async def test_an_index_is_filled_again_while_a_user_writes(
    there: Database, ledger: Ledger, *, everything: bool
) -> None:
    gold, lead = record("Gold."), record("Lead.", owner="eve")
    await ledger.records.store([gold, lead])
    await index(ledger, {"Gold.": 0, "Lead.": 0})

    async with while_eve_writes(there):
        if everything:
            await ledger.index.queue_all()
        else:
            await ledger.index.queue([gold.id, lead.id])

    assert await ledger.index.indexed() == 0


async def test_extraction_that_waits_for_one_owner_holds_up_no_other(
    url: str, here: Database, ledger: Ledger
) -> None:
    said = [unread("I live in Bergen.", owner=owner) for owner in ("eve", OWNER)]
    tasks = await waiting_to_be_read(here, ledger, *said)

    async with another_stack_writes(url, here):
        extracting = asyncio.create_task(read_for_facts(ledger, tasks))
        await eventually(lambda: f"default {OWNER}" in here._lines._lines)
        async with asyncio.timeout(30):
            await ledger.facts.store(fact("Lead.", topic="user.metal", owner="eve"))
    await extracting

    for owner in ("eve", OWNER):
        assert len(await ledger.facts.history("user", owner, "user.home")) == 1
    assert await is_read(ledger)


async def rows_read(database: Database, statement: str, values: dict[str, Any]) -> float:
    """How many rows PostgreSQL reads to carry out a statement."""
    explained = f"EXPLAIN (ANALYZE, FORMAT JSON) {database.statements[statement]}"

    def of_node(node: dict[str, Any]) -> float:
        within = sum(map(of_node, node.get("Plans", ())))
        if "Relation Name" not in node:
            return within
        rows = node["Actual Rows"] + node.get("Rows Removed by Filter", 0)
        return within + float(node["Actual Loops"] * rows)

    ((plan,),) = await database.read(
        lambda c: c.execute(explained, values).fetchall(), owner="default"
    )
    return of_node(plan[0]["Plan"])


@pytest.mark.parametrize(
    "statement", ["indexed_ids", "sample_indexed", "count_vectors", "ids_with_vectors"]
)
async def test_what_compares_the_vectors_reads_each_row_a_few_times(
    here: Database, ledger: Ledger, statement: str
) -> None:
    """A database that has counted no rows yet takes a thousand for one, and would join them all."""
    half = 150
    await ledger.records.store([record(f"Gold {number}.") for number in range(half)])
    await index(ledger, {f"Gold {number}.": 0 for number in range(half)})
    await ledger.records.store([record(f"Lead {number}.") for number in range(half)])
    asked = {"tenant": "default", "embedder": EMBEDDER, "limit": 10, "offset": 0}

    assert half <= await rows_read(here, statement, asked) <= 8 * half


async def test_a_new_memory_is_counted_before_it_is_searched_in_full_for_each_record(
    here: Database, ledger: Ledger
) -> None:
    asked = 20
    rows = as_json(list(range(1, asked + 1)))
    values = {"tenant": "default", "rows": rows, "entity": "shares_entity"}
    counted = list[list[str]]()

    for number in range(3):
        texts = [f"Gold {number}, {again}." for again in range(250)]
        await ledger.records.store([record(text) for text in texts])
        await here.read(lambda c: c.execute("SELECT pg_stat_force_next_flush()", {}))
        counted.append([name for name in await here.count_grown() if name == "record"])

    assert counted == [["record"], [], ["record"]]
    assert await rows_read(here, "related", values) <= 10 * asked
