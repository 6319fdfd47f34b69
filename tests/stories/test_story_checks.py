"""A check passes when its expectation is met, and otherwise fails with the actual value."""

from typing import Any

import msgspec
import pytest

from local2.protocol.payloads import ErrorReply, Generation, ToolCallRecord, ToolResult
from local2.stories.checks import (
    ANSWER_CHECKS,
    CHECKS,
    DISCOVERY_CHECKS,
    RESULT_CHECKS,
    Check,
    Outcome,
    problems,
)
from local2.stories.script import Call

TURN = Generation(
    query="Where?",
    answer="It is Canberra.",
    tool_calls=[
        ToolCallRecord(
            name="search_memory", args={"query": "Australia", "top_k": 3}, content="1. Canberra"
        ),
        ToolCallRecord(name="recall_topic", args={"topic": "user.home"}),
    ],
)
FOUND = ToolResult(
    ok=True,
    content="1. Canberra",
    data={"hits": [{"content": "Canberra", "score": 0.5}], "degraded": False, "reason": None},
)
REFUSED = ToolResult(
    ok=False,
    content="Error (bad_request): no args",
    error=ErrorReply(code="bad_request", message="no args"),
)
TOOLS = ("recall_topic", "save_topic")


def parse_check(fields: dict[str, Any]) -> Check:
    return msgspec.convert(fields, Check)


@pytest.mark.parametrize(
    ("check", "outcome"),
    [
        ({"tool_called": {"name": "search_memory"}}, TURN),
        ({"tool_called": {"name": "search_memory", "args": {"query": "AUSTRALIA"}}}, TURN),
        ({"tool_called": {"name": "search_memory", "args": {"query": "~^aus", "top_k": 3}}}, TURN),
        ({"tool_called": {"name": "search_memory", "content": "~canberra"}}, TURN),
        ({"tool_not_called": "save_topic"}, TURN),
        ({"answer_contains": "canberra"}, TURN),
        ({"answer_matches": "^it is C"}, TURN),
        ({"answer_lacks": "Sydney"}, TURN),
        ({"result_ok": True}, FOUND),
        ({"result_ok": False}, REFUSED),
        ({"result_contains": "CANBERRA"}, FOUND),
        ({"result_data": {"hits.0.content": "canberra", "degraded": False}}, FOUND),
        ({"result_data": {"hits.0.content": "~berra$", "hits.0.score": 0.5}}, FOUND),
        ({"result_data": {"hits.1": None, "reason": None}}, FOUND),
        ({"result_data": {"hits.0": {"score": 0.5}}}, FOUND),
        ({"result_data": {"hits": [{"content": "~^can"}]}}, FOUND),
        ({"error_code": "bad_request"}, REFUSED),
        ({"tools_include": ["save_topic"]}, TOOLS),
    ],
)
def test_a_check_passes_when_its_expectation_is_met(
    check: dict[str, Any], outcome: Outcome
) -> None:
    assert problems([parse_check(check)], outcome) == ()


@pytest.mark.parametrize(
    ("check", "outcome", "actual"),
    [
        ({"tool_called": {"name": "save_topic"}}, TURN, "recall_topic"),
        ({"tool_called": {"name": "save_topic"}}, Generation(query="q", answer="a"), "no call"),
        ({"tool_called": {"name": "search_memory", "args": {"query": "Austria"}}}, TURN, "Austral"),
        ({"tool_called": {"name": "search_memory", "args": {"query": "~^tria"}}}, TURN, "Austral"),
        ({"tool_called": {"name": "search_memory", "args": {"user": "x"}}}, TURN, "Australia"),
        ({"tool_called": {"name": "recall_topic", "args": {"top_k": 3}}}, TURN, "user.home"),
        ({"tool_called": {"name": "search_memory", "content": "~Sydney"}}, TURN, "1. Canberra"),
        ({"tool_called": {"name": "recall_topic", "content": "~Canberra"}}, TURN, "1. Canberra"),
        ({"tool_not_called": "search_memory"}, TURN, "search_memory"),
        ({"answer_contains": "Sydney"}, TURN, "It is Canberra."),
        ({"answer_matches": "^Canberra"}, TURN, "It is Canberra."),
        ({"answer_lacks": "canberra"}, TURN, "It is Canberra."),
        ({"result_ok": True}, REFUSED, "no args"),
        ({"result_ok": False}, FOUND, "1. Canberra"),
        ({"result_contains": "Sydney"}, FOUND, "1. Canberra"),
        ({"result_data": {"hits.0.content": "Sydney"}}, FOUND, '"hits.0.content":"Canberra"'),
        ({"result_data": {"hits.0.content": "~Syd"}}, FOUND, "Canberra"),
        ({"result_data": {"hits.1.content": "~."}}, FOUND, '"hits.1.content":null'),
        ({"result_data": {"hits.0": None}}, FOUND, "Canberra"),
        ({"result_data": {"hits.first": "Canberra"}}, FOUND, "null"),
        ({"result_data": {"hits": []}}, FOUND, "Canberra"),
        ({"result_data": {"hits": [{"content": "~^syd"}]}}, FOUND, "Canberra"),
        ({"result_data": {"degraded": 0}}, REFUSED, "null"),
        ({"result_data": {"degraded": True, "reason": None}}, FOUND, '{"degraded":false}'),
        ({"error_code": "invalid_arguments"}, REFUSED, "bad_request"),
        ({"error_code": "bad_request"}, FOUND, "no error"),
        ({"tools_include": ["save_topic", "search_memory"]}, TOOLS, "recall_topic, save_topic"),
        ({"tools_include": ["save_topic"]}, (), "none"),
    ],
)
def test_a_check_fails_with_the_actual_value_otherwise(
    check: dict[str, Any], outcome: Outcome, actual: str
) -> None:
    (problem,) = problems([parse_check(check)], outcome)
    assert problem.expected == str(parse_check(check))
    assert actual in problem.came


def test_a_call_must_succeed_unless_its_failure_is_expected() -> None:
    unexpected = problems(Call(call="x").expected, REFUSED)
    assert [problem.expected for problem in unexpected] == ["result_ok: true"]
    expected = Call(call="x", expect=(Check(error_code="bad_request"),)).expected
    assert problems(expected, REFUSED) == ()


def test_every_check_applies_to_one_kind_of_outcome() -> None:
    groups = (ANSWER_CHECKS, RESULT_CHECKS, DISCOVERY_CHECKS)
    assert sorted(CHECKS) == sorted(Check.__struct_fields__)
    assert sorted(CHECKS) == sorted(name for group in groups for name in group)
