"""What a tool is: a name, a description that helps a small model to choose, and typed arguments.

The schema that a tool announces is made from the type of its arguments, so that announcement and
validation cannot differ.
"""

import re
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from typing import Any

import msgspec

from local.errors import InvalidArgumentsError
from local.protocol.envelope import Caller
from local.protocol.payloads import (
    Function,
    FunctionSchema,
    ToolHints,
    ToolProgress,
    ToolResult,
    ToolSchema,
)

_NO_CHOICE = re.compile(r"^Invalid enum value .* at `args\.([^`]+)`")
_UNKNOWN = re.compile(r"^Object contains unknown field .* at `args(?:\.([^`]+))?`")
_INDEX = re.compile(r"\[[^\]]*\]")

reporter: ContextVar[Callable[[ToolProgress], Awaitable[None]] | None] = ContextVar(
    "reporter", default=None
)
"""Set by a host while a call of its tool is under way."""


async def report(progress: float, total: float | None = None) -> None:
    """Report how far the current call is, if there is one."""
    if (report_progress := reporter.get()) is not None:
        await report_progress(ToolProgress(progress=progress, total=total))


class ToolOutput(msgspec.Struct, kw_only=True):
    """The result of a tool: `content` is text for a model, `data` a Struct for programs."""

    content: str
    data: msgspec.Struct


class McpTool(msgspec.Struct, kw_only=True, omit_defaults=True, rename="camel"):
    """A tool as the Model Context Protocol lists it."""

    name: str
    description: str
    input_schema: dict[str, Any]
    title: str = ""
    annotations: ToolHints = ToolHints()


class Tool(msgspec.Struct, frozen=True, kw_only=True):
    """A tool that a host serves and announces; see ToolSchema for the flags.

    `answering` is called with every result, failures included, just before it is sent.
    """

    name: str
    description: str
    version: str
    args: type[msgspec.Struct]
    run: Callable[[Caller, Any], Awaitable[ToolOutput]]
    title: str = ""
    annotations: ToolHints = ToolHints()
    reads_memory: bool = False
    for_models: bool = True
    recorded: bool = True
    whole: bool = False
    answering: Callable[[Caller, ToolResult], None] | None = None

    def schema(self) -> ToolSchema:
        """Return the announcement on `tool.schema`; the type of the arguments is its parameters."""
        function = Function(
            name=self.name, description=self.description, parameters=parameters_of(self.args)
        )
        return ToolSchema(
            name=self.name,
            description=self.description,
            version=self.version,
            tool_schema=FunctionSchema(function=function),
            title=self.title,
            annotations=self.annotations,
            reads_memory=self.reads_memory,
            for_models=self.for_models,
            recorded=self.recorded,
            whole=self.whole,
        )

    def with_choices(self, error: InvalidArgumentsError) -> InvalidArgumentsError:
        """Return the error; a wrong choice or name gets the possible ones as its remedy."""
        if argument := _NO_CHOICE.search(error.message):
            allowed = self._declared(argument[1]).get("enum", [])
        elif argument := _UNKNOWN.search(error.message):
            allowed = self._declared(argument[1]).get("properties", {})
        else:
            return error
        remedy = f"One of: {', '.join(allowed)}." if allowed else "It takes none."
        return InvalidArgumentsError(error.message, remedy=remedy)

    def _declared(self, path: str | None) -> dict[str, Any]:
        """Return the schema of an argument or of a part of it; without a path, of all arguments."""
        declared = parameters_of(self.args)
        for name in _INDEX.sub("", path).split(".") if path else ():
            declared = declared.get("properties", {}).get(name, {})
            declared = declared.get("items", declared)
        return declared

    def mcp_definition(self) -> McpTool:
        return McpTool(
            name=self.name,
            description=self.description,
            input_schema=parameters_of(self.args),
            title=self.title,
            annotations=self.annotations,
        )


def parameters_of(args: type[msgspec.Struct]) -> dict[str, Any]:
    """Return the JSON schema of a Struct for models: no references, and one type an argument.

    Model servers drop `anyOf`. An optional argument may be left out, so `null` is not needed, and
    the first of several forms suffices.
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
    """Add the type beside an `enum`, which some model servers require."""
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
