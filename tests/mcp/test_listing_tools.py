"""Clients of either era list and call the tools on the bus, with their own descriptions."""

import msgspec
import pytest
from mcp.shared.exceptions import MCPError

from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.errors import ToolFailedError
from local2.mcp.bridge import DEFAULT_TOOLS
from local2.protocol.memory_tools import TOOLS
from local2.settings import Settings
from mcp_clients import ERAS, client_of, text_of
from note_tool import Notes

each_era = pytest.mark.parametrize("era", ERAS)


@each_era
@pytest.mark.usefixtures("tools")
async def test_a_client_lists_and_calls_the_tools(settings: Settings, era: str) -> None:
    async with client_of(settings, era) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        saved = await client.call_tool("save_topic", {"topic": "user.name", "content": "Ada"})
        found = await client.call_tool("recall_topic", {"topic": "user.name"})

    assert set(listed) == DEFAULT_TOOLS
    assert listed["save_topic"].input_schema["required"] == ["topic", "content"]
    assert not saved.is_error
    assert "Ada" in text_of(found)
    assert found.structured_content is not None
    assert found.structured_content["content"] == "Ada"


@pytest.mark.usefixtures("tools")
async def test_every_tool_declares_its_data_and_clients_find_them_valid(
    settings: Settings,
) -> None:
    """The client refuses data that differ from the declaration."""
    full = msgspec.structs.replace(settings.mcp, profile=("full",))
    async with client_of(msgspec.structs.replace(settings, mcp=full)) as client:
        listed = {tool.name: tool.output_schema for tool in (await client.list_tools()).tools}
        found = []
        for name, args in (
            ("save_topic", {"topic": "user.metal", "content": "osmium"}),
            ("ingest", {"messages": [{"role": "user", "content": "A metal: osmium."}]}),
            ("recall", {"query": "Which metal?", "explain": True}),
            ("search_memory", {"query": "Which metal?"}),
            ("memory_history", {"topic_or_id": "user.metal"}),
            ("load_session", {}),
            ("top_memories", {}),
            ("consolidate", {"dry_run": True}),
            ("audit", {}),
        ):
            found.append(await client.call_tool(name, args))

    assert not [name for name, schema in listed.items() if not (schema and schema["properties"])]
    assert not [text_of(one) for one in found if one.is_error]
    recalled = found[2].structured_content
    assert recalled is not None
    assert recalled["items"][0]["explanation"]


@each_era
@pytest.mark.usefixtures("tools")
async def test_tools_are_listed_with_their_titles_and_annotations(
    settings: Settings, era: str
) -> None:
    full = msgspec.structs.replace(settings.mcp, profile=("full",))
    async with client_of(msgspec.structs.replace(settings, mcp=full), era) as client:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}

    assert set(listed) == {tool.name for tool in TOOLS}
    for own in TOOLS:
        shown = listed[own.name]
        assert shown.annotations is not None
        assert shown.title == own.title
        assert shown.annotations.read_only_hint == own.annotations.read_only_hint
        assert shown.annotations.idempotent_hint == own.annotations.idempotent_hint
    erasing = {
        name for name, t in listed.items() if t.annotations and t.annotations.destructive_hint
    }
    assert erasing == {"forget"}


@each_era
@pytest.mark.usefixtures("tools")
async def test_wrong_arguments_are_a_tool_error_with_a_remedy(settings: Settings, era: str) -> None:
    async with client_of(settings, era) as client:
        wrong = await client.call_tool("recall", {"query": "x", "scope": "nowhere"})

    assert wrong.is_error
    assert "invalid_arguments" in text_of(wrong)
    assert "One of: agent, any, history" in text_of(wrong)
    assert wrong.structured_content is not None
    assert wrong.structured_content["error"]["code"] == "invalid_arguments"


async def test_another_teams_tool_fails_with_its_own_message(
    settings: Settings, bus: Connection, notes: Notes
) -> None:
    notes.failure = ToolFailedError("The printer is on fire.", remedy="Call for help.")
    async with ToolHost(bus, notes.tool()), client_of(settings) as client:
        failed = await client.call_tool("note", {"text": "x"})

    assert failed.is_error
    assert text_of(failed) == "Error (tool_failed): The printer is on fire. Call for help."


@pytest.mark.usefixtures("tools")
async def test_a_tool_outside_the_profile_cannot_be_called(settings: Settings) -> None:
    async with client_of(settings) as client:
        with pytest.raises(MCPError, match="No tool 'forget' is offered"):
            await client.call_tool("forget", {"everything": True})
