"""The context of a prompt has later statements beside what it recalls."""

from local2.hooks.reminding import recalled_section
from local2.hooks.state import Session
from local2.protocol.payloads import Json, ToolResult


def item(content: str, **fields: object) -> Json:
    return {
        "id": content,
        "source_kind": "chat_message",
        "source_ref": None,
        "content": content,
        "event_time": "2026-05-01T12:00:00Z",
        "score": 0.8,
        "topic": None,
        "memory_type": None,
        "label": None,
        "session_id": "earlier",
        **fields,
    }


def test_a_later_statement_is_shown_with_its_date() -> None:
    sold = {"id": "2", "content": "I sold the Volvo.", "event_time": "2026-05-11T12:00:00Z"}
    found = {"items": [item("I drive a Volvo.", later=[sold])], "total": 1}
    data = {**found, "degraded": False, "rerank_used": False, "reason": None, "answer": None}

    section = recalled_section(ToolResult(ok=True, content="", data=data), "now", Session())

    assert "I drive a Volvo." in section
    assert "[2026-05-01] (later, 2026-05-11: I sold the Volvo.)" in section
