"""Metadata that the publisher adds to a turn, such as a project, is stored with its episode."""

import json
from typing import Any

import pytest

from local2.bus.connection import Connection
from local2.bus.streams import publish_durably
from local2.ledger.engines.sqlite.database import Database
from turns import GENERATION, all_done, episodes, turn

pytestmark = pytest.mark.usefixtures("memory_agent")

TURN = {"query": "Densest metal?", "answer": "Osmium.", "query_id": "q1", "tool_calls": []}


async def stored_metadata(bus: Connection, database: Database, metadata: object) -> dict[str, Any]:
    """Publish a turn with `metadata` and return the metadata of its episode."""
    await publish_durably(bus, GENERATION, turn(**TURN, metadata=metadata))
    await all_done(bus)
    (episode,) = await episodes(database)
    found: dict[str, Any] = json.loads(episode["metadata"])
    return found


async def test_the_publishers_own_metadata_is_stored_except_fields_of_the_memory_itself(
    bus: Connection, database: Database
) -> None:
    own = {"project": "/home/ada/shop", "tags": ["metal"]}
    reserved = {"score": 1, "recalled": True, "tool_calls": 9, "session_id": "s2"}

    found = await stored_metadata(bus, database, own | reserved)

    assert found == own | {"tool_calls": 0}


@pytest.mark.parametrize("metadata", [{"long": "a" * 5_000}, "a text", [1], 7, None])
async def test_a_turn_with_unusable_metadata_is_stored_without_it(
    bus: Connection, database: Database, metadata: object
) -> None:
    assert await stored_metadata(bus, database, metadata) == {"tool_calls": 0}
