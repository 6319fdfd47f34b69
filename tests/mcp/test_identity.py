"""The caller is configured or named after the client, and no argument changes it."""

import msgspec
import pytest

from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.home import user_name
from local2.mcp.server import agent_of
from local2.protocol.envelope import Caller
from local2.settings import McpSettings, Settings
from mcp_clients import ERAS, client_of, text_of
from note_tool import Notes


async def _caller(settings: Settings, era: str, bus: Connection, notes: Notes) -> Caller:
    async with ToolHost(bus, notes.tool()), client_of(settings, era, name="Claude Code") as client:
        result = await client.call_tool("note", {"text": "x"})
        assert not result.is_error, text_of(result)
        await client.call_tool("note", {"text": "y"})
    (first, _), (second, _) = notes.noted
    assert first == second
    return first


@pytest.mark.parametrize("era", ERAS)
async def test_the_client_is_the_agent_and_a_connection_is_a_session(
    settings: Settings, bus: Connection, notes: Notes, era: str
) -> None:
    caller = await _caller(settings, era, bus, notes)

    assert (caller.user, caller.agent) == ("richard", "claude-code")
    assert caller.session_id


@pytest.mark.parametrize("era", ERAS)
async def test_configured_names_take_precedence(
    settings: Settings, bus: Connection, notes: Notes, era: str
) -> None:
    own = McpSettings(user="ada", agent="engine", session="s1")
    caller = await _caller(msgspec.structs.replace(settings, mcp=own), era, bus, notes)

    assert (caller.user, caller.agent, caller.session_id) == ("ada", "engine", "s1")


@pytest.mark.usefixtures("tools")
async def test_no_argument_changes_the_caller(settings: Settings) -> None:
    ada = msgspec.structs.replace(settings, mcp=McpSettings(user="ada"))
    async with client_of(settings) as richard, client_of(ada) as other:
        await richard.call_tool("save_topic", {"topic": "user.city", "content": "Oslo"})
        for name in ("user", "user_id", "agent", "tenant", "session_id"):
            claim = {"topic": "user.city", name: "richard"}
            refused = await other.call_tool("recall_topic", claim)
            assert refused.is_error
            assert "Oslo" not in text_of(refused)
        assert "Oslo" not in text_of(await other.call_tool("recall_topic", {"topic": "user.city"}))


@pytest.mark.parametrize(
    ("client", "agent"),
    [
        ("claude-code", "claude-code"),
        ("Visual Studio Code", "visual-studio-code"),
        ("  ../..\n* > ", "mcp"),
        ("memory.>", "memory"),
        ("Ämter", "ämter"),
        ("x" * 500, "x" * 64),
        ("", "mcp"),
        (None, "mcp"),
    ],
)
def test_the_name_of_a_client_is_cleaned(client: str | None, agent: str) -> None:
    assert agent_of(McpSettings(), client) == agent


def test_without_a_configured_user_the_login_name_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("getpass.getuser", lambda: "grace")

    assert user_name(McpSettings().user) == "grace"
