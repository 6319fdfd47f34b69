"""What a tool announced, whoever made the tool: read as liberally as it can be.

Understood are our own form (`ToolSchema`), the schema that LLM APIs take as the whole payload, and
a name with its parameters, as MCP lists them; each with or without an envelope.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from local.errors import BadRequestError, echoed
from local.protocol import subjects
from local.protocol.payloads import Function, FunctionSchema, Json, ToolSchema

PARAMETERS = ("parameters", "inputSchema", "input_schema")
SHAPE = "Announce {type: function, function: {name, description, parameters}} as the payload."


class _Parameters(msgspec.Struct):
    """What models and the command line go by in a tool's parameters."""

    properties: dict[str, Json | bool] = {}
    required: list[str] = []


def read_schema(data: bytes) -> ToolSchema:
    """Read what came on `tool.schema`.

    Raises:
        BadRequestError: It is no JSON object, names no tool that can be called, or its parameters
            are no JSON schema.
    """
    try:
        whole = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"It is not JSON: {echoed(error)}.", remedy=SHAPE) from error
    payload = whole.get("payload", whole) if isinstance(whole, dict) else whole
    if not isinstance(payload, dict):
        raise BadRequestError("It is no JSON object.", remedy=SHAPE)
    schema = payload.get("schema")
    functions = [_object(schema, "function"), _object(payload, "function")]
    said = [each for each in (payload, *functions, schema) if isinstance(each, dict)]
    if not (name := _first_text("name", said)):
        raise BadRequestError("It names no tool.", remedy=SHAPE)
    description = _first_text("description", said)
    parameters = _parameters(said, schema)
    function = Function(name=name, description=description, parameters=parameters)
    return ToolSchema(
        name=subjects.checked_tool_name(name),
        description=description,
        version=_first_text("version", said),
        tool_schema=FunctionSchema(function=function),
        reads_memory=payload.get("reads_memory") is True,
        for_models=payload.get("for_models") is not False,
        recorded=payload.get("recorded") is not False,
        whole=payload.get("whole") is True,
    )


def _object(fields: object, name: str) -> object:
    return fields.get(name) if isinstance(fields, dict) else None


def _first_text(name: str, said: Sequence[Mapping[str, Any]]) -> str:
    return next((each[name] for each in said if isinstance(each.get(name), str)), "")


def _parameters(said: Sequence[Mapping[str, Any]], schema: object) -> Json:
    """None are an object without properties; `schema` may be the parameters alone."""
    declared = [each[name] for each in said for name in PARAMETERS if each.get(name) is not None]
    alone = schema if _object(schema, "properties") is not None else {"properties": {}}
    try:
        given = msgspec.convert(declared[0] if declared else alone, Json)
        given = {key: value for key, value in given.items() if value is not None}
        properties = msgspec.convert(given, _Parameters).properties
    except msgspec.ValidationError as error:
        raise BadRequestError(f"Its parameters are no JSON schema: {echoed(error)}.") from error
    if properties:  # some model servers do not know that `true` is a schema, of any value
        given["properties"] = {name: {} if p is True else p for name, p in properties.items()}
    return {"type": "object", **given}
