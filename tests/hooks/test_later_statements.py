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


def section_of(*items: Json) -> str:
    found = {"items": list(items), "total": len(items), "degraded": False, "rerank_used": False}
    data = {**found, "reason": None, "answer": None}
    return recalled_section(ToolResult(ok=True, content="", data=data), "now", Session())


def test_a_later_statement_is_shown_with_its_date() -> None:
    sold = {"id": "2", "content": "I sold the Volvo.", "event_time": "2026-05-11T12:00:00Z"}

    section = section_of(item("I drive a Volvo.", later=[sold]))

    assert "I drive a Volvo." in section
    assert "[2026-05-01] (later, 2026-05-11: I sold the Volvo.)" in section


def test_what_another_memory_supersedes_is_left_out() -> None:
    newer = {"type": "supersedes", "id": "2", "incoming": True}
    older = {**newer, "incoming": False}

    section = section_of(
        item("Works at Northwind.", relations=[newer]),
        item("Works at Bluebird.", relations=[older]),
    )

    assert "Northwind" not in section
    assert "Bluebird" in section
