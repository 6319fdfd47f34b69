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
from local2.protocol.payloads import Function, FunctionSchema, ToolHints, ToolSchema
from note_tool import Notes
from waiting import eventually

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


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


FUNCTION: dict[str, Any] = {
    "name": "get-Weather_2",
    "description": "The weather.",
    "parameters": CITY,
}
ANNOUNCED = ToolSchema(
    name="get-Weather_2",
    description="The weather.",
    version="",
    tool_schema=FunctionSchema(function=Function(**FUNCTION)),
)


@pytest.mark.parametrize(
    "payload",
    [
        pytest.param({"type": "function", "function": FUNCTION}, id="the schema of LLM APIs"),
        pytest.param({"function": FUNCTION}, id="without a type"),
        pytest.param({"schema": {"type": "function", "function": FUNCTION}}, id="without version"),
        pytest.param({"schema": FUNCTION, "version": None}, id="its function as schema"),
        pytest.param({"type": "function", **FUNCTION}, id="a flat schema"),
        pytest.param({**FUNCTION, "parameters": None, "schema": CITY}, id="parameters as schema"),
        pytest.param(
            {"name": "get-Weather_2", "description": "The weather.", "inputSchema": CITY}, id="MCP"
        ),
    ],
)
@pytest.mark.parametrize("enveloped", [True, False])
async def test_a_toolbox_accepts_every_reasonable_announcement(
    bus: Connection, payload: dict[str, Any], enveloped: bool
) -> None:
    async with Toolbox(bus, source="test") as toolbox:
        message = {"id": "1", "payload": payload} if enveloped else payload
        await bus.publish("tool.schema", json.dumps(message).encode())
        await eventually(lambda: toolbox.schemas)

        assert toolbox.schemas == [ANNOUNCED]


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"parameters": None},
        {"parameters": {}},
        {"parameters": {"properties": {"city": True}, "required": None}},
    ],
)
async def test_a_toolbox_accepts_a_tool_with_a_minimal_schema(
    bus: Connection, parameters: dict[str, Any]
) -> None:
    async with Toolbox(bus, source="test") as toolbox:
        message = {"payload": {"type": "function", "function": {"name": "ping", **parameters}}}
        await bus.publish("tool.schema", json.dumps(message).encode())
        await eventually(lambda: toolbox.schemas)

        (schema,) = toolbox.schemas
    assert (schema.name, schema.description) == ("ping", "")
    parameters_ = schema.tool_schema.function.parameters
    assert parameters_["type"] == "object"
    assert parameters_.get("properties") in (None, {}, {"city": {}})
    assert "required" not in parameters_


async def announced(bus: Connection, payload: dict[str, Any]) -> ToolSchema:
    """Return what a toolbox knows from an announcement."""
    async with Toolbox(bus, source="test") as toolbox:
        await bus.publish("tool.schema", json.dumps({"payload": payload}).encode())
        await eventually(lambda: toolbox.schemas)
        (schema,) = toolbox.schemas
        return schema


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        pytest.param({}, (False, True, True, False), id="nothing"),
        pytest.param(
            {"reads_memory": True, "for_models": False, "recorded": False, "whole": True},
            (True, False, False, True),
            id="everything",
        ),
        pytest.param(
            {"reads_memory": "yes", "for_models": None, "recorded": 0, "whole": 1},
            (False, True, True, False),
            id="values of wrong types",
        ),
    ],
)
@pytest.mark.parametrize("form", [{"schema": FUNCTION}, {"function": FUNCTION}, FUNCTION])
async def test_a_tool_may_announce_in_every_form_how_its_results_are_treated(
    bus: Connection, attributes: dict[str, Any], form: dict[str, Any], expected: tuple[bool, ...]
) -> None:
    schema = await announced(bus, {**form, **attributes})

    treated = (schema.reads_memory, schema.for_models, schema.recorded, schema.whole)
    assert treated == expected


@pytest.mark.parametrize(
    ("attributes", "title", "hints"),
    [
        ({}, "", ToolHints()),
        (
            {"title": "Weather", "annotations": {"readOnlyHint": True, "idempotentHint": False}},
            "Weather",
            ToolHints(read_only_hint=True, idempotent_hint=False),
        ),
        ({"annotations": {"title": "Weather"}}, "Weather", ToolHints()),
        ({"title": 7, "annotations": {"readOnlyHint": "yes", "x": True}}, "", ToolHints()),
        ({"title": None, "annotations": [True]}, "", ToolHints()),
    ],
)
@pytest.mark.parametrize("form", [{"schema": FUNCTION}, {"function": FUNCTION}, FUNCTION])
async def test_a_tool_may_announce_in_every_form_its_title_and_hints(
    bus: Connection, attributes: dict[str, Any], form: dict[str, Any], title: str, hints: ToolHints
) -> None:
    schema = await announced(bus, {**form, **attributes})

    assert (schema.title, schema.annotations) == (title, hints)


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


@pytest.mark.parametrize(
    ("announcement", "reason"),
    [
        pytest.param(b"nonsense", "not JSON", id="text"),
        pytest.param(b"[" * 100_000, "not JSON", id="nested without end"),
        pytest.param(b'{"payload": []}', "not a JSON object", id="a list"),
        pytest.param(b'{"payload": {"description": "What?"}}', "names no tool", id="no name"),
        pytest.param(b'{"payload": {"name": "a.*"}}', "not a tool name", id="a wildcard"),
        pytest.param(
            b'{"payload": {"name": "a", "parameters": ["city"]}}', "`object`", id="a list of names"
        ),
        pytest.param(
            b'{"payload": {"name": "a", "parameters": {"properties": {"city": "text"}}}}',
            "`$.properties[...]`",
            id="properties that are no schemas",
        ),
    ],
)
async def test_a_toolbox_logs_the_reason_for_refusing_an_announcement_once(
    bus: Connection, notes: Notes, tmp_path: Path, announcement: bytes, reason: str
) -> None:
    log = tmp_path / "own.log"

    def refusals() -> list[str]:
        lines = map(json.loads, log.read_text().splitlines())
        return [line["reason"] for line in lines if line["event"] == "announcement_refused"]

    with logging_to(log):
        async with Toolbox(bus, source="test") as toolbox:
            for _ in range(3):
                await bus.publish("tool.schema", announcement)
            async with ToolHost(bus, notes.tool()):
                await eventually(lambda: toolbox.schemas)
    assert [schema.name for schema in toolbox.schemas] == ["note"]
    (logged_reason,) = refusals()
    assert reason in logged_reason


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
