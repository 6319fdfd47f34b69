"""Other agents' turns with a query and an answer are remembered; the rest are dead letters."""

import json
from pathlib import Path
from typing import Any

import pytest

from calling import UNNAMED
from local2.agents.memory_agent import MemoryAgent
from local2.bus.connection import BusMessage, Connection
from local2.bus.dead_letters import publish_again
from local2.bus.streams import publish_durably
from local2.client.queries import QueryClient
from local2.errors import BusError
from local2.ledger.engines.sqlite.database import Database
from local2.memory.tenant import Memory
from local2.protocol import subjects
from local2.protocol.envelope import decode, encode, seal
from local2.protocol.payloads import Query, ToolResult
from turns import GENERATION, all_done, episodes, letters, turn
from waiting import eventually

pytestmark = pytest.mark.usefixtures("memory_agent")


async def publish(bus: Connection, *messages: object) -> None:
    for message in messages:
        data = message if isinstance(message, bytes) else json.dumps(message).encode()
        await publish_durably(bus, GENERATION, data)
    await all_done(bus)


async def test_unreadable_parts_are_logged_once_per_source_without_their_content(
    bus: Connection, logs: Path
) -> None:
    before = len(logs.read_text())
    for number in range(3):
        for source in ("xenia", "yorick"):
            broken = turn(query_id=f"q{number}", tool_calls=[["sekret"]], thinking=42)
            await publish(bus, {**json.loads(broken), "source": source})
    await publish(bus, turn(answer=None, query="sekret"))

    def unread_parts_logged() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in logs.read_text()[before:].splitlines()]
        ours = [line for line in lines if line.get("source") in {"xenia", "yorick"}]
        return [line for line in ours if line["event"] == "read_in_part"]

    await eventually(lambda: len(unread_parts_logged()) == 2)
    assert {line["source"] for line in unread_parts_logged()} == {"xenia", "yorick"}
    assert unread_parts_logged()[0]["unread"] == [
        "payload.thinking: expected text, got a number",
        "payload.tool_calls[0]: expected a call, got a list",
    ]
    assert "sekret" not in logs.read_text()[before:]


async def test_a_dead_letter_published_again_is_remembered_once_it_is_readable(
    bus: Connection, memory: Memory, database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An upgrade may read what an older release could not."""
    with monkeypatch.context() as older_release:
        older_release.setattr("local2.protocol.lenient.turns.as_text", lambda _: None)
        await publish(bus, turn(answer=42))
    (letter,) = await letters(bus)
    assert (letter.letter.source, letter.letter.cut) == ("generator_agent", False)
    assert await episodes(database) == []

    await publish_again(bus, letter, "default")
    await all_done(bus)

    assert [row["query_id"] for row in await episodes(database)] == ["q1"]
    assert memory.of(UNNAMED) is not None


@pytest.mark.parametrize("filling", ['"', "x", "é"])
async def test_an_unreadable_message_of_the_maximum_size_is_one_dead_letter(
    bus: Connection, filling: str
) -> None:
    size = bus.client.max_payload - 100
    text = json.dumps(
        {"payload": {"query": "Gold?", "answer": None, "text": ""}}, ensure_ascii=False
    )
    escaped = json.dumps(filling, ensure_ascii=False)[1:-1]
    text = text.replace('""', f'"{escaped * (size // len(escaped.encode()) - 100)}"')
    await publish(bus, text.encode())

    (letter,) = await letters(bus)
    assert letter.letter.reason.startswith("answer: expected text, got null")
    assert text.startswith(letter.letter.message)
    assert len(letter.letter.message) > len(text) // 3
    assert letter.letter.cut == (letter.letter.message != text)


async def test_a_message_that_is_redelivered_is_one_dead_letter(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local2.bus.streams.RETRY_DELAY", 0.01)
    refusals = ["The letter is stored, but the answer is lost."]

    give_up = MemoryAgent._give_up

    async def lose_once(self: MemoryAgent, *args: Any) -> None:
        await give_up(self, *args)
        if refusals:
            raise BusError(refusals.pop())

    monkeypatch.setattr(MemoryAgent, "_give_up", lose_once)
    await publish(bus, b"no turn")

    assert refusals == []
    assert len(await letters(bus)) == 1


async def test_a_client_receives_the_answer_of_another_generator(bus: Connection) -> None:
    """Its answer is in parts, its calls are in OpenAI's form, and its ids in the envelope."""

    async def answer(message: BusMessage) -> None:
        query = decode(message.data, Query)
        accepted = seal(ToolResult(ok=True, content="Accepted."), type="result", source="other")
        await bus.publish(message.reply, encode(accepted))
        call = {"id": "c1", "function": {"name": "weigh", "arguments": "{}"}}
        turn = {
            "query_id": query.query_id,
            "payload": {
                "query": query.payload.query,
                "answer": [{"type": "text", "text": "Au."}],
                "tool_calls": [call],
            },
        }
        await bus.publish(GENERATION, json.dumps(turn).encode())

    await bus.subscribe(subjects.QUERY_RECEIVED, answer)
    async with QueryClient(bus) as client:
        generation = await client.ask("Symbol of gold?", caller=UNNAMED, timeout=10)

    assert (generation.answer, [call.name for call in generation.tool_calls]) == ("Au.", ["weigh"])
