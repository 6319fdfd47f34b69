"""Prompts include what the memory knows, and resources are memories under their own addresses."""

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError
from mcp_types import GetPromptResult

from local2.settings import Settings
from mcp import Client
from mcp_clients import ERAS, client_of

each_era = pytest.mark.parametrize("era", ERAS)


def _text(prompt: GetPromptResult) -> str:
    (message,) = prompt.messages
    assert message.content.type == "text"
    return message.content.text


async def _read(client: Client, uri: str) -> str:
    (content,) = (await client.read_resource(uri)).contents
    text: Any = getattr(content, "text", None)
    assert isinstance(text, str)
    return text


@each_era
@pytest.mark.usefixtures("tools")
async def test_the_start_prompt_contains_important_memories(settings: Settings, era: str) -> None:
    async with client_of(settings, era) as client:
        fact = {"content": "Prefers tabs.", "scope": "user", "importance": 0.9}
        await client.call_tool("remember_fact", fact)
        document = {"title": "Guide", "source": "guide.md", "content": "The parser is in Rust."}
        await client.call_tool("add_document", document)
        listed = [prompt.name for prompt in (await client.list_prompts()).prompts]
        start = await client.get_prompt("start_session", {"task": "the parser"})
        bare = await client.get_prompt("start_session")

    assert listed == ["start_session", "remember_this", "what_did_we_decide"]
    assert "Prefers tabs." in _text(start)
    assert "Rust" in _text(start)
    assert "Prefers tabs." in _text(bare)
    assert "Rust" not in _text(bare)


@pytest.mark.usefixtures("tools")
async def test_prompts_look_up_decisions_and_pass_on_requests_to_remember(
    settings: Settings,
) -> None:
    async with client_of(settings) as client:
        decision = {"topic": "project.database", "content": "We decided to use Postgres."}
        await client.call_tool("save_topic", decision)
        decided = await client.get_prompt("what_did_we_decide", {"about": "the database"})
        wish = await client.get_prompt("remember_this", {"what": "Tests run on Fridays."})

    assert "Postgres" in _text(decided)
    assert "Tests run on Fridays." in _text(wish)
    assert "save_topic" in _text(wish)


@pytest.mark.usefixtures("tools")
async def test_an_invalid_prompt_request_is_refused_with_the_reason(settings: Settings) -> None:
    async with client_of(settings) as client:
        with pytest.raises(MCPError, match="no such prompt"):
            await client.get_prompt("nothing", {})
        for name, arguments in (("remember_this", {}), ("what_did_we_decide", {"about": "  "})):
            with pytest.raises(MCPError, match="is missing"):
                await client.get_prompt(name, arguments)


@each_era
@pytest.mark.usefixtures("tools")
async def test_memories_are_read_by_their_addresses(settings: Settings, era: str) -> None:
    long = "\n\n".join(f"# Part {number}\n\n" + "Osmium is dense. " * 40 for number in range(4))
    async with client_of(settings, era) as client:
        await client.call_tool("save_topic", {"topic": "user.größe", "content": "180 cm"})
        document = {"title": "Metals", "source": "docs/metals of Earth.md", "content": long}
        await client.call_tool("add_document", document)
        await client.call_tool("note", {"content": "Half is done."})
        templates = (await client.list_resource_templates()).resource_templates
        session = "mine"

        assert [each.uri_template for each in templates] == [
            "memory://topics/{key}",
            "memory://sessions/{id}",
            "memory://documents/{source}",
        ]
        assert "180 cm" in await _read(client, "memory://topics/user.gr%C3%B6%C3%9Fe")
        text = await _read(client, "memory://documents/docs%2Fmetals%20of%20Earth.md")
        assert text.index("# Part 0") < text.index("# Part 3")
        assert session in await _read(client, f"memory://sessions/{session}")


@pytest.mark.usefixtures("tools")
async def test_important_topics_are_listed_as_resources(settings: Settings) -> None:
    async with client_of(settings) as client:
        rule = {
            "content": "No work on Sundays.",
            "scope": "user",
            "topic": "user.sundays",
            "importance": 1.0,
            "memory_type": "instruction",
        }
        await client.call_tool("remember_fact", rule)
        listed = (await client.list_resources()).resources

        assert [str(each.uri) for each in listed] == ["memory://topics/user.sundays"]
        assert "Sundays" in await _read(client, str(listed[0].uri))


@pytest.mark.usefixtures("tools")
async def test_an_unknown_address_is_refused(settings: Settings) -> None:
    async with client_of(settings) as client:
        for address in ("memory://elsewhere/x", "memory://topics/", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="not the address of a memory"):
                await client.read_resource(address)
        with pytest.raises(MCPError, match="there is no document"):
            await client.read_resource("memory://documents/x")
