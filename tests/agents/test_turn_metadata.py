"""What a publisher says of a turn besides, such as a project, is stored with its episode."""

import json
from typing import Any

import pytest

from local.bus.connection import Connection
from local.bus.streams import publish_durably
from local.ledger.sqlite.database import Database
from turns import GENERATION, all_done, episodes, turn

TURN = {"query": "Densest metal?", "answer": "Osmium.", "query_id": "q1", "tool_calls": []}


async def stored(bus: Connection, database: Database, metadata: object) -> dict[str, Any]:
    """The metadata of the one episode, once the turn is stored."""
    await publish_durably(bus, GENERATION, turn(**TURN, metadata=metadata))
    await all_done(bus)
    (episode,) = await episodes(database)
    found: dict[str, Any] = json.loads(episode["metadata"])
    return found


@pytest.mark.usefixtures("memory_agent")
async def test_the_senders_own_metadata_are_stored(bus: Connection, database: Database) -> None:
    found = await stored(bus, database, {"project": "/home/ada/shop", "tags": ["metal"]})

    assert found["project"] == "/home/ada/shop"
    assert found["tags"] == ["metal"]


@pytest.mark.usefixtures("memory_agent")
async def test_what_only_the_memory_says_is_left_out(bus: Connection, database: Database) -> None:
    told = {"score": 1, "adds": ["gold"], "tool_calls": 9, "session_id": "s2", "kept": True}

    found = await stored(bus, database, told)

    assert found == {"tool_calls": 0, "kept": True}


@pytest.mark.usefixtures("memory_agent")
@pytest.mark.parametrize("metadata", [{"long": "a" * 5_000}, "a text", [1], 7, None])
async def test_a_turn_is_stored_whatever_comes_with_it(
    bus: Connection, database: Database, metadata: object
) -> None:
    assert await stored(bus, database, metadata) == {"tool_calls": 0}
