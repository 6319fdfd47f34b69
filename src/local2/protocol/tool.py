"""Tools: a name, a description for small models, typed arguments, and a function.

The announced schema is generated from the type of the arguments, so that announcement and
validation cannot differ.
"""

import math
import re
from collections.abc import Awaitable, Callable, Sequence
from contextvars import ContextVar
from datetime import datetime, timedelta
from difflib import get_close_matches
from functools import cache
from typing import Any, TypeVar

import msgspec

from local2.errors import RequestError
from local2.protocol.envelope import Caller, seconds_until, utc_now
from local2.protocol.msgspec_errors import path_of_invalid_choice, unknown_field
from local2.protocol.payloads import (
    Function,
    FunctionSchema,
    ToolHints,
    ToolProgress,
    ToolResult,
    ToolSchema,
)

E = TypeVar("E", bound=RequestError)

_INDEX = re.compile(r"\[[^\]]*\]")

ALIKE = 0.7
"""Minimum likeness of two names, 0 to 1, for one to be taken for a misspelling of the other."""

Reporter = Callable[[ToolProgress], Awaitable[None]]
reporter: ContextVar[Reporter | None] = ContextVar("reporter", default=None)
"""The function that reports the progress of the current call."""
caller_waits_until: ContextVar[datetime | None] = ContextVar("caller_waits_until", default=None)
"""The deadline of the current call."""
ASSUMED_PATIENCE = timedelta(seconds=5)
"""How long a caller that states no deadline is assumed to wait."""
REST_OF_ANSWER, REST_OF_TIME = 1.0, 0.25
"""Seconds before its deadline at which a call stops waiting, so that the answer arrives in time,
and the fraction of the time left that suffices, if that is less."""


def begin_call(report_progress: Reporter, deadline: datetime | None) -> None:
    """Note how the current task reports its progress, and how long its caller waits."""
    reporter.set(report_progress)
    caller_waits_until.set(deadline or utc_now() + ASSUMED_PATIENCE)


def may_wait() -> float:
    """The seconds that the current call may wait for something; infinite outside a call."""
    if (deadline := caller_waits_until.get()) is None:
        return math.inf
    left = seconds_until(deadline)
    return max(left - min(REST_OF_ANSWER, REST_OF_TIME * left), 0.0)


async def report(progress: float, total: float | None = None) -> None:
    """Report the progress of the current call, if there is one."""
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
    output_schema: dict[str, Any] | None = None
    title: str = ""
    annotations: ToolHints = ToolHints()


class ToolDeclaration(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a tool before it is called; see ToolSchema for the flags.

    `title`: the name for people. `annotations`: what it affects. `answer`: the type of its results'
    data, if it is always the same.
    """

    name: str
    description: str
    version: str
    args: type[msgspec.Struct]
    answer: type[msgspec.Struct] | None = None
    title: str = ""
    annotations: ToolHints = ToolHints()
    reads_memory: bool = False
    for_models: bool = True
    recorded: bool = True
    whole: bool = False

    def schema(self) -> ToolSchema:
        """What is announced on `tool.schema`."""
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
            output_schema=answer_schema(self.answer) if self.answer else None,
        )

    def mcp_definition(self) -> McpTool:
        return McpTool(
            name=self.name,
            description=self.description,
            input_schema=parameters_of(self.args),
            output_schema=answer_schema(self.answer) if self.answer else None,
            title=self.title,
            annotations=self.annotations,
        )


class Tool(ToolDeclaration, frozen=True, kw_only=True):
    """A tool that a host serves and announces.

    `on_result` is called with every result, including failures, just before it is sent.
    """

    run: Callable[[Caller, Any], Awaitable[ToolOutput]]
    on_result: Callable[[Caller, ToolResult], None] | None = None


def with_suggestion(error: E, expected: type[msgspec.Struct]) -> E:
    """Say in the error's remedy which choices, or which names of fields, are valid.

    If a wrong name resembles a valid one, or shares a word with it, the remedy asks whether that
    was meant.
    """
    near: Sequence[str] = ()
    if path := path_of_invalid_choice(error.message):
        allowed = _schema_at(expected, path).get("enum", [])
    elif unknown := unknown_field(error.message):
        allowed = _schema_at(expected, unknown.path).get("properties", {})
        near = get_close_matches(unknown.name, allowed, n=1, cutoff=ALIKE) or [
            name for name in allowed if {*unknown.name.split("_")} & {*name.split("_")}
        ]
    else:
        return error
    remedy = f"One of: {', '.join(allowed)}." if allowed else "None are allowed."
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    return type(error)(error.message, remedy=f"{meant}{remedy}", logged=error.logged)


def _schema_at(expected: type[msgspec.Struct], path: str | None) -> dict[str, Any]:
    """The schema of a field, or of a part of it; without a path, of all of them."""
    declared = parameters_of(expected)
    for name in _INDEX.sub("", path).split(".") if path else ():
        declared = declared.get("properties", {}).get(name, {})
        declared = declared.get("items", declared)
    return declared


@cache
def parameters_of(args: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of a Struct for models: without references, one type per argument.

    Model servers drop `anyOf`, and not all know patterns, which only keep NUL out of names.
    Optional arguments can be left out, so `null` is not needed, and the first of several types
    suffices. The schema is the same for all tenants, and built once.
    """
    (_,), components = msgspec.json.schema_components([args])
    schema: dict[str, Any] = _inlined(components[args.__name__], components)
    return schema


@cache
def answer_schema(answer: type[msgspec.Struct]) -> dict[str, Any]:
    """The JSON schema of the data of a tool's results, without references."""
    (_,), components = msgspec.json.schema_components([answer])
    schema: dict[str, Any] = _inlined(components[answer.__name__], components, every_type=True)
    return schema


def _inlined(declared: Any, components: dict[str, Any], *, every_type: bool = False) -> Any:
    if isinstance(declared, list):
        return [_inlined(item, components, every_type=every_type) for item in declared]
    if not isinstance(declared, dict):
        return declared
    types = [option for option in declared.get("anyOf", []) if option != {"type": "null"}]
    if types and not every_type:
        described = {k: v for k, v in declared.items() if k not in {"anyOf", "default"}}
        declared = {**types[0], **described}
    if (reference := declared.get("$ref")) is not None:
        described = {key: value for key, value in declared.items() if key != "$ref"}
        named = components[str(reference).rpartition("/")[2]]
        return _inlined({**named, **described}, components, every_type=every_type)
    inlined = {
        key: _inlined(value, components, every_type=every_type)
        for key, value in declared.items()
        if key != "title" or isinstance(value, dict)  # an argument may be named "title"
    }
    if not every_type:
        if "default" in inlined and inlined["default"] is None:
            del inlined["default"]  # null is not of the one type
        if isinstance(inlined.get("pattern"), str):  # and no argument of that name
            del inlined["pattern"]
    choices = inlined.get("enum")
    if isinstance(choices, list) and all(isinstance(choice, str) for choice in choices):
        return {"type": "string", **inlined}  # some model servers require it
    return inlined
