"""Messages of every earlier release are still understood.

A file in `messages/` never changes. When a payload gets a field, its old file stays, and decodes
to the Struct below with the default of that field.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from local2.protocol.envelope import Envelope, decode
from local2.protocol.lenient.tools import read_schema
from local2.protocol.lenient.turns import Reading, read_feedback, read_generation
from local2.protocol.maintenance import MemoryStatus, ModelStatus, ModelUse, TaskCounts
from local2.protocol.payloads import (
    DeadLetter,
    Delta,
    Empty,
    ErrorReply,
    Feedback,
    Function,
    FunctionSchema,
    Generation,
    MemoryChange,
    OutputPart,
    Query,
    ToolCallRecord,
    ToolHints,
    ToolProgress,
    ToolRequest,
    ToolResult,
    ToolSchema,
)
from local2.protocol.vectors import (
    TenantOnly,
    VectorCheck,
    VectorDelete,
    VectorHit,
    VectorHits,
    VectorIdPage,
    VectorIds,
    VectorItem,
    VectorSearch,
    VectorsStored,
    VectorStatus,
    VectorUpsert,
    WorkerReady,
)

MESSAGES = Path(__file__).parent / "messages"
Args = dict[str, Any]
OUTPUT_KEY = "tout_0123456789abcdef01234567"
PREVIEW = (
    f'[Output of 100000 characters, shortened; read_tool_output(tool_output_key="{OUTPUT_KEY}", '
    "offset=3072) reads on.]\nOnce upon a time"
)
SCHEMA = ToolSchema(
    name="recall_topic",
    description="Look up one standing fact.",
    version="0.1.0",
    tool_schema=FunctionSchema(
        function=Function(
            name="recall_topic",
            description="Look up one standing fact.",
            parameters={
                "type": "object",
                "properties": {"topic": {"type": "string"}},
                "required": ["topic"],
            },
        )
    ),
)
STATUS = MemoryStatus(
    records=3,
    indexed=2,
    waiting=1,
    vectors_available=True,
    in_index=2,
    embedder="all-MiniLM-L6-v2",
)

PAYLOADS: Mapping[str, Any] = {
    "tool_request": ToolRequest(args={"topic": "user.name"}),
    "tool_request_minimal": ToolRequest(args={"topic": "user.name"}),
    "tool_request_unknown_fields": ToolRequest(args={"topic": "user.name"}),
    "tool_result": ToolResult(
        ok=True,
        content="[Memory: user.name] Richard",
        data={"topic": "user.name", "found": True, "content": "Richard"},
    ),
    "tool_result_error": ToolResult(
        ok=False,
        content="Error (invalid_arguments): Expected `str`, got `int` - at `args.topic`.",
        error=ErrorReply(
            code="invalid_arguments",
            message="Expected `str`, got `int` - at `args.topic`.",
        ),
    ),
    "tool_result_preview": ToolResult(
        ok=True, content=PREVIEW, tool_output_key=OUTPUT_KEY, total_chars=100_000
    ),
    "tool_schema": SCHEMA,
    "tool_schema_whole": msgspec.structs.replace(SCHEMA, whole=True),
    "tool_schema_annotated": msgspec.structs.replace(
        SCHEMA,
        title="Look up a fact",
        annotations=ToolHints(read_only_hint=True, destructive_hint=False),
    ),
    "tool_progress": ToolProgress(progress=1, total=3, message="1 of 3"),
    "tool_schema_says": msgspec.structs.replace(
        SCHEMA, reads_memory=True, for_models=False, recorded=False, whole=True
    ),
    "tool_schema_request": Empty(),
    "query_received": Query(query="What language do I prefer?", session_id="s1", query_id="q1"),
    "response_delta": Delta(text="You ", index=0, session_id="s1", query_id="q1"),
    "response_generation": Generation(
        answer="You prefer Elixir.",
        query="What language do I prefer?",
        thinking="A preference.",
        tool_calls=[
            ToolCallRecord(
                id="call-1",
                name="recall_topic",
                args={"topic": "user.language_preference"},
                content="[Memory: user.language_preference] Elixir",
            )
        ],
        session_id="s1",
        query_id="q1",
    ),
    "response_generation_full_calls": Generation(
        answer="It is noon.",
        query="What time is it?",
        tool_calls=[ToolCallRecord(id="call-1", name="clock", content="12:00")],
        session_id="s1",
        query_id="q1",
    ),
    "response_generation_not_recorded": Generation(
        answer="It is noon.",
        query="What time is it?",
        tool_calls=[ToolCallRecord(id="call-1", name="clock", content="12:00", recorded=False)],
        session_id="s1",
        query_id="q1",
    ),
    "response_generation_preview": Generation(
        answer="You prefer Elixir.",
        query="What language do I prefer?",
        thinking="A preference.",
        tool_calls=[
            ToolCallRecord(
                id="call-1",
                name="book",
                content=PREVIEW,
                tool_output_key=OUTPUT_KEY,
            )
        ],
        session_id="s1",
        query_id="q1",
    ),
    "response_generation_hint": Generation(
        answer="Saved: osmium (user.metal).",
        query="Remember that my metal is osmium.",
        session_id="s1",
        query_id="q1",
        hint="I answer by rules.",
    ),
    "response_generation_error": Generation(
        answer="",
        query="What language do I prefer?",
        session_id="s1",
        query_id="q1",
        error=ErrorReply(code="unavailable", message="No answer from the model."),
    ),
    "response_feedback": Feedback(query_id="q1", score=0.5, comment="Good."),
    "response_feedback_session": Feedback(
        query_id="q1", score=0.5, comment="Good.", session_id="s1"
    ),
    "memory_saved": MemoryChange(id="m2", kind="fact", topic="user.name"),
    "memory_superseded": MemoryChange(id="m1", kind="fact", topic="user.name", superseded_by="m2"),
    "memory_output_keep": OutputPart(key=OUTPUT_KEY, offset=131_072, text="ever after.", last=True),
    "memory_dead_letter": DeadLetter(
        subject="response.generation", reason="No query.", message="{}"
    ),
    "memory_dead_letter_cut": DeadLetter(
        subject="response.generation",
        reason="answer: expected text, got a number at payload.answer.",
        message='{"payload":{"query":"?","answer":4',
        source="critic",
        cut=True,
    ),
    "memory_status_dead_letters": msgspec.structs.replace(STATUS, dead_letters=2),
    "memory_status_waiting": msgspec.structs.replace(
        STATUS, waiting_since=datetime(2026, 11, 21, 9, 29, 58, tzinfo=UTC)
    ),
    "memory_status_ledger_problem": msgspec.structs.replace(
        STATUS,
        records=0,
        indexed=0,
        waiting=0,
        problem="The database is away.",
        ledger_problem="The database is away.",
    ),
    "memory_status_set_aside": msgspec.structs.replace(
        STATUS,
        indexed=1,
        in_index=1,
        set_aside=[TaskCounts(kind="index", aside=1, errors=("ValueError",))],
    ),
    "memory_status_models": msgspec.structs.replace(
        STATUS,
        models=ModelStatus(
            uses=[
                ModelUse(work="extraction", by="gemma4", problem="No answer."),
                ModelUse(work="judging", by="rules"),
            ],
            calls=12,
            max_calls=5_000,
            tokens=3_400,
            max_tokens=2_000_000,
        ),
    ),
    "memory_status": STATUS,
    "vector_search": VectorSearch(tenant="default", text="language", limit=40),
    "vector_hits": VectorHits(
        hits=[VectorHit("m1", 0.75)], min_score=0.2, embedder="all-MiniLM-L6-v2"
    ),
    "vector_upsert": VectorUpsert(
        tenant="default",
        items=[VectorItem(id="m1", text="Elixir"), VectorItem(id="m2", vector=b"01")],
    ),
    "vectors_stored": VectorsStored(vectors=[b"0", b"1"], embedder="all-MiniLM-L6-v2"),
    "vector_delete": VectorDelete(tenant="default", ids=["m1"]),
    "vector_ids": VectorIds(tenant="default", offset=0, limit=10),
    "vector_id_page": VectorIdPage(ids=["m1"]),
    "vector_tenant": TenantOnly(tenant="default"),
    "vector_status": VectorStatus(
        worker="w1", count=2, embedder="all-MiniLM-L6-v2", clean=True, dimensions=384
    ),
    "vector_ready": WorkerReady(worker="w1"),
    "vector_check": VectorCheck(tenant="default", items=[VectorItem(id="m1", vector=b"0")]),
    "error": ErrorReply(code="unavailable", message="Ollama is down."),
}


@pytest.mark.parametrize(
    "name", [name for name in PAYLOADS if isinstance(PAYLOADS[name], ToolSchema)]
)
def test_an_old_announcement_is_read_with_its_meaning(name: str) -> None:
    assert read_schema((MESSAGES / f"{name}.json").read_bytes()) == PAYLOADS[name]


@pytest.mark.parametrize("name", PAYLOADS)
def test_an_old_message_decodes_with_its_meaning(name: str) -> None:
    expected = PAYLOADS[name]
    kind = ToolRequest[Args] if isinstance(expected, ToolRequest) else type(expected)

    assert decode((MESSAGES / f"{name}.json").read_bytes(), kind).payload == expected


@pytest.mark.parametrize(
    ("name", "read"),
    [(name, read_generation) for name in PAYLOADS if name.startswith("response_generation")]
    + [(name, read_feedback) for name in PAYLOADS if name.startswith("response_feedback")],
)
def test_an_old_turn_or_rating_is_read_with_its_meaning(
    name: str, read: Callable[[bytes], Reading[Any]]
) -> None:
    found = read((MESSAGES / f"{name}.json").read_bytes())

    meant = msgspec.structs.replace(PAYLOADS[name], session_id="s1")
    assert (found.envelope.payload, found.unread) == (meant, ())
    assert found.envelope.user == "richard"


def test_every_stored_message_is_checked() -> None:
    assert {file.stem for file in MESSAGES.iterdir()} == set(PAYLOADS)


def test_an_old_envelope_keeps_all_of_its_fields() -> None:
    envelope = decode((MESSAGES / "tool_request.json").read_bytes(), ToolRequest[Args])

    assert msgspec.structs.asdict(envelope) == {
        "payload": ToolRequest(args={"topic": "user.name"}),
        "id": "019aa3a7-1c3f-7c51-8f6b-0d8f4f1f2a3b",
        "type": "request",
        "source": "generator_agent",
        "timestamp_utc": datetime(2026, 11, 21, 9, 30, 0, 250_000, tzinfo=UTC),
        "user": "richard",
        "session_id": "s1",
        "query_id": "q1",
        "correlation_id": "c1",
        "deadline_utc": datetime(2026, 11, 21, 9, 30, 10, tzinfo=UTC),
    }


def test_a_minimal_request_leaves_the_rest_to_the_host() -> None:
    envelope = decode((MESSAGES / "tool_request_minimal.json").read_bytes(), ToolRequest[Args])

    assert envelope == Envelope(payload=ToolRequest(args={"topic": "user.name"}))
