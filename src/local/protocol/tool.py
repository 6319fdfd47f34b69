"""What a tool is: a name, a description that a small model can choose by, typed arguments."""

from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from local.protocol.caller import Caller
from local.protocol.payloads import Function, FunctionSchema, ToolSchema


class ToolOutput(msgspec.Struct, kw_only=True):
    """`content` is text for a model; `data` is a Struct for programs."""

    content: str
    data: msgspec.Struct


class McpTool(msgspec.Struct, kw_only=True, rename="camel"):
    """A tool as the Model Context Protocol lists it."""

    name: str
    description: str
    input_schema: dict[str, Any]


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    description: str
    version: str
    args: type[msgspec.Struct]
    run: Callable[[Caller, Any], Awaitable[ToolOutput]]

    def schema(self) -> ToolSchema:
        """The announcement of `tool.schema`; its parameters come from the arguments' type."""
        function = Function(
            name=self.name, description=self.description, parameters=parameters_of(self.args)
        )
        return ToolSchema(
            name=self.name,
            description=self.description,
            version=self.version,
            tool_schema=FunctionSchema(function=function),
        )

    def mcp_definition(self) -> McpTool:
        return McpTool(
            name=self.name, description=self.description, input_schema=parameters_of(self.args)
        )


def parameters_of(args: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a Struct as models read it: no references, no `null` beside a type.

    Model servers drop `anyOf`; an optional argument may be left out, so `null` need not be offered.
    """
    (_,), components = msgspec.json.schema_components([args])
    schema = dict(components[args.__name__])
    schema.pop("title", None)
    schema["properties"] = {
        name: _without_null(declared) for name, declared in schema["properties"].items()
    }
    return schema


def _without_null(declared: dict[str, Any]) -> dict[str, Any]:
    types = [option for option in declared.get("anyOf", []) if option != {"type": "null"}]
    if len(types) != 1:
        return declared
    described = {k: v for k, v in declared.items() if k not in {"anyOf", "default"}}
    return {**types[0], **described}
