"""Tools announce their schemas, and toolboxes learn them."""

import json

import msgspec
import pytest

from factories import Listen
from local.bus.connection import Connection
from local.bus.tool_host import ToolHost
from local.bus.toolbox import Toolbox
from local.protocol.caller import Caller
from local.protocol.codec import decode
from local.protocol.payloads import ToolSchema
from note_tool import Notes
from waiting import eventually

RICHARD = Caller(user="richard", agent="shell", session_id="s1")


async def test_a_tool_announces_itself_when_it_starts(
    bus: Connection, notes: Notes, listen: Listen
) -> None:
    heard = await listen("tool.schema")
    async with ToolHost(bus, notes.tool()):
        await eventually(lambda: heard)

    schema = decode(heard[0].data, ToolSchema).payload
    assert (schema.name, schema.version) == ("note", "1.2.3")
    assert json.loads(heard[0].data)["payload"]["schema"] == {
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
async def test_who_comes_late_asks_for_the_schemas(bus: Connection, listen: Listen) -> None:
    heard = await listen("tool.schema")

    await bus.publish("tool.schema.request", b"")

    await eventually(lambda: heard)
    assert decode(heard[0].data, ToolSchema).payload.name == "note"


async def test_a_toolbox_knows_tools_that_were_there_before_and_that_come_later(
    bus: Connection, notes: Notes
) -> None:
    async with ToolHost(bus, notes.tool()), Toolbox(bus, source="test") as toolbox:
        await eventually(lambda: [schema.name for schema in toolbox.schemas] == ["note"])

        later = msgspec.structs.replace(notes.tool(), name="another")
        async with ToolHost(bus, later):
            await eventually(lambda: len(toolbox.schemas) == 2)


async def test_a_toolbox_settles_when_no_more_schemas_come(bus: Connection, notes: Notes) -> None:
    async with Toolbox(bus, source="test") as toolbox:
        assert await toolbox.settle(quiet=0.01) == []
        async with ToolHost(bus, notes.tool()):
            await eventually(lambda: toolbox.schemas)
            assert [schema.name for schema in await toolbox.settle(quiet=0.01)] == ["note"]


@pytest.mark.parametrize(
    "announcement",
    [
        pytest.param(b"nonsense", id="text"),
        pytest.param(b'{"payload": {"name": "half"}}', id="half a schema"),
        pytest.param(
            b'{"payload": {"name": "a.*", "description": "", "version": "1", "schema": '
            b'{"function": {"name": "a", "description": "", "parameters": {}}}}}',
            id="a name with a wildcard",
        ),
    ],
)
async def test_a_toolbox_ignores_what_is_no_schema(
    bus: Connection, notes: Notes, announcement: bytes
) -> None:
    async with Toolbox(bus, source="test") as toolbox:
        await bus.publish("tool.schema", announcement)
        async with ToolHost(bus, notes.tool()):
            await eventually(lambda: toolbox.schemas)

        assert [schema.name for schema in toolbox.schemas] == ["note"]
