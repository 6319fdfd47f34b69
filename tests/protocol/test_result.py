"""Results of other teams' tools are read in any reasonable form."""

import json
from typing import Any

import pytest

from local2.errors import BadRequestError
from local2.protocol.lenient.tools import read_result
from local2.protocol.payloads import ErrorReply, ToolResult

SUNNY = ToolResult(ok=True, content="Sunny.")
DEGREES = {"degrees": 21}
PARTS = [{"type": "text", "text": "Sunny."}, {"type": "text", "text": "Warm."}]


def as_bytes(payload: object, **envelope: object) -> bytes:
    return json.dumps({**envelope, "payload": payload}).encode()


def refused(message: str, content: str | None = None) -> ToolResult:
    return ToolResult(
        ok=False,
        content=content or f"Error (tool_failed): {message}",
        error=ErrorReply(code="tool_failed", message=message),
    )


@pytest.mark.parametrize(
    ("payload", "result"),
    [
        pytest.param({"ok": True, "content": "Sunny."}, SUNNY, id="ours"),
        pytest.param({"content": "Sunny."}, SUNNY, id="without ok"),
        pytest.param({"success": True, "content": "Sunny."}, SUNNY, id="success"),
        pytest.param({"tool": "weather", "result": "Sunny."}, SUNNY, id="result"),
        pytest.param({"output": "Sunny."}, SUNNY, id="output"),
        pytest.param({"text": "Sunny.", "content": None}, SUNNY, id="text"),
        pytest.param("Sunny.", SUNNY, id="text alone"),
        pytest.param({"content": ""}, ToolResult(ok=True, content=""), id="nothing to say"),
        pytest.param({"ok": True}, ToolResult(ok=True, content=""), id="done"),
        pytest.param(
            {"content": DEGREES},
            ToolResult(ok=True, content='{"degrees":21}', data=DEGREES),
            id="an object",
        ),
        pytest.param(
            {"ok": True, "content": [1, 2]},
            ToolResult(ok=True, content="[1,2]", data=[1, 2]),
            id="a list",
        ),
        pytest.param({"content": 21.5}, ToolResult(ok=True, content="21.5"), id="a number"),
        pytest.param(False, ToolResult(ok=True, content="false"), id="a value alone"),
        pytest.param(
            {"content": "Sunny.", "data": DEGREES},
            ToolResult(ok=True, content="Sunny.", data=DEGREES),
            id="content and data",
        ),
        pytest.param(
            {"degrees": 21, "session_id": "s1", "query_id": "q1"},
            ToolResult(ok=True, content='{"degrees":21}', data=DEGREES),
            id="an answer of its own form",
        ),
        pytest.param(
            {"content": PARTS, "isError": False},
            ToolResult(ok=True, content="Sunny.\nWarm."),
            id="MCP",
        ),
        pytest.param(
            {"content": PARTS[:1], "isError": True}, refused("Sunny.", "Sunny."), id="MCP, failed"
        ),
        pytest.param({"error": "No city."}, refused("No city."), id="an error"),
        pytest.param(
            {"ok": False, "content": "No city."}, refused("No city.", "No city."), id="not ok"
        ),
        pytest.param(
            {"ok": False, "error": {"code": 404, "message": "No city."}},
            refused("No city."),
            id="a code of its own",
        ),
        pytest.param(
            {"error": {"code": "unavailable", "message": "No radar."}},
            ToolResult(
                ok=False,
                content="Error (unavailable): No radar.",
                error=ErrorReply(code="unavailable", message="No radar."),
            ),
            id="a code of ours",
        ),
        pytest.param({}, refused("The tool's answer is empty."), id="nothing"),
        pytest.param(None, refused("The tool's answer is empty."), id="null"),
    ],
)
def test_a_result_is_read_in_any_reasonable_form(payload: Any, result: ToolResult) -> None:
    assert read_result(as_bytes(payload)).payload == result
    if isinstance(payload, dict):
        assert read_result(json.dumps(payload).encode()).payload == result, "without an envelope"


def test_text_that_is_not_json_is_a_result() -> None:
    assert read_result(b"Sunny.").payload == SUNNY


def test_a_failure_in_the_service_headers_is_an_error_result() -> None:
    read = read_result(b"", {"Nats-Service-Error": "No radar.", "Nats-Service-Error-Code": "503"})

    assert read.payload == refused("No radar.")


def test_bytes_that_are_neither_json_nor_text_are_refused() -> None:
    with pytest.raises(BadRequestError, match="neither JSON nor text"):
        read_result(b"\xff\xfe\x00")


def test_the_call_that_it_answers_may_be_named_in_the_payload() -> None:
    payload = {"result": "Sunny.", "session_id": 7, "query_id": "q1"}

    read = read_result(as_bytes(payload, source="weather", timestamp_utc="yesterday"))

    assert (read.session_id, read.query_id, read.source) == ("7", "q1", "weather")
    assert read.correlation_id is None
    assert read.timestamp_utc is None
