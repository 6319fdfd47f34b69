"""Turns and ratings are read in the forms in which other agents publish them."""

import json
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from local2.errors import BadRequestError
from local2.protocol.lenient.turns import (
    Reading,
    read_feedback,
    read_generation,
    read_query,
    source_of,
)
from local2.protocol.lenient.values import as_text
from local2.protocol.payloads import Feedback, Generation, Query, ToolCallRecord


def read(payload: dict[str, Any], **envelope: Any) -> Reading[Generation]:
    turn = {"query": "How heavy is it?", "answer": "19.3 g.", **payload}
    return read_generation(json.dumps({**envelope, "payload": turn}).encode())


def calls(reported: Any) -> list[ToolCallRecord]:
    return read({"tool_calls": reported}).envelope.payload.tool_calls


WEIGHED = ToolCallRecord(id="c1", name="weigh", args={"of": "gold"}, content="19.3 g")


@pytest.mark.parametrize(
    "reported",
    [
        pytest.param(
            {"id": "c1", "name": "weigh", "args": {"of": "gold"}, "content": "19.3 g"}, id="our own"
        ),
        pytest.param(
            {
                "id": "c1",
                "type": "function",
                "function": {"name": "weigh", "arguments": '{"of": "gold"}'},
                "content": "19.3 g",
            },
            id="OpenAI",
        ),
        pytest.param(
            {"id": "c1", "tool": "weigh", "args": {"of": "gold"}, "result": "19.3 g"}, id="tool"
        ),
        pytest.param(
            {"id": "c1", "tool_name": "weigh", "input": {"of": "gold"}, "output": "19.3 g"},
            id="tool_name",
        ),
        pytest.param(
            {"call_id": "c1", "name": "weigh", "arguments": {"of": "gold"}, "response": "19.3 g"},
            id="response",
        ),
        pytest.param(
            {
                "id": "c1",
                "name": "weigh",
                "input": {"of": "gold"},
                "result": [{"type": "text", "text": "19.3 g"}],
            },
            id="a result in parts",
        ),
        pytest.param(
            {"id": "c1", "name": "weigh", "args": {"of": "gold"}, "content": "19.3 g", "ms": 4},
            id="with a field of its own",
        ),
    ],
)
def test_a_call_is_the_same_call_in_every_form(reported: dict[str, Any]) -> None:
    assert calls([reported]) == calls(reported) == [WEIGHED]


def test_a_separately_reported_result_belongs_to_its_call() -> None:
    tool_use = {"type": "tool_use", "id": "c1", "name": "weigh", "input": {"of": "gold"}}
    answered = {"type": "tool_result", "tool_use_id": "c1", "content": "19.3 g"}

    assert calls([tool_use, answered]) == [WEIGHED]


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        pytest.param(None, [], id="null"),
        pytest.param([], [], id="none"),
        pytest.param(["weigh", "wait"], [("weigh", ""), ("wait", "")], id="names"),
        pytest.param("weigh", [("weigh", "")], id="a name"),
        pytest.param(
            {"weigh": {"args": {"of": "gold"}, "result": "19.3 g"}, "wait": {"for": 3}},
            [("weigh", "19.3 g"), ("wait", "")],
            id="an object of calls",
        ),
        pytest.param({"weigh": "19.3 g"}, [("weigh", "19.3 g")], id="an object of results"),
        pytest.param({"weigh": 2}, [("weigh", "")], id="an object of counts"),
        pytest.param(
            {"weigh": [{"result": "1 g"}, {"result": "2 g"}]},
            [("weigh", "1 g"), ("weigh", "2 g")],
            id="an object of lists",
        ),
        pytest.param(
            [{"tool": "weigh", "result": {"g": 19.3}}, {"tool": "list", "result": [1, 2]}],
            [("weigh", '{"g":19.3}'), ("list", "[1,2]")],
            id="results that are no text",
        ),
        pytest.param(
            [{"tool": "weigh", "result": 0}, {"tool": "wait", "result": False}],
            [("weigh", "0"), ("wait", "false")],
            id="results that are next to nothing",
        ),
    ],
)
def test_calls_are_read_in_any_form(reported: Any, expected: list[tuple[str, str]]) -> None:
    assert [(call.name, call.content) for call in calls(reported)] == expected


@pytest.mark.parametrize(
    "reported",
    [
        pytest.param({"tool": "weigh", "error": "No scales."}, id="an error"),
        pytest.param({"tool": "weigh", "ok": False, "result": "No scales."}, id="not ok"),
        pytest.param({"tool": "weigh", "success": False, "result": "No scales."}, id="no success"),
        pytest.param({"tool": "weigh", "is_error": True, "result": "No scales."}, id="is_error"),
    ],
)
def test_a_failed_call_is_read_as_failed(reported: dict[str, Any]) -> None:
    (call,) = calls([reported])

    assert (call.ok, call.content) == (False, "No scales.")


@pytest.mark.parametrize(
    ("payload", "unread"),
    [
        ({"tool_calls": 3}, "payload.tool_calls: expected a list, got a number"),
        ({"tool_calls": [7]}, "payload.tool_calls[0]: expected a call, got a number"),
        ({"tool_calls": [{"ms": 4}]}, "payload.tool_calls[0]: the call has no name"),
        ({"thinking": 3}, "payload.thinking: expected text, got a number"),
        (
            {"session_id": ["s1"]},
            "payload.session_id: expected an id of at most 256 characters without NUL, got a list",
        ),
        (
            {"query_id": "q" * 257},
            "payload.query_id: expected an id of at most 256 characters without NUL, got a text",
        ),
    ],
)
def test_unreadable_fields_are_named_and_the_turn_is_read(
    payload: dict[str, Any], unread: str
) -> None:
    found = read(payload)

    assert found.unread == (unread,)
    assert found.envelope.payload.answer == "19.3 g."


def test_a_fully_readable_turn_names_no_unread_fields() -> None:
    assert read({"tool_calls": None, "thinking": None, "error": None, "mood": "good"}).unread == ()


@pytest.mark.parametrize(
    ("thinking", "expected"),
    [
        (None, None),
        ("Gold.", "Gold."),
        (["Gold.", "It is heavy."], "Gold.\nIt is heavy."),
        ([{"type": "thinking", "thinking": "Gold."}], "Gold."),
        ({"text": "Gold."}, "Gold."),
        ({}, None),
    ],
)
def test_thinking_is_read_in_any_form(thinking: Any, expected: str | None) -> None:
    found = read({"thinking": thinking})

    assert (found.envelope.payload.thinking, found.unread) == (expected, ())


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        ([{"type": "text", "text": "19.3 g."}], "19.3 g."),
        ([{"type": "text", "text": "19.3"}, {"type": "image_url"}, "g."], "19.3\n[image]\ng."),
        ({"role": "assistant", "content": [{"type": "text", "text": "19.3 g."}]}, "19.3 g."),
        ([{"type": "text", "text": {"value": "19.3 g."}}], "19.3 g."),
        ({"role": "model", "parts": [{"text": "19.3 g."}]}, "19.3 g."),
        ({"role": "assistant", "content": {"grams": 19.3}}, '{"grams":19.3}'),
        ([{"type": "image_url", "image_url": {"url": "data:"}}], "[image]"),
        (42, "42"),
        (False, "false"),
        ({"city": "Oslo", "days": [1]}, '{"city":"Oslo","days":[1]}'),
        ([4, 2], "[4,2]"),
    ],
)
def test_query_and_answer_may_be_made_of_parts_or_be_no_text(content: Any, expected: str) -> None:
    turn = read({"query": content, "answer": content}).envelope.payload

    assert (turn.query, turn.answer) == (expected, expected)


ANTHROPIC = [
    {"type": "thinking", "thinking": "Heavy."},
    {"type": "text", "text": "19.3 g."},
    {"type": "tool_use", "id": "c1", "name": "weigh", "input": {"of": "gold"}},
    {"type": "tool_result", "tool_use_id": "c1", "content": "19.3 g"},
]
GEMINI = [
    {"text": "Heavy.", "thought": True},
    {"text": "19.3 g."},
    {"functionCall": {"id": "c1", "name": "weigh", "args": {"of": "gold"}}},
    {"functionResponse": {"id": "c1", "response": "19.3 g"}},
]


@pytest.mark.parametrize(
    "answer",
    [
        ANTHROPIC,
        {"role": "assistant", "content": ANTHROPIC},
        GEMINI,
        {"role": "model", "parts": GEMINI},
    ],
    ids=["Anthropic's", "in a message", "Gemini's", "in a message of Gemini's"],
)
def test_thoughts_and_calls_among_the_blocks_are_not_part_of_the_answer(answer: Any) -> None:
    found = read({"answer": answer})
    turn = found.envelope.payload

    assert (turn.answer, turn.thinking, turn.tool_calls) == ("19.3 g.", "Heavy.", [WEIGHED])
    assert found.unread == ()


CALL = {
    "id": "c1",
    "type": "function",
    "function": {"name": "weigh", "arguments": '{"of": "gold"}'},
}
COMPLETION = {
    "object": "chat.completion",
    "choices": [
        {
            "index": 0,
            "message": {
                "role": "assistant",
                "content": "19.3 g.",
                "reasoning_content": "Heavy.",
                "tool_calls": [CALL],
            },
            "finish_reason": "stop",
        }
    ],
    "usage": {"total_tokens": 9},
}
RESPONSE = {
    "object": "response",
    "output": [
        {"id": "r1", "type": "reasoning", "summary": [{"type": "summary_text", "text": "Heavy."}]},
        {
            "id": "f1",
            "type": "function_call",
            "call_id": "c1",
            "name": "weigh",
            "arguments": '{"of": "gold"}',
        },
        {
            "id": "m1",
            "type": "message",
            "role": "assistant",
            "content": [{"type": "output_text", "text": "19.3 g.", "annotations": []}],
        },
    ],
    "usage": {"total_tokens": 9},
}
DUMPED = {
    "content": "19.3 g.",
    "additional_kwargs": {"reasoning_content": "Heavy."},
    "type": "ai",
    "tool_calls": [{"name": "weigh", "args": {"of": "gold"}, "id": "c1", "type": "tool_call"}],
}
CONSTRUCTED = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "schema", "messages", "AIMessage"],
    "kwargs": DUMPED,
}


def delta(**fields: Any) -> dict[str, Any]:
    return {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": fields}]}


def candidate(*parts: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": parts}, "index": 0}]}


def lang_chunk(**fields: Any) -> dict[str, Any]:
    of = ["langchain", "schema", "messages", "AIMessageChunk"]
    kwargs = {"content": "", "type": "AIMessageChunk", "tool_calls": [], **fields}
    return {"lc": 1, "type": "constructor", "id": of, "kwargs": kwargs}


COMPLETION_CHUNKS = [
    delta(role="assistant", content=""),
    delta(reasoning_content="Hea"),
    delta(reasoning_content="vy."),
    delta(content="19"),
    delta(content=".3 g."),
    delta(tool_calls=[{**CALL, "index": 0, "function": {"name": "weigh", "arguments": ""}}]),
    delta(tool_calls=[{"index": 0, "function": {"arguments": '{"of": '}}]),
    delta(tool_calls=[{"index": 0, "function": {"arguments": '"gold"}'}}]),
    {"object": "chat.completion.chunk", "choices": [], "usage": {"total_tokens": 9}},
]
RESPONSE_EVENTS = [
    {"type": "response.created", "response": {"output": []}},
    {"type": "response.reasoning_summary_text.delta", "delta": "Hea"},
    {"type": "response.reasoning_summary_text.delta", "delta": "vy."},
    {"type": "response.output_item.done", "item": RESPONSE["output"][1]},  # type: ignore[index]
    {"type": "response.output_text.delta", "delta": "19"},
    {"type": "response.output_text.delta", "delta": ".3 g."},
    {"type": "response.output_item.done", "item": RESPONSE["output"][2]},  # type: ignore[index]
]
ANTHROPIC_EVENTS = [
    {"type": "message_start", "message": {"role": "assistant", "content": []}},
    {
        "type": "content_block_start",
        "index": 0,
        "content_block": {"type": "thinking", "thinking": ""},
    },
    {"type": "content_block_delta", "index": 0, "delta": {"thinking": "Heavy."}},
    {"type": "content_block_start", "index": 1, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": "19"}},
    {"type": "content_block_delta", "index": 1, "delta": {"type": "text_delta", "text": ".3 g."}},
    {"type": "content_block_stop", "index": 1},
    {
        "type": "content_block_start",
        "index": 2,
        "content_block": {"type": "tool_use", "id": "c1", "name": "weigh", "input": {}},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '{"of": '},
    },
    {
        "type": "content_block_delta",
        "index": 2,
        "delta": {"type": "input_json_delta", "partial_json": '"gold"}'},
    },
    {"type": "message_stop"},
]
GEMINI_CHUNKS = [
    candidate({"text": "Hea", "thought": True}),
    candidate({"text": "vy.", "thought": True}, {"text": "19"}),
    candidate({"text": ".3 g."}, GEMINI[2]),
    {"candidates": [{"finishReason": "STOP", "index": 0}], "usageMetadata": {"total": 9}},
]
LANGCHAIN_CHUNKS = [
    lang_chunk(additional_kwargs={"reasoning_content": "Heavy."}),
    lang_chunk(content="19"),
    lang_chunk(content=[{"type": "text", "text": ".3 g.", "index": 0}]),
    lang_chunk(tool_call_chunks=[{"name": "weigh", "args": "", "id": "c1", "index": 1}]),
    lang_chunk(tool_call_chunks=[{"name": None, "args": '{"of": "gold"}', "index": 1}]),
]
OLLAMA_CHUNKS = [
    {"message": {"role": "assistant", "content": "", "thinking": "Heavy."}, "done": False},
    {"message": {"role": "assistant", "content": "19"}, "done": False},
    {"message": {"role": "assistant", "content": ".3 g.", "tool_calls": [CALL]}, "done": True},
]


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param(COMPLETION, id="a chat completion"),
        pytest.param(COMPLETION["choices"][0]["message"], id="its message"),  # type: ignore[index]
        pytest.param(COMPLETION_CHUNKS, id="chunks of a chat completion"),
        pytest.param(RESPONSE, id="a response of the Responses API"),
        pytest.param(RESPONSE["output"], id="its output"),
        pytest.param(RESPONSE_EVENTS, id="events of the Responses API"),
        pytest.param(
            [*RESPONSE_EVENTS, {"type": "response.completed", "response": RESPONSE}],
            id="events of the Responses API, with the last one",
        ),
        pytest.param(ANTHROPIC_EVENTS, id="Anthropic's events"),
        pytest.param(candidate(*GEMINI[:3]), id="Gemini's candidates"),
        pytest.param(GEMINI_CHUNKS, id="chunks of Gemini's"),
        pytest.param(DUMPED, id="LangChain's message"),
        pytest.param({"type": "ai", "data": DUMPED}, id="LangChain's message in an object"),
        pytest.param(CONSTRUCTED, id="LangChain's constructor"),
        pytest.param([CONSTRUCTED], id="a list of LangChain's constructors"),
        pytest.param({"generations": [[{"text": "", "message": CONSTRUCTED}]]}, id="a generation"),
        pytest.param(LANGCHAIN_CHUNKS, id="LangChain's chunks"),
        pytest.param(OLLAMA_CHUNKS, id="Ollama's chunks"),
        pytest.param(json.dumps(COMPLETION, indent=2), id="a completion as text"),
        pytest.param(json.dumps(RESPONSE, indent=2), id="a response as text"),
        pytest.param(json.dumps(CONSTRUCTED, indent=2), id="LangChain's constructor as text"),
    ],
)
def test_of_a_whole_response_the_text_is_the_answer(answer: Any) -> None:
    found = read({"answer": answer})
    turn = found.envelope.payload

    assert (turn.answer, turn.thinking) == ("19.3 g.", "Heavy.")
    assert turn.tool_calls == [msgspec.structs.replace(WEIGHED, content="")]
    assert found.unread == ()


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"response": "19.3 g.", "done": True, "context": [1]}, id="Ollama's generate"),
        pytest.param(
            [{"response": "19.3", "done": False}, {"response": " g.", "done": True}],
            id="chunks of Ollama's generate",
        ),
        pytest.param(
            {
                "id": "c",
                "message": {"role": "assistant", "content": [{"type": "text", "text": "19.3 g."}]},
                "finish_reason": "COMPLETE",
            },
            id="Cohere's chat",
        ),
        pytest.param(
            {"output": {"message": {"role": "assistant", "content": [{"text": "19.3 g."}]}}},
            id="Bedrock's Converse",
        ),
        pytest.param([{"generated_text": "19.3 g."}], id="Hugging Face's generation"),
    ],
)
def test_a_response_of_a_smaller_api_is_its_text(answer: Any) -> None:
    found = read({"answer": answer})

    assert (found.envelope.payload.answer, found.unread) == ("19.3 g.", ())


def test_of_several_choices_the_first_is_the_answer_and_the_others_are_named_as_unread() -> None:
    several = [{"index": i, "message": {"role": "assistant", "content": f"{i} g."}} for i in (1, 2)]
    found = read({"answer": {"choices": several}})

    assert found.envelope.payload.answer == "1 g."
    assert found.unread == ("payload.answer: expected one answer, got 2",)


def test_a_call_that_is_reported_and_in_the_response_is_one_call() -> None:
    turn = read({"answer": COMPLETION, "tool_calls": msgspec.to_builtins([WEIGHED])})

    assert turn.envelope.payload.tool_calls == [WEIGHED]


@pytest.mark.parametrize(
    "answer",
    [
        {"choices": ["gold", "lead"]},
        {"output": "19.3 g."},
        {"output": [{"type": "ring", "grams": 19.3}]},
        {"candidates": [{"name": "Ann"}]},
        {"data": {"grams": 19.3}, "type": "ring"},
        {"message": {"to": "Ann"}, "done": True},
        {"message": {"to": "Ann"}, "finish_reason": "sold"},
        {"output": {"message": {"to": "Ann"}}},
        {"response": {"grams": 19.3}, "done": True},
        {"generated_text": ["Ann"]},
        {"generations": [1, 2]},
        '{"grams": 19.3}',
        '{"role": "admin", "content": "x"}',
        "{19.3",
    ],
)
def test_json_of_an_agent_that_only_resembles_a_response_is_the_answer(answer: Any) -> None:
    assert read({"answer": answer}).envelope.payload.answer == as_text(answer)


@pytest.mark.parametrize(
    "answer", [[{"type": "response.completed"}], {"choices": [{"message": {"content": [1]}}]}]
)
def test_an_incomplete_response_is_read_all_the_same(answer: Any) -> None:
    assert read({"answer": answer}).envelope.payload.answer


def dumped(role: str, **fields: Any) -> dict[str, Any]:
    """A message in the form of LangChain's `dumps`."""
    id_ = ["langchain", "schema", "messages", f"{role}Message"]
    return {"lc": 1, "type": "constructor", "id": id_, "kwargs": fields}


WEIGHING = {"id": "c1", "name": "weigh", "args": {"of": "gold"}}
CONVERSATIONS = {
    "of LangChain, dumped": [
        dumped("Human", content="What is gold?", type="human"),
        dumped("AI", content="A metal.", type="ai"),
        dumped("Human", content="Is it heavy?", type="human"),
        dumped("AI", content="I weigh it.", tool_calls=[WEIGHING], type="ai"),
        dumped("Tool", content="19.3 kg", tool_call_id="c1", type="tool"),
        dumped("AI", content="Very.", type="ai"),
    ],
    "of LangChain": [
        {"type": "human", "content": "Is it heavy?"},
        {"type": "ai", "content": "", "tool_calls": [WEIGHING]},
        {"type": "tool", "content": "19.3 kg", "tool_call_id": "c1", "name": "weigh"},
        {"type": "ai", "content": "Very."},
    ],
    "of OpenAI": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Is it heavy?"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "c1", "function": {"name": "weigh", "arguments": '{"of":"gold"}'}}
            ],
        },
        {"role": "tool", "content": "19.3 kg", "tool_call_id": "c1"},
        {"role": "assistant", "content": "Very."},
    ],
    "of Anthropic": [
        {"role": "user", "content": "Is it heavy?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "I weigh it."},
                {"type": "tool_use", "id": "c1", "name": "weigh", "input": {"of": "gold"}},
            ],
        },
        {
            "role": "user",
            "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "19.3 kg"}],
        },
        {"role": "assistant", "content": [{"type": "text", "text": "Very."}]},
    ],
}


@pytest.mark.parametrize("messages", CONVERSATIONS.values(), ids=CONVERSATIONS)
def test_of_a_whole_conversation_its_last_turn_is_the_answer(messages: list[Any]) -> None:
    called = ToolCallRecord(name="weigh", args={"of": "gold"}, content="19.3 kg", id="c1")
    for answer in (messages, {"messages": messages, "step": 4}):
        reading = read({"answer": answer})
        turn = reading.envelope.payload

        assert (turn.answer, turn.tool_calls, reading.unread) == ("Very.", [called], ())


def test_a_state_that_langchain_dumped_as_text_is_read_as_well() -> None:
    state = {"messages": CONVERSATIONS["of LangChain, dumped"]}

    assert read({"answer": json.dumps(state)}).envelope.payload.answer == "Very."


@pytest.mark.parametrize(
    "answer",
    [
        json.dumps({"messages": CONVERSATIONS["of OpenAI"]}),
        json.dumps({"messages": [dumped("Human", content="Is it heavy?", type="human")]}),
        '{"messages": []}',
        "[1]",
    ],
)
def test_a_text_with_a_conversation_that_may_be_asked_for_stays_as_it_is(answer: str) -> None:
    assert read({"answer": answer}).envelope.payload.answer == answer


def test_an_answer_of_only_calls_is_empty() -> None:
    turn = read({"answer": ANTHROPIC[2:], "thinking": "Hm."}).envelope.payload

    assert (turn.answer, turn.thinking, turn.tool_calls) == ("", "Hm.", [WEIGHED])


@pytest.mark.parametrize("nothing", [None, [], {}])
def test_an_empty_value_is_no_answer(nothing: Any) -> None:
    with pytest.raises(BadRequestError, match="answer: expected text"):
        read({"answer": nothing})


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"[1]", "Expected an object, got a list."),
        (b'{"payload": 5}', "payload: expected an object, got a number"),
        (b'{"payload": {"answer": "Au."}}', "query: expected text, got nothing at payload.query."),
        (b'{"query": " ", "answer": "Au."}', "query: the text is blank at query"),
        (b'{"query": "Gold?", "answer": null}', "answer: expected text, got null at answer."),
    ],
)
def test_a_turn_without_a_query_or_an_answer_is_refused_by_name(
    message: bytes, reason: str
) -> None:
    with pytest.raises(BadRequestError, match=reason):
        read_generation(message)


def test_doubly_encoded_calls_and_payloads_are_read() -> None:
    assert calls(json.dumps([msgspec.to_builtins(WEIGHED)])) == [WEIGHED]
    twice = json.dumps({"payload": json.dumps({"query": "Heavy?", "answer": "Yes."})})
    assert read_generation(twice.encode()).envelope.payload.answer == "Yes."


@pytest.mark.parametrize(
    "message",
    [
        {"session_id": 7, "query_id": 1, "payload": {"query": "Heavy?"}},
        {"payload": {"query": "Heavy?", "session_id": 7, "query_id": 1}, "source": None},
        {"query": [{"type": "text", "text": "Heavy?"}], "session_id": "7", "query_id": "1"},
        {"payload": {"query": "Heavy?", "session_id": "7", "query_id": "1"}, "timestamp_utc": 0},
    ],
)
def test_a_question_is_read_in_any_form(message: dict[str, Any]) -> None:
    query = read_query(json.dumps({**message, "id": "e1"}).encode())

    assert query.envelope.payload == Query(query="Heavy?", session_id="7", query_id="1")
    assert (query.envelope.id, query.unread) == ("e1", ())


@pytest.mark.parametrize(("sent", "expected"), [(7, "7"), (7.0, "7"), (1.5, "1.5"), ("", None)])
def test_ids_and_names_may_be_numbers(sent: Any, expected: str | None) -> None:
    envelope = read({"session_id": sent, "query_id": sent}, source=sent, user=sent).envelope

    assert (envelope.payload.session_id, envelope.payload.query_id) == (expected, expected)
    assert (envelope.source, envelope.user or None) == (expected or "", expected)


def test_ids_are_read_from_the_envelope_unless_the_payload_has_them() -> None:
    above = read({"query_id": "q1"}, session_id=7, query_id="q2").envelope.payload

    assert (above.session_id, above.query_id) == ("7", "q1")


NOON = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    "moment",
    [
        "2026-11-20T12:00:00Z",
        "2026-11-20T13:00:00+01:00",
        "2026-11-20 12:00",
        NOON.timestamp(),
        int(NOON.timestamp() * 1000),
        int(NOON.timestamp()) * 10**9,
        str(int(NOON.timestamp())),
        str(int(NOON.timestamp() * 1000)),
    ],
)
def test_a_time_is_read_in_any_unit_and_form(moment: Any) -> None:
    found = read({}, timestamp_utc=moment)

    assert (found.envelope.timestamp_utc, found.unread) == (NOON, ())


@pytest.mark.parametrize(
    "moment", ["yesterday", "0001-01-01T00:00:00+23:59", [2026], True, 10**400, "9" * 5000, {}]
)
def test_an_invalid_time_is_omitted(moment: Any) -> None:
    found = read({}, timestamp_utc=moment)

    assert found.envelope.timestamp_utc is None
    assert [line.partition(":")[0] for line in found.unread] == ["timestamp_utc"]


def test_a_turn_needs_no_envelope() -> None:
    found = read_generation(
        b'{"query": "Heavy?", "answer": "Yes.", "session_id": 4, "source": "critic"}'
    ).envelope

    assert found.payload == Generation(query="Heavy?", answer="Yes.", session_id="4")
    assert found.source == "critic"


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        ("The model is gone.", "internal", "The model is gone."),
        ({"code": "unavailable", "message": "Gone."}, "unavailable", "Gone."),
        ({"code": 500, "detail": "Gone."}, "internal", '{"code":500,"detail":"Gone."}'),
        (True, "internal", "true"),
    ],
)
def test_an_error_is_read_in_any_form(error: Any, code: str, message: str) -> None:
    turn = read({"answer": None, "error": error}).envelope.payload

    assert turn.error is not None
    assert (turn.answer, turn.error.code, turn.error.message) == ("", code, message)


@pytest.mark.parametrize("error", [None, "", False, {}, []])
def test_an_empty_error_is_none(error: Any) -> None:
    assert read({"error": error}).envelope.payload.error is None


def test_an_endlessly_nested_turn_is_refused() -> None:
    for depth in (500, 90_000):
        nested = '{"text":' * depth + "{}" + "}" * depth
        with pytest.raises(BadRequestError):
            read_generation(f'{{"query": "?", "answer": {nested}}}'.encode())


@pytest.mark.parametrize(
    "message",
    [
        {"payload": {"query_id": "7", "score": 0.5, "session_id": "s1", "comment": "Good."}},
        {"payload": {"query_id": 7, "score": "0.5", "session_id": "s1", "comment": ["Good."]}},
        {"query_id": 7, "session_id": "s1", "payload": {"score": 0.5, "comment": "Good."}},
        {"query_id": "7", "session_id": "s1", "score": 0.5, "comment": "Good."},
    ],
)
def test_a_rating_is_the_same_in_every_form(message: dict[str, Any]) -> None:
    found = read_feedback(json.dumps(message).encode())

    expected = Feedback(query_id="7", score=0.5, session_id="s1", comment="Good.")
    assert (found.envelope.payload, found.unread) == (expected, ())


@pytest.mark.parametrize(
    ("score", "got"),
    [(True, "true or false"), ("good", "a text"), (2, "2"), (-1.01, "-1.01"), (None, "null"),
     ([1], "a list")],
)  # fmt: skip
def test_a_rating_needs_a_score(score: Any, got: str) -> None:
    message = {"payload": {"query_id": "7", "score": score}}

    wanted = rf"score: expected a number from -1 to 1, got {got} at payload\.score"
    with pytest.raises(BadRequestError, match=wanted):
        read_feedback(json.dumps(message).encode())


def test_a_rating_needs_a_query_id() -> None:
    with pytest.raises(BadRequestError, match=r"query_id: expected .*, got nothing at payload\."):
        read_feedback(b'{"payload": {"score": 1}}')


@pytest.mark.parametrize(
    ("data", "source"),
    [(b'{"source": "critic"}', "critic"), (b'{"source": {}}', ""), (b"[]", ""), (b"\xff", "")],
)
def test_the_source_of_a_broken_message_is_read_if_possible(data: bytes, source: str) -> None:
    assert source_of(data) == source
