"""The MemoryAgent stores every turn once, and makes dead letters of invalid messages."""

import asyncio
import json
import shutil
from typing import Any

import pytest

from calling import UNNAMED
from factories import Listen
from local2.agents.memory_agent import ATTEMPTS
from local2.bus import streams
from local2.bus.connection import Connection, connect
from local2.bus.dead_letters import publish_again
from local2.bus.server import EmbeddedServer
from local2.bus.streams import publish_durably
from local2.errors import StorageError
from local2.ledger.engines.sqlite.database import Database
from local2.memory.intake.conversations import Turn
from local2.memory.intake.intake import Intake
from local2.memory.tenant import Memories, Memory
from local2.protocol.envelope import decode
from local2.protocol.payloads import DeadLetter
from remembering import remembering
from stored import records
from turns import GENERATION, TURN, all_done, episodes, letters, turn
from waiting import eventually


@pytest.mark.usefixtures("memory_agent")
async def test_a_turn_becomes_one_episode_with_its_metadata(
    bus: Connection, database: Database
) -> None:
    await publish_durably(bus, GENERATION, turn(), message_id="q1")
    await all_done(bus)

    (row,) = await episodes(database)
    assert (row["kind"], row["owner"]) == ("episode", "richard")
    assert row["content"] == "Q: What is the symbol of gold?\nA: Au."
    assert (row["session_id"], row["query_id"]) == ("s1", "q1")
    assert row["event_time"] == "2026-11-20T23:30:00.000+00:00"
    assert json.loads(row["metadata"]) == {"tool_calls": 2}
    assert row["agent"] == "generator_agent"


async def test_a_turn_without_a_time_is_dated_when_jetstream_stored_it(
    bus: Connection, database: Database, memory: Memory
) -> None:
    """It may be read much later."""
    await streams.ensure_streams(bus, "default")
    message = json.dumps({"query": "Symbol of gold?", "answer": "Au."}).encode()
    await publish_durably(bus, GENERATION, message)
    stream = streams.turns_stream("default")
    raw_message = await bus.client.jetstream().get_last_msg(stream, GENERATION)

    async with remembering(bus, Memories(memory)):
        await all_done(bus)

    assert raw_message.time is not None
    (row,) = await episodes(database)
    assert row["event_time"] == raw_message.time.isoformat(timespec="milliseconds")


@pytest.mark.usefixtures("memory_agent")
async def test_a_turn_without_jetstream_headers_is_remembered_too(
    bus: Connection, database: Database
) -> None:
    await bus.publish(GENERATION, turn())

    await eventually(lambda: episodes(database), lambda found: len(found) == 1)


@pytest.mark.usefixtures("memory_agent")
async def test_the_question_and_results_of_a_failed_turn_are_remembered(
    bus: Connection, database: Database
) -> None:
    error = {"code": "unavailable", "message": "The model is gone."}
    calls = [{"name": "weigh", "id": "c1", "content": "19.3 g"}]
    for _ in range(2):
        failed = turn(answer="", error=error, tool_calls=calls)
        await publish_durably(bus, GENERATION, failed)
    await all_done(bus)

    stored = [(row["kind"], row["content"]) for row in await records(database)]
    question = TURN["payload"]["query"]
    assert stored == [("chat_message", question), ("tool_output", "19.3 g")]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        pytest.param(b"not a turn", "not JSON", id="broken JSON"),
        pytest.param(b'{"extra":' + b"[" * 90_000, "nested too deeply", id="nested without end"),
        pytest.param(
            turn(answer=None),
            "answer: expected text, got null at payload.answer.",
            id="null as answer",
        ),
        pytest.param(
            json.dumps({**TURN, "user": {"name": "richard"}}).encode(),
            "user: expected a name of at most 256 characters without NUL, got an object at user.",
            id="an invalid user",
        ),
    ],
)
@pytest.mark.usefixtures("memory_agent")
async def test_an_invalid_turn_is_a_dead_letter_and_no_memory(
    bus: Connection, database: Database, listen: Listen, message: bytes, reason: str
) -> None:
    dead_letters = await listen("memory.dead_letter")

    await publish_durably(bus, GENERATION, message)
    await publish_durably(bus, GENERATION, turn())
    await all_done(bus)

    await eventually(lambda: dead_letters)
    letter = decode(dead_letters[0].data, DeadLetter).payload
    assert letter.subject == GENERATION
    assert reason in letter.reason
    assert letter.message == message.decode()
    assert [row["query_id"] for row in await episodes(database)] == ["q1"]
    stream = await bus.client.jetstream().stream_info("local2-dead-letters-default")
    assert stream.state.messages == 1


@pytest.mark.usefixtures("memory_agent")
async def test_feedback_out_of_bounds_is_a_dead_letter(bus: Connection, listen: Listen) -> None:
    dead_letters = await listen("memory.dead_letter")
    message = {"payload": {"query_id": "q1", "score": 1.01}}
    await publish_durably(bus, "response.feedback", json.dumps(message).encode())

    await eventually(lambda: dead_letters)
    reason = decode(dead_letters[0].data, DeadLetter).payload.reason
    assert reason == "score: expected a number from -1 to 1, got 1.01 at payload.score."


@pytest.mark.usefixtures("memory_agent")
async def test_storing_a_turn_is_retried_after_a_ledger_failure(
    bus: Connection, memory: Memory, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "RETRY_DELAY", 0.05)
    store_turn = Intake.store_turn
    failures = [StorageError("The disk is full.")] * 2

    async def fail_twice(self: Intake, *args: Any) -> object:
        if failures:
            raise failures.pop()
        return await store_turn(self, *args)

    monkeypatch.setattr(Intake, "store_turn", fail_twice)
    await publish_durably(bus, GENERATION, turn())
    await all_done(bus)

    assert len(await episodes(database)) == 1
    assert memory.of(UNNAMED) is not None


@pytest.mark.usefixtures("memory_agent")
async def test_an_answer_with_an_error_is_stored_though_its_question_is_not_known(
    bus: Connection, database: Database
) -> None:
    error = {"code": "internal", "message": "The model stopped."}
    await publish_durably(bus, GENERATION, turn(query="", answer="Quay 3.", error=error))
    await all_done(bus)

    (episode,) = await episodes(database)
    assert "Quay 3." in episode["content"]


@pytest.mark.usefixtures("memory_agent")
async def test_a_turn_that_takes_long_is_reported_as_being_stored_until_it_is(
    bus: Connection, database: Database, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "WORKING_INTERVAL", 0.01)
    store_turn, reported = Intake.store_turn, await listen("$JS.ACK.>")

    async def wait_for_reports(self: Intake, *args: Any) -> object:
        await eventually(lambda: [told.data for told in reported[:2]] == [b"+WPI"] * 2)
        return await store_turn(self, *args)

    monkeypatch.setattr(Intake, "store_turn", wait_for_reports)
    await publish_durably(bus, GENERATION, turn())
    await all_done(bus)

    assert len(await episodes(database)) == 1
    await eventually(lambda: reported[-1].data == b"+ACK")


async def test_a_turn_that_times_out_every_time_becomes_a_dead_letter(
    bus: Connection, memory: Memory, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "RETRY_DELAY", 0.05)
    memories = Memories(memory)
    with monkeypatch.context() as slow:
        slow.setattr(Intake, "store_turn", lambda *_: asyncio.Event().wait())
        async with remembering(bus, memories, turn_timeout=1e-9):
            await publish_durably(bus, GENERATION, turn())
            await all_done(bus)
            (letter,) = await letters(bus)
    assert "not handled within 1e-09 s" in letter.letter.reason

    async with remembering(bus, memories):
        await publish_again(bus, letter, "default")
        await all_done(bus)

    assert len(await episodes(database)) == 1


async def test_a_turn_is_delivered_again_for_as_long_as_the_ledger_is_held_up(
    bus: Connection,
    memory: Memory,
    database: Database,
    listen: Listen,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It is in order, however often its time is over while it waits to be stored."""
    monkeypatch.setattr(streams, "RETRY_DELAY", 0.05)
    memories, answered = Memories(memory), await listen("$JS.ACK.>")

    async with remembering(bus, memories, turn_timeout=1e-9):
        await publish_durably(bus, GENERATION, turn())
        await eventually(lambda: len(answered) > ATTEMPTS)
    assert all(told.data.startswith(b"-NAK") for told in answered)

    async with remembering(bus, memories):
        await all_done(bus)

    assert await letters(bus) == []
    assert len(await episodes(database)) == 1


@pytest.mark.usefixtures("memory_agent")
async def test_a_turn_that_fails_every_time_becomes_a_dead_letter(
    bus: Connection, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "RETRY_DELAY", 0.05)
    store_turn = Intake.store_turn
    failed: list[Turn] = []

    async def fail(self: Intake, remembered: Turn) -> object:
        if remembered.query_id == "q2":
            failed.append(remembered)
            raise KeyError("A fault of ours.")
        return await store_turn(self, remembered)

    monkeypatch.setattr(Intake, "store_turn", fail)
    await publish_durably(bus, GENERATION, turn(query_id="q2"))
    await publish_durably(bus, GENERATION, turn())
    await all_done(bus)

    (letter,) = [stored.letter for stored in await letters(bus)]
    assert "could not be handled" in letter.reason
    assert len(failed) == ATTEMPTS
    assert [row["query_id"] for row in await episodes(database)] == ["q1"]


@pytest.mark.parametrize("is_shared", [False, True])
async def test_a_turn_that_a_restarted_server_holds_again_is_delivered_again(
    is_shared: bool,
    server: EmbeddedServer,
    memory: Memory,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The consumer knows its acknowledgement, but its removal was not written to the full disk."""
    stream = server.folder / "jetstream" / "$G" / "streams" / streams.turns_stream("default")
    messages, before = stream / "msgs", server.folder / "before"
    start, store_turn = EmbeddedServer.start, Intake.store_turn
    stored: list[Turn] = []

    async def start_with_message(self: EmbeddedServer) -> None:
        shutil.rmtree(messages)
        shutil.move(before, messages)
        await start(self)

    async def store(self: Intake, remembered: Turn) -> object:
        stored.append(remembered)
        return await store_turn(self, remembered)

    monkeypatch.setattr(Intake, "store_turn", store)

    async with connect(server.url, name="test") as bus:
        await streams.ensure_streams(bus, "default")
        await publish_durably(bus, GENERATION, turn())
        shutil.copytree(messages, before)
        async with remembering(bus, Memories(memory), is_shared=is_shared):
            await all_done(bus)
            monkeypatch.setattr(EmbeddedServer, "start", start_with_message)
            await server.stop()  # it is started again
            await eventually(lambda: len(stored) == 2)
            await all_done(bus)

    assert len(await episodes(database)) == 1


@pytest.mark.usefixtures("memory_agent")
async def test_the_outcome_of_a_refused_query_is_no_memory_and_no_dead_letter(
    bus: Connection, database: Database
) -> None:
    error = {"code": "bad_request", "message": "Blank."}
    refused = turn(query="", answer="", error=error, tool_calls=[])
    await publish_durably(bus, GENERATION, refused)
    await all_done(bus)

    assert await records(database) == []
    assert await letters(bus) == []
