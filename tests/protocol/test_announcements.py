"""Announcements of other teams' tools are read in any reasonable form."""

import json
from typing import Any

import pytest

from local2.errors import BadRequestError
from local2.protocol.lenient.tools import read_schema
from local2.protocol.payloads import Function, FunctionSchema, ToolHints, ToolSchema

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
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
in_every_form = pytest.mark.parametrize(
    "form", [{"schema": FUNCTION}, {"function": FUNCTION}, FUNCTION]
)


def announced(payload: dict[str, Any]) -> ToolSchema:
    return read_schema(json.dumps({"payload": payload}).encode())


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
def test_an_announcement_is_read_in_every_reasonable_form(payload: dict[str, Any]) -> None:
    assert announced(payload) == ANNOUNCED
    assert read_schema(json.dumps(payload).encode()) == ANNOUNCED, "without an envelope"


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"parameters": None},
        {"parameters": {}},
        {"parameters": {"properties": {"city": True}, "required": None}},
    ],
)
def test_a_tool_may_announce_a_minimal_schema(parameters: dict[str, Any]) -> None:
    schema = announced({"type": "function", "function": {"name": "ping", **parameters}})

    assert (schema.name, schema.description) == ("ping", "")
    parameters_ = schema.tool_schema.function.parameters
    assert parameters_["type"] == "object"
    assert parameters_.get("properties") in (None, {}, {"city": {}})
    assert "required" not in parameters_


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
@in_every_form
def test_a_tool_may_announce_in_every_form_how_its_results_are_treated(
    attributes: dict[str, Any], form: dict[str, Any], expected: tuple[bool, ...]
) -> None:
    schema = announced({**form, **attributes})

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
@in_every_form
def test_a_tool_may_announce_in_every_form_its_title_and_hints(
    attributes: dict[str, Any], form: dict[str, Any], title: str, hints: ToolHints
) -> None:
    schema = announced({**form, **attributes})

    assert (schema.title, schema.annotations) == (title, hints)


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
def test_what_is_no_announcement_is_refused_with_the_reason(
    announcement: bytes, reason: str
) -> None:
    with pytest.raises(BadRequestError) as refused:
        read_schema(announcement)

    assert reason in str(refused.value)
