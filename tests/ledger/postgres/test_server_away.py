"""While the server is away, work waits for it, and nothing is lost or done twice."""

import asyncio
import gc
import threading
from typing import Any

import psycopg
import pytest
from structlog.testing import capture_logs

from ledgers import find, record, searching
from local2.background import Backoff
from local2.errors import StorageError
from local2.ledger.engines.postgres import database as databases
from local2.ledger.engines.postgres.connections import PostgresConnection, connect
from local2.ledger.engines.postgres.database import Database
from local2.ledger.engines.postgres.dialect import STATEMENTS
from local2.ledger.ledger import Ledger
from local2.ledger.operations.transactions import Transaction
from postgres_server import PostgresServer

DISCONNECT = b"""SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid()"""
PAUSE = 20.0
"""Seconds between two attempts, which nobody waits for."""
LOST = psycopg.OperationalError("server closed the connection unexpectedly")
LOST_BEHIND_POOL = psycopg.errors.ProtocolViolation("server login has been failing")
"""What pgbouncer says of a server that is gone."""


async def names(ledger: Ledger) -> list[str]:
    return sorted(await ledger.records.by_id([f"r{number}" for number in range(99)]))


async def test_work_goes_on_over_other_connections(ledger: Ledger, url: str) -> None:
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(DISCONNECT)
        await ledger.records.store([record("Gold.", id="r1")])
        other.execute(DISCONNECT)

        assert await names(ledger) == ["r1"]


async def test_connections_that_died_together_cost_one_pause(
    here: Database, ledger: Ledger, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert here._idle.qsize() > 1
    pauses, next_pause = list[float](), Backoff.next_pause

    def count_pause(backoff: Backoff) -> float:
        pauses.append(next_pause(backoff))
        return pauses[-1]

    monkeypatch.setattr(Backoff, "next_pause", count_pause)
    with psycopg.connect(url, autocommit=True) as other:
        other.execute(DISCONNECT)

    assert await names(ledger) == []

    assert len(pauses) == 1


async def test_what_is_held_is_read_again_though_a_crashed_server_counts_the_same_again(
    here: Database, ledger: Ledger, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    number = "pg_current_snapshot()::text AS number"
    assert number in STATEMENTS["version"]
    same = STATEMENTS["version"].replace(number, "'again' AS number")
    monkeypatch.setattr(here, "statements", {**STATEMENTS, "version": same}, raising=False)
    await ledger.records.store([record("Gold is heavy.")])
    assert (await find(ledger, searching("gold"))).contents == {"Gold is heavy."}
    await ledger.records.store([record("Gold is dear.")])

    with psycopg.connect(url, autocommit=True) as other:
        other.execute(DISCONNECT)

    found = await find(ledger, searching("gold"))
    assert found.contents == {"Gold is heavy.", "Gold is dear."}


@pytest.mark.parametrize("loss", [LOST, LOST_BEHIND_POOL], ids=["directly", "behind pgbouncer"])
@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_commit_without_an_answer_is_looked_up(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch, is_committed: bool, loss: psycopg.Error
) -> None:
    execute, lost = psycopg.Connection.execute, list[str]()

    def execute_or_lose(connection: Any, statement: Any, *values: Any) -> Any:
        if statement == "COMMIT" and not lost:
            lost.append(statement)
            if is_committed:
                execute(connection, statement)
            connection.close()
            raise loss
        return execute(connection, statement, *values)

    monkeypatch.setattr(psycopg.Connection, "execute", execute_or_lose)
    tries = list[int]()

    def work(tx: Transaction) -> None:
        tries.append(len(tries))
        tx.add_rows({"r1": record("Gold.", id="r1")})

    await ledger._rows.write(work)

    assert lost == ["COMMIT"]
    assert tries == ([0] if is_committed else [0, 1])
    assert await names(ledger) == ["r1"]


async def test_what_was_acknowledged_survives_the_servers_death(
    ledger: Ledger, postgres_databases: PostgresServer
) -> None:
    stored = list[str]()

    async def store(number: int) -> None:
        await ledger.records.store([record(f"Gold {number}.", id=f"r{number}")])
        stored.append(f"r{number}")

    await asyncio.gather(*map(store, range(9)))
    late = [asyncio.create_task(store(number)) for number in range(10, 40)]
    await asyncio.sleep(0)
    postgres_databases.kill()
    waiting = asyncio.create_task(store(99))
    await asyncio.to_thread(postgres_databases.start)
    await asyncio.gather(*late)

    await waiting
    assert {*await names(ledger), "r99"} == set(stored)


async def test_a_server_that_stays_away_is_an_error_with_a_remedy(
    ledger: Ledger, postgres_databases: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "PATIENCE", 0.2)
    postgres_databases.kill()
    try:
        with pytest.raises(StorageError, match="cannot be reached") as away:
            await ledger.records.store([record("Gold.", id="r1")])
    finally:
        await asyncio.to_thread(postgres_databases.start)

    assert "Check that the server" in (away.value.remedy or "")
    await ledger.records.store([record("Gold.", id="r1")])
    assert await names(ledger) == ["r1"]


async def test_a_server_that_has_been_away_for_long_is_not_waited_for(
    ledger: Ledger, postgres_databases: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All that is asked would wait for the few threads, and be answered by none in time."""
    monkeypatch.setattr(databases, "PATIENCE", 0.2)
    pauses, next_pause = list[float](), Backoff.next_pause

    def count_pause(backoff: Backoff) -> float:
        pauses.append(next_pause(backoff))
        return pauses[-1]

    monkeypatch.setattr(Backoff, "next_pause", count_pause)
    for _ in range(2):  # it is waited for again after it has answered
        postgres_databases.kill()
        try:
            with pytest.raises(StorageError):
                await names(ledger)
            assert pauses
            pauses.clear()
            with pytest.raises(StorageError):
                await names(ledger)
            assert not pauses
        finally:
            await asyncio.to_thread(postgres_databases.start)
        assert await names(ledger) == []
        pauses.clear()


async def test_a_failure_of_which_nobody_learns_is_not_logged_as_forgotten(
    ledger: Ledger, here: Database
) -> None:
    began, go_on = asyncio.Event(), threading.Event()
    loop, forgotten = asyncio.get_running_loop(), list[object]()
    loop.set_exception_handler(lambda _, context: forgotten.append(context))

    def fail(_: object) -> None:
        loop.call_soon_threadsafe(began.set)
        go_on.wait()
        raise StorageError("It failed.")

    writing = asyncio.create_task(here.write(fail, owner=ledger.tenant, rests_on=()))
    await began.wait()
    writing.cancel()
    loop.call_soon(go_on.set)
    await asyncio.wait({writing})
    assert writing.cancelled()
    del writing
    gc.collect()

    assert forgotten == []


@pytest.fixture
def one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the server allow one connection only."""
    opened = list[object]()

    def connect_once(*args: Any) -> PostgresConnection:
        opened.append(args)
        if len(opened) > 1:
            raise psycopg.OperationalError("sorry, too many clients already")
        return connect(*args)

    monkeypatch.setattr(databases, "connect", connect_once)


@pytest.mark.usefixtures("one_connection")
async def test_a_server_that_allows_one_connection_only_is_enough_to_begin(url: str) -> None:
    with capture_logs() as logged:
        async with Database.open(url) as database:
            assert await database.live_stacks() == []

    (refused,) = logged
    assert refused["event"] == "ledger_connection_refused"
    assert "sorry, too many clients already" in refused["reason"]


@pytest.mark.usefixtures("one_connection")
async def test_work_that_gets_no_connection_of_its_own_takes_the_next_that_is_free(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(databases, "FIRST_PAUSE", PAUSE)
    monkeypatch.setattr(databases, "LONGEST_PAUSE", PAUSE)
    waits, may_end = asyncio.Event(), threading.Event()
    loop, next_pause = asyncio.get_running_loop(), Backoff.next_pause

    def note_wait(backoff: Backoff) -> float:
        loop.call_soon_threadsafe(waits.set)
        return next_pause(backoff)

    monkeypatch.setattr(Backoff, "next_pause", note_wait)
    async with Database.open(url) as database:
        first = asyncio.create_task(database.read(lambda _: may_end.wait()))
        second = asyncio.create_task(database.live_stacks())
        await waits.wait()
        may_end.set()

        async with asyncio.timeout(PAUSE / 2):
            assert await first
            assert await second == []


async def test_a_full_disk_is_named_with_its_remedy(here: Database) -> None:
    def fill(connection: PostgresConnection) -> None:
        connection.raw.execute(
            b"DO $$ BEGIN RAISE 'could not extend file' USING ERRCODE = 'disk_full',"
            b" HINT = 'Check free disk space.'; END $$"
        )

    with pytest.raises(StorageError) as refused:
        await here.write(fill)

    assert str(refused.value) == (
        "The ledger refused: could not extend file. The disk of PostgreSQL is full: make room."
    )
