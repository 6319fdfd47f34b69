"""Tools announce their schemas, and toolboxes collect them."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from factories import ConnectBus, Listen
from local2.bus import tool_host
from local2.bus.connection import Connection, connect
from local2.bus.tool_host import ToolHost
from local2.client.tools import Toolbox
from local2.logs import logging_to
from local2.protocol.envelope import decode
from local2.protocol.lenient.tools import read_schema
from local2.protocol.payloads import ToolHints, ToolSchema
from note_tool import Notes
from waiting import eventually


async def test_a_tool_announces_itself_when_it_starts(
    bus: Connection, notes: Notes, listen: Listen
) -> None:
    announcements = await listen("tool.schema")
    async with ToolHost(bus, notes.tool()):
        await eventually(lambda: announcements)

    schema = decode(announcements[0].data, ToolSchema).payload
    assert (schema.name, schema.version) == ("note", "1.2.3")
    assert json.loads(announcements[0].data)["payload"]["schema"] == {
        "type": "function",
        "function": {
            "name": "note",
            "description": "Note a text.",
            "parameters": {
                "type": "object",
                "properties": {
                    "text": {
                        "type": "string",
                        "minLength": 1,
                        "maxLength": 20,
                        "description": "What to note.",
                    }
                },
                "required": ["text"],
                "additionalProperties": False,
            },
        },
    }


@pytest.mark.usefixtures("host")
async def test_a_late_participant_can_request_the_schemas(bus: Connection, listen: Listen) -> None:
    announcements = await listen("tool.schema")

    await bus.publish("tool.schema.request", b"")

    await eventually(lambda: announcements)
    assert decode(announcements[0].data, ToolSchema).payload.name == "note"


@pytest.mark.usefixtures("host")
async def test_one_announcement_answers_all_requests_of_a_moment(
    bus: Connection, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool_host, "SCHEMA_REQUEST_WINDOW", 1.0)
    announcements = await listen("tool.schema")

    for _ in range(100):
        await bus.publish("tool.schema.request", b"")
    await eventually(lambda: announcements)
    answer = await bus.request("tool.schema.request", b"")

    assert decode(answer.data, ToolSchema).payload.name == "note"
    assert len(announcements) < 50


async def test_a_toolbox_knows_tools_that_started_before_and_after_it(
    bus: Connection, notes: Notes
) -> None:
    async with ToolHost(bus, notes.tool()), Toolbox(bus, source="test") as toolbox:
        await eventually(lambda: [schema.name for schema in toolbox.schemas] == ["note"])

        later = msgspec.structs.replace(notes.tool(), name="another")
        async with ToolHost(bus, later):
            await eventually(lambda: len(toolbox.schemas) == 2)


async def test_a_toolbox_settles_when_no_more_schemas_arrive(bus: Connection, notes: Notes) -> None:
    async with Toolbox(bus, source="test") as toolbox:
        assert await toolbox.settle(quiet=0.01) == []
        async with ToolHost(bus, notes.tool()):
            await eventually(lambda: toolbox.schemas)
            assert [schema.name for schema in await toolbox.settle(quiet=0.01)] == ["note"]


async def test_a_host_announces_all_attributes_of_its_tool(bus: Connection, notes: Notes) -> None:
    attributes: dict[str, Any] = {"reads_memory": True, "for_models": False, "recorded": False}
    attributes |= {"whole": True, "title": "Note", "annotations": ToolHints(read_only_hint=False)}
    tool = msgspec.structs.replace(notes.tool(), **attributes)
    async with Toolbox(bus, source="test") as toolbox, ToolHost(bus, tool):
        await eventually(lambda: toolbox.schemas)

        (schema,) = toolbox.schemas
    assert {name: getattr(schema, name) for name in attributes} == attributes


@pytest.mark.parametrize(
    ("inside", "own"), [(True, {"note"}), (False, {"note", "search"})], ids=["inside", "outside"]
)
async def test_a_stack_knows_its_own_tools_by_its_secret_and_others_by_the_announcement(
    nats_url: str, bus: Connection, notes: Notes, inside: bool, own: set[str]
) -> None:
    ours = msgspec.structs.replace(notes.tool(), reads_memory=True)
    theirs = msgspec.structs.replace(ours, name="search")
    async with (
        connect(nats_url, name="stack", secret="secret") as stack,  # noqa: S106
        Toolbox(stack if inside else bus, source="test") as toolbox,
        ToolHost(stack, ours),
        ToolHost(bus, theirs),
    ):
        await eventually(lambda: len(toolbox.schemas) == 2)
        assert toolbox.own == own
        for name in ("note", "last"):
            await bus.publish("tool.schema", json.dumps({"name": name}).encode())
        await eventually(lambda: len(toolbox.schemas) == 3)

        note = toolbox.get("note")
    assert note is not None
    assert note.description == "Note a text."


async def test_a_toolbox_logs_the_reason_for_refusing_an_announcement_once(
    bus: Connection, notes: Notes, tmp_path: Path
) -> None:
    log = tmp_path / "own.log"

    def refusals() -> list[str]:
        lines = map(json.loads, log.read_text().splitlines())
        return [line["reason"] for line in lines if line["event"] == "announcement_refused"]

    with logging_to(log):
        async with Toolbox(bus, source="test") as toolbox:
            for _ in range(3):
                await bus.publish("tool.schema", b'{"payload": {"name": "a.*"}}')
            async with ToolHost(bus, notes.tool()):
                await eventually(lambda: toolbox.schemas)
    assert [schema.name for schema in toolbox.schemas] == ["note"]
    (reason,) = refusals()
    assert "not a tool name" in reason


async def test_a_toolbox_holds_a_limited_number_of_tools(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local2.client.tools.MAX_TOOLS", 3)
    async with Toolbox(bus, source="test") as toolbox:
        for number in (*range(10), 2):
            described = {"name": f"t{number}", "description": f"{number} of many."}
            await bus.publish("tool.schema", json.dumps({"payload": described}).encode())
        await bus.flush()
        await toolbox.settle()

        assert [schema.name for schema in toolbox.schemas] == ["t0", "t1", "t2"]


def _announcement(name: str, source: str) -> bytes:
    return json.dumps({"source": source, "payload": {"name": name}}).encode()


async def test_one_agent_announces_a_limited_number_of_tools_and_others_theirs(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local2.client.tools.MAX_TOOLS_OF_AGENT", 3)
    async with Toolbox(bus, source="test") as toolbox:
        for number in range(10):
            await bus.publish("tool.schema", _announcement(f"many{number}", "greedy"))
        await bus.publish("tool.schema", _announcement("one", "modest"))
        await eventually(lambda: toolbox.get("one"))

        assert [schema.name for schema in toolbox.schemas] == ["many0", "many1", "many2", "one"]


async def test_an_agent_that_announces_all_the_time_is_not_read_and_others_are(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: list[bytes] = []

    def reading(data: bytes) -> ToolSchema:
        read.append(data)
        return read_schema(data)

    monkeypatch.setattr("local2.client.tools.ANNOUNCEMENT_RATE", 0.001)
    monkeypatch.setattr("local2.client.tools.MAX_TOOLS_OF_AGENT", 5)
    monkeypatch.setattr("local2.client.tools.read_schema", reading)
    async with Toolbox(bus, source="test") as toolbox:
        for _ in range(100):
            await bus.publish("tool.schema", _announcement("same", "greedy"))
        await bus.publish("tool.schema", _announcement("one", "modest"))
        await eventually(lambda: toolbox.get("one"))

    assert len(read) == 10 + 1


async def test_the_memorys_own_tools_are_known_however_much_is_announced(
    nats_url: str, notes: Notes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local2.client.tools.MAX_TOOLS", 2)
    monkeypatch.setattr("local2.client.tools.ANNOUNCEMENT_RATE", 0.001)
    async with (
        connect(nats_url, name="stack", secret="secret") as bus,  # noqa: S106
        Toolbox(bus, source="test") as toolbox,
    ):
        for number in range(100):
            await bus.publish("tool.schema", _announcement(f"many{number}", "greedy"))
        own = msgspec.structs.replace(notes.tool(), reads_memory=True)
        async with ToolHost(bus, own):
            await eventually(lambda: toolbox.get("note"))

        assert toolbox.own == {"note"}


async def test_a_connection_receives_an_announcement_once_for_all_its_toolboxes(
    connect_bus: ConnectBus,
) -> None:
    bus, other = await connect_bus(), await connect_bus()
    async with Toolbox(bus, source="one") as one, Toolbox(bus, source="two") as two:
        before = bus.client.stats["in_msgs"]
        await other.publish("tool.schema", _announcement("alone", "test"))
        await eventually(lambda: one.get("alone") and two.get("alone"))

        assert bus.client.stats["in_msgs"] == before + 1
