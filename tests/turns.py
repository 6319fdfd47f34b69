"""Turns as the generator publishes them, and what the MemoryAgent stored of them."""

import json
from typing import Any

from local2.bus.connection import Connection, connect
from local2.bus.dead_letters import next_letter
from local2.bus.streams import turns_stream
from local2.ledger.engines.sqlite.database import Database
from local2.protocol.maintenance import StoredLetter
from stored import records
from waiting import eventually

GENERATION = "response.generation"
TURN: dict[str, Any] = {
    "source": "generator_agent",
    "user": "richard",
    "timestamp_utc": "2026-11-20T23:30:00Z",
    "payload": {
        "answer": "Au.",
        "thinking": "Easy.",
        "tool_calls": [{"name": "recall_topic"}, {"name": "search_memory", "ok": False}],
        "query": "What is the symbol of gold?",
        "session_id": "s1",
        "query_id": "q1",
    },
}


def turn(**payload: object) -> bytes:
    return json.dumps({**TURN, "payload": {**TURN["payload"], **payload}}).encode()


async def episodes(database: Database) -> list[dict[str, Any]]:
    return [row for row in await records(database) if row["kind"] == "episode"]


async def in_stream(bus: Connection) -> int:
    """Count the messages that wait in the stream of turns."""
    info = await bus.client.jetstream().stream_info(turns_stream("default"))
    return info.state.messages


async def all_done(bus: Connection) -> None:
    """Wait until the stream is empty: every message has been acknowledged."""
    await eventually(lambda: in_stream(bus), lambda found: found == 0)


async def letters(bus: Connection) -> list[StoredLetter]:
    """Return the dead letters of the default tenant, oldest first."""
    found: list[StoredLetter] = []
    while one := await next_letter(bus, found[-1].sequence + 1 if found else 1, "default"):
        found.append(one)
    return found


async def delete_streams(url: str) -> None:
    """Delete every stream of a server that several tests share."""
    async with connect(url, name="test") as bus:
        jetstream = bus.client.jetstream()
        for stream in await jetstream.streams_info():
            assert stream.config.name
            await jetstream.delete_stream(stream.config.name)
