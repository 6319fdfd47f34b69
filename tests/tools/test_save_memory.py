"""The tool `save_memory`: the owner and the metadata of a note, over the bus."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from calling import RICHARD, caller_named
from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.client.tools import call_tool
from local2.memory.intake.episodes import MAX_METADATA
from local2.memory.tenant import Memories, Memory
from local2.protocol.memory_tools import SAVE_MEMORY, SEARCH_MEMORY
from local2.protocol.payloads import Json, ToolResult
from local2.tools.catalog import bind

GOLD = "The chemical symbol of gold is Au."


@pytest.fixture(autouse=True)
async def hosts(bus: Connection, memory: Memory) -> AsyncIterator[None]:
    async with (
        ToolHost(bus, bind(SAVE_MEMORY, Memories(memory))),
        ToolHost(bus, bind(SEARCH_MEMORY, Memories(memory))),
    ):
        yield


async def save(bus: Connection, metadata: Json | None, content: str = GOLD) -> ToolResult:
    args = {"content": content} | ({} if metadata is None else {"metadata": metadata})
    return await call_tool(bus, "save_memory", args, caller=RICHARD)


async def hits(bus: Connection) -> list[Any]:
    """Return the metadata of everything found."""
    found = await call_tool(bus, "search_memory", {"query": "symbol of gold"}, caller=RICHARD)
    return [hit["metadata"] for hit in found.data["hits"]]


async def test_a_hit_returns_its_saved_metadata(bus: Connection) -> None:
    own = {"source": "periodic table", "page": 79, "tags": ["metal", {"noble": True}], "user": "x"}
    saved = await save(bus, {**own, "query_id": "q7", "timestamp_utc": "2026-05-02T16:23:01+02:00"})

    assert saved.ok, saved.content
    assert await hits(bus) == [
        {
            **own,
            "query_id": "q7",
            "timestamp_utc": "2026-05-02T14:23:01Z",
            "session_id": "s1",
            "agent": "shell",
        }
    ]


@pytest.mark.parametrize("user", ["eve", None])
async def test_the_owner_of_a_note_is_the_envelopes_user(bus: Connection, user: str | None) -> None:
    await save(bus, {"user": "eve", "tenant": "other", "owner": ""})

    other = caller_named(user, agent="shell")
    found = await call_tool(bus, "search_memory", {"query": "symbol of gold"}, caller=other)

    assert found.data["hits"] == []
    assert len(await hits(bus)) == 1


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        pytest.param({"session_id": "s2"}, "metadata.session_id", id="another session"),
        pytest.param({"agent": "root"}, "metadata.agent", id="another agent"),
        pytest.param({"score": 1}, "metadata.score", id="a rating"),
        pytest.param({"recalled": False}, "metadata.recalled", id="a mark of the memory"),
        pytest.param({"query_id": 7}, "metadata.query_id", id="a number as an id"),
        pytest.param({"query_id": "q" * 257}, "metadata.query_id", id="an id too long"),
        pytest.param({"timestamp_utc": "yesterday"}, "timestamp_utc", id="no time"),
        pytest.param({"timestamp_utc": 5}, "timestamp_utc", id="a number as a time"),
        pytest.param({"x": "y" * MAX_METADATA}, "4,096", id="too large"),
        pytest.param([1], "metadata", id="no object"),
    ],
)
async def test_invalid_metadata_are_refused_by_name_and_nothing_is_written(
    bus: Connection, memory: Memory, metadata: Any, message: str
) -> None:
    refused = await save(bus, metadata)

    assert refused.error is not None
    assert refused.error.code == "invalid_arguments"
    assert message in refused.error.message
    assert (await memory.ledger.counts()).records == 0


async def test_metadata_are_limited_in_bytes(bus: Connection) -> None:
    assert (await save(bus, {"x": "y" * (MAX_METADATA - len('{"x":""}'))})).ok


async def test_the_same_words_with_other_metadata_are_a_separate_memory(bus: Connection) -> None:
    for metadata in ({"build": 1, "by": "ci"}, {"build": 2}, None, {"by": "ci", "build": 1}, {}):
        await save(bus, metadata)

    builds = [metadata.get("build") for metadata in await hits(bus)]

    assert sorted(builds, key=str) == [1, 2, None]
