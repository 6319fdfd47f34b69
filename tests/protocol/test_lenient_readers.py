"""Each lenient reader returns what it was sent; anything else is read once and for all, or refused.

What a reader has read, it reads again unchanged.
"""

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from local2.errors import BadRequestError, InvalidArgumentsError
from local2.protocol.conversation import ConversationMessage
from local2.protocol.envelope import encode, seal
from local2.protocol.lenient.messages import messages_of
from local2.protocol.lenient.tools import read_result, read_schema
from local2.protocol.lenient.turns import read_feedback, read_generation, read_query
from local2.protocol.payloads import (
    ErrorReply,
    Feedback,
    Function,
    FunctionSchema,
    Generation,
    Query,
    ToolCallRecord,
    ToolHints,
    ToolResult,
    ToolSchema,
)

Read = Callable[[bytes], Any]


def read_messages(data: bytes) -> list[ConversationMessage]:
    decoded = msgspec.json.decode(data)
    if not isinstance(decoded, dict):
        raise BadRequestError("No object.")
    return messages_of(decoded)


READERS: dict[str, Read] = {
    "generation": lambda data: read_generation(data).envelope.payload,
    "query": lambda data: read_query(data).envelope.payload,
    "feedback": lambda data: read_feedback(data).envelope.payload,
    "result": lambda data: read_result(data).payload,
    "schema": read_schema,
    "messages": read_messages,
}
KEYS = st.sampled_from(
    ["payload", "query", "answer", "thinking", "tool_calls", "error", "code", "message", "metadata",
     "query_id", "session_id", "score", "comment", "source", "user", "timestamp_utc", "id",
     "ok", "content", "data", "success", "is_error", "output", "tool_output_key", "total_chars",
     "name", "tool", "function", "args", "arguments", "parameters", "description", "inputSchema",
     "schema", "annotations", "title", "role", "parts", "text", "call_id", "tool_call_id",
     "function_call", "timestamp", "choices", "delta", "candidates", "item", "response", "summary",
     "generations", "lc", "kwargs", "done", "index", "content_block", "tool_call_chunks", "input"]
)  # fmt: skip
WORDS = st.sampled_from(
    ["user", "assistant", "tool", "function", "message", "reasoning", "function_call", "tool_use",
     "tool_result", "ai", "AIMessageChunk", "text", "image", "response.completed",
     "response.output_item.done", "content_block_start", "content_block_delta", "text_delta",
     "input_json_delta", "2026-05-01T14:30:00Z", '{"of": "gold"}', "[1"]
)  # fmt: skip
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=20)
    | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.builds(
            lambda fields, kind: {**fields, "type": kind},
            st.dictionaries(KEYS, inner, max_size=3),
            WORDS,
        )
    ),
    max_leaves=15,
)
NEEDED: dict[str, Any] = {
    "generation": {"query": "How heavy is it?", "answer": "19.3 g."},
    "query": {"query": "How heavy is it?"},
    "feedback": {"query_id": "q1", "score": 1},
    "result": {},
    "schema": {"name": "weigh"},
    "messages": {"role": "assistant", "content": "19.3 g."},
}
"""Fields without which hardly anything is read; each may be replaced, too."""

TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).map(lambda text: f"{text}.")
ID = st.text("abc-_7", min_size=1, max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ID, inner, max_size=3),
    max_leaves=5,
)
OBJECT = st.dictionaries(ID, JSON, max_size=3)
ERROR = st.builds(ErrorReply, code=st.sampled_from(["unavailable", "internal"]), message=TEXT)
CALL = st.builds(
    ToolCallRecord, name=ID, args=OBJECT, ok=st.booleans(), content=TEXT, id=st.none() | ID,
    recorded=st.booleans(),
)  # fmt: skip
IDS = {"session_id": st.none() | ID, "query_id": st.none() | ID}
WRITTEN: dict[str, st.SearchStrategy[Any]] = {
    "generation": st.builds(
        Generation, answer=TEXT, query=TEXT, thinking=st.none() | TEXT,
        tool_calls=st.lists(CALL, max_size=3), error=st.none() | ERROR, metadata=OBJECT, **IDS,
    ),
    "query": st.builds(Query, query=TEXT, **IDS),
    "feedback": st.builds(
        Feedback, query_id=ID, score=st.floats(-1, 1), comment=st.none() | TEXT,
        session_id=st.none() | ID,
    ),
    "result": st.builds(ToolResult, ok=st.just(True), content=TEXT, data=JSON)
    | st.builds(ToolResult, ok=st.just(False), content=TEXT, error=ERROR),
    "schema": st.builds(
        lambda name, parameters, **declared: ToolSchema(
            name=name, description="Weighs.", version="1",
            tool_schema=FunctionSchema(
                function=Function(name=name, description="Weighs.", parameters=parameters)
            ),
            **declared,
        ),
        ID, st.just({"type": "object", "properties": {"metal": {"type": "string"}}}),
        title=TEXT, annotations=st.builds(ToolHints, read_only_hint=st.none() | st.booleans()),
        reads_memory=st.booleans(), for_models=st.booleans(), recorded=st.booleans(),
        whole=st.booleans(),
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRITTEN)
@given(data=st.data())
@settings(max_examples=30)
def test_what_local2_writes_is_read_as_it_was_written(name: str, data: st.DataObject) -> None:
    written = data.draw(WRITTEN[name])

    assert READERS[name](encode(seal(written, type="", source="critic", user="eve"))) == written


@pytest.mark.parametrize("name", READERS)
@given(fields=st.dictionaries(KEYS, ANYTHING), needed=st.booleans())
@settings(max_examples=50)
def test_anything_is_read_once_and_for_all_or_refused(
    name: str, fields: dict[str, Any], needed: bool
) -> None:
    sent = {**NEEDED[name], **fields} if needed else fields
    try:
        found = READERS[name](msgspec.json.encode(sent))
    except (BadRequestError, InvalidArgumentsError):
        return
    for one in found if isinstance(found, list) else [found]:
        again = READERS[name](msgspec.json.encode(one))
        assert (again[0] if isinstance(again, list) else again) == one
