"""`local2 tools` and `local2 call`: list the tools on the bus, and call one."""

from collections.abc import Sequence

import msgspec
from rich.table import Table

from local.cli.answers import NAME, answer_on, fail
from local.cli.output import Output, run_async, shown
from local.client.access import connected
from local.client.tools import Toolbox
from local.errors import InvalidArgumentsError
from local.protocol.envelope import Sender
from local.protocol.payloads import Json, ToolResult, ToolSchema
from local.settings import Settings

SCHEMA_SECONDS = 0.5
"""Seconds to wait for the announcement of a tool; without its schema all arguments are text."""


def list_tools(settings: Settings, output: Output) -> None:
    schemas = run_async(_announced(settings))
    output.data(schemas)
    table = Table("Tool", "Arguments", "When to call it")
    for schema in schemas:
        parameters = schema.tool_schema.function.parameters
        required = parameters.get("required", [])
        names = [n if n in required else f"[{n}]" for n in parameters.get("properties", {})]
        table.add_row(*map(shown, (schema.name, "\n".join(names), schema.description)))
    output.table(table)


async def _announced(settings: Settings) -> list[ToolSchema]:
    async with connected(settings, name=NAME) as bus, Toolbox(bus, source=NAME) as box:
        return await box.settle()


def call(
    settings: Settings, output: Output, tool: str, arguments: Sequence[str], caller: Sender
) -> None:
    result = run_async(_call(settings, tool, arguments, caller))
    if result.error is not None:
        fail(result, output)
    output.data(result)
    output.text(result.content)


async def _call(
    settings: Settings, tool: str, arguments: Sequence[str], caller: Sender
) -> ToolResult:
    async with connected(settings, name=NAME, user=caller.user) as bus:
        async with Toolbox(bus, source=NAME) as box:
            schema = await box.find(tool, within=SCHEMA_SECONDS)
        parameters = schema.tool_schema.function.parameters if schema is not None else {}
        return await answer_on(bus, tool, parsed(arguments, parameters), caller)


def parsed(arguments: Sequence[str], schema: Json) -> Json:
    """The arguments of `key=value` words, typed by the tool's schema; the tool validates them.

    Raises:
        InvalidArgumentsError: A word has no `=`, or a value that must be JSON is not.
    """
    args: Json = {}
    for argument in arguments:
        key, equals, value = argument.partition("=")
        if not equals:
            raise InvalidArgumentsError(
                f"{argument!r} is not KEY=VALUE.", remedy="E.g. topic=user.name content=Richard"
            )
        declared = schema.get("properties", {}).get(key)
        kind = declared.get("type", "string") if isinstance(declared, dict) else "string"
        args[key] = value if kind == "string" else _json(key, value)
    return args


def _json(key: str, value: str) -> object:
    try:
        return msgspec.json.decode(value)
    except msgspec.DecodeError as error:
        raise InvalidArgumentsError(f"{key}: {value!r} is not a JSON value.") from error
