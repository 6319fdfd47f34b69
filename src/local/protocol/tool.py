"""What a tool is: a name, a description that a small model can choose by, typed arguments."""

import re
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from local.errors import InvalidArgumentsError
from local.protocol.caller import Caller
from local.protocol.payloads import Function, FunctionSchema, ToolResult, ToolSchema

_NO_CHOICE = re.compile(r"^Invalid enum value .* at `args\.([^`]+)`")
_INDEX = re.compile(r"\[[^\]]*\]")


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
    """What a host serves, and what it announces of it: see ToolSchema.

    `answering` hears of every result, failures included, just before it is sent.
    """

    name: str
    description: str
    version: str
    args: type[msgspec.Struct]
    run: Callable[[Caller, Any], Awaitable[ToolOutput]]
    reads_memory: bool = False
    for_models: bool = True
    recorded: bool = True
    whole: bool = False
    answering: Callable[[Caller, ToolResult], None] | None = None

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
            reads_memory=self.reads_memory,
            for_models=self.for_models,
            recorded=self.recorded,
            whole=self.whole,
        )

    def with_choices(self, error: InvalidArgumentsError) -> InvalidArgumentsError:
        """The error of a value that is none of the allowed ones, with those that are."""
        if (argument := _NO_CHOICE.search(error.message)) is None:
            return error
        declared = parameters_of(self.args)
        for name in _INDEX.sub("", argument[1]).split("."):
            declared = declared["properties"].get(name, {})
            declared = declared.get("items", declared)
        choices = declared.get("enum", [])
        return InvalidArgumentsError(error.message, remedy=f"One of: {', '.join(choices)}.")

    def mcp_definition(self) -> McpTool:
        return McpTool(
            name=self.name, description=self.description, input_schema=parameters_of(self.args)
        )


def parameters_of(args: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a Struct as models read it: no references, one type an argument.

    Model servers drop `anyOf`; an optional argument may be left out, so `null` need not be offered,
    and of several forms the first one will do.
    """
    (_,), components = msgspec.json.schema_components([args])
    schema: dict[str, Any] = _inlined(components[args.__name__], components)
    return schema


def _inlined(declared: Any, components: dict[str, Any]) -> Any:
    if isinstance(declared, list):
        return [_inlined(item, components) for item in declared]
    if not isinstance(declared, dict):
        return declared
    declared = _of_one_type(declared)
    if (reference := declared.get("$ref")) is not None:
        described = {key: value for key, value in declared.items() if key != "$ref"}
        named = components[str(reference).rpartition("/")[2]]
        return _inlined({**named, **described}, components)
    return _with_type(
        {
            key: _inlined(value, components)
            for key, value in declared.items()
            if key != "title" or isinstance(value, dict)  # an argument may have that name
        }
    )


def _with_type(declared: dict[str, Any]) -> dict[str, Any]:
    """Some model servers want the type of choices said."""
    choices = declared.get("enum")
    if isinstance(choices, list) and all(isinstance(choice, str) for choice in choices):
        return {"type": "string", **declared}
    return declared


def _of_one_type(declared: dict[str, Any]) -> dict[str, Any]:
    types = [option for option in declared.get("anyOf", []) if option != {"type": "null"}]
    if not types:
        return declared
    described = {k: v for k, v in declared.items() if k not in {"anyOf", "default"}}
    return {**types[0], **described}
