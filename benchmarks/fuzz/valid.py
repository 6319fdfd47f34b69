"""Valid messages and files, at least one of each form: the basis of broken inputs."""

from typing import Any

from local2.protocol.payloads import Json

ID = "0198a1b2c3d4e5f60718293a4b5c6d7e"
MESSAGE: Json = {
    "role": "assistant",
    "content": [{"type": "text", "text": "Osmium."}, {"type": "image", "source": {"data": "AAAA"}}],
    "id": "m1",
    "name": "Clara",
    "timestamp": "2026-05-01T14:30:00+02:00",
    "tool_calls": [{"id": "c1", "function": {"name": "weigh", "arguments": '{"metal": "Os"}'}}],
}
MESSAGES: list[Json] = [
    {"role": "user", "content": "I moved to Basel.", "timestamp": 1_777_777_777},
    MESSAGE,
    {"role": "tool", "tool_call_id": "c1", "content": "22.6", "occurrence": 1},
    {"role": "model", "parts": [{"functionCall": {"name": "weigh", "args": {"metal": "Os"}}}]},
    {"role": "user", "parts": [{"functionResponse": {"name": "weigh", "response": {"kg": 1}}}]},
]
ARGUMENTS: dict[str, Json] = {
    "save_topic": {"topic": "user.language", "content": "Elixir"},
    "recall_topic": {"topic": "user.language"},
    "remember_fact": {
        "content": "The deadline is in May.",
        "scope": "user",
        "topic": "user.deadline",
        "memory_type": "fact",
        "durability": "core",
        "importance": 0.7,
    },
    "retire_fact": {"ids": ["f1"], "reason": "It was moved to June."},
    "edit_memory": {"id": "f1", "content": "The deadline is in June.", "reason": "A typing error."},
    "pin_memories": {"ids": ["f1"], "reason": "It always matters.", "unpin": True},
    "hide_memories": {"ids": ["f1"], "reason": "Not to be brought up."},
    "add_knowledge": {
        "facts": [{"subject": "Ada", "predicate": "is the boss of", "object": "Bob"}],
        "scope": "user",
    },
    "recall": {
        "query": "Where did I move last week?",
        "top_k": 3,
        "source_kinds": ["chat_message", "fact"],
        "scope": "any",
        "enable_rerank": False,
        "since": "2026-05-01",
        "until": "2026-06-01T14:30:00Z",
        "as_of": "2026-05-20",
        "min_relevance": 0.2,
        "synthesize": False,
        "explain": True,
    },
    "save_memory": {
        "content": "The staging cluster moved to Basel.",
        "metadata": {"timestamp_utc": "2026-05-01T14:30:00Z", "query_id": "q1", "source": "review"},
    },
    "search_memory": {"query": "staging", "top_k": 2},
    "memory_history": {"topic_or_id": "user.language"},
    "read_tool_output": {"tool_output_key": "tout_" + "0" * 24, "offset": 0, "limit": 100},
    "note": {"content": "Ask Bob.", "role": "planner"},
    "load_session": {"session_id": "s1", "limit": 10},
    "top_memories": {},
    "ingest": {"messages": MESSAGES, "session_id": "s1", "allow_again": False},
    "add_document": {
        "content": "# Guide\n\nPress the button.\n\n- once\n",
        "title": "Guide",
        "source": "guide.md",
    },
    "read_document": {"source": "guide.md"},
    "relate": {"source": ID, "type": "supports", "target": ID, "remove": False},
    "relations": {"id": ID},
    "consolidate": {"dry_run": True},
    "undo": {"run": ID},
    "audit": {"id": ID, "run": ID, "limit": 10, "before": 100},
    "forget": {"session_id": "s9", "dry_run": True, "allow_again": False},
}
"""Arguments of every tool."""
CALLS: list[Json] = [
    {"name": "weigh", "args": {"metal": "Os"}, "ok": True, "content": "22.6", "id": "c1"},
    {"id": "c2", "function": {"name": "weigh", "arguments": "{}"}},
    {"tool": "weigh", "args": {}, "result": {"kg": 1}},
]
TURN: Json = {
    "query": "What is the densest metal?",
    "answer": "Osmium.",
    "thinking": "Hm.",
    "tool_calls": CALLS,
    "session_id": "s1",
    "query_id": "q1",
    "error": None,
}
QUERY: Json = {"query": "What is the densest metal?", "session_id": "s1", "query_id": "q1"}
RATING: Json = {"query_id": "q1", "score": 0.5, "comment": "Good.", "session_id": "s1"}
SCHEMA: Json = {
    "name": "weigh",
    "description": "Weighs a metal.",
    "version": "1",
    "schema": {
        "type": "function",
        "function": {
            "name": "weigh",
            "description": "Weighs.",
            "parameters": {"type": "object", "properties": {"metal": {"type": "string"}}},
        },
    },
    "reads_memory": False,
    "for_models": True,
}
RESULT: Json = {
    "ok": True,
    "content": [{"type": "text", "text": "22.6"}],
    "data": {"kg": 1},
    "error": {"code": "tool_failed", "message": "It broke."},
    "session_id": "s1",
}
OUTPUT_PART: Json = {"key": "tout_" + "0" * 24, "offset": 0, "text": "22.6", "last": True}
WHEN = "2026-05-01T14:30:00+00:00"
RECORD: Json = {
    "type": "record",
    "id": ID,
    "kind": "fact",
    "content": "The deadline is in May.",
    "event_time": WHEN,
    "source_class": "stated",
    "scope": "user",
    "owner": "ada",
    "topic": "user.deadline",
    "memory_type": "fact",
    "importance": 0.7,
    "metadata": {"a": [1]},
    "agent": "shell",
    "session_id": "s1",
    "query_id": "q1",
    "keywords": ["deadline"],
    "confidence": 0.5,
    "retired_at": None,
    "vector": {"embedder": "e", "data": "AACAPw=="},
}
LINES: list[Json] = [
    {"type": "header", "format": 1, "local2": "0.1.0", "exported_at": WHEN, "records": 2},
    RECORD,
    {**RECORD, "id": "m1", "kind": "chat_message", "scope": "session", "topic": None,
    "role": "user"},
    {"type": "place", "record": "m1", "at": ID, "offset": 0.5},
    {"type": "relation", "source": ID, "relation": "supports", "target": "m1"},
    {"type": "feedback", "owner": "ada", "query_id": "q1", "score": 1, "event_time": WHEN},
    {
        "type": "note", "owner": "ada", "session_id": "s1", "position": 1, "role": "planner",
        "content": "Ask Bob.", "event_time": WHEN, "merges": 0, "merged": 0,
    },
    {
        "type": "output", "owner": "ada", "key": "tout_" + "0" * 24, "first": 0, "until": 4,
        "text": "22.6", "kept_at": WHEN, "last": True,
    },
    {
        "type": "audit", "action": "created", "record_id": ID, "event_time": WHEN, "agent": "shell",
        "user": "ada", "reason": "r", "run": "r1", "detail": {"a": 1},
    },
    {"type": "access", "record": ID, "times": 2, "last": WHEN, "weighed": 1},
    {
        "type": "end",
        "counts": {
            "record": 2, "place": 1, "relation": 1, "feedback": 1, "note": 1, "output": 1,
            "audit": 1, "access": 1,
        },
    },
]  # fmt: skip
"""An export, from its first line to its last."""
CHAT = [{**message, "session_id": "s1"} for message in MESSAGES]
"""The lines of a file for `local2 ingest`."""
SETTINGS = {
    "bus": "url: null\nhost: 127.0.0.1\nport: -1\nrequest_timeout: 10.0\n",
    "memory": "data_dir: .local2\ntop_k: 5\nmin_score: null\nreranker_url:\nanonymise: dry_run\n"
    "vector_timeout: 5.0\nweight_user: 1.1\nembedder: auto\n",
    "generator": "chat: auto\nmodel: gemma4\ntemperature: 0.2\nmax_rounds: 4\nknowledge: false\n"
    "tools: []\nhidden_tools: [a, b]\n",
}
STORY = """name: A story
description: >-
  All there is.
sessions:
  - id: first
    user: richard
    turns:
      - say: Hello
        label: greeting
        times: 2
        expect:
          - tool_called: {name: recall_topic, args: {topic: user.name}}
          - answer_matches: "hel+o"
      - call: save_topic
        args: {topic: user.name, content: Richard}
        eventually: 2
        keep: {saved: data.id}
        expect:
          - result_data: {items.0.id: $user, total: 1}
      - raw: '{"payload": {}}'
        to: save_topic
        expect: [{error_code: bad_request}]
      - publish: {payload: {query: $session, answer: a}}
        to: response.generation
      - rate: -0.5
        of: greeting
      - discover: true
        expect:
          - tools_include: [save_topic]
      - restart: true
tools:
  - name: list_orders
    returns: {repeat: ab, times: 3}
"""


def enveloped(payload: Any) -> Json:
    """Return a message with every possible envelope field."""
    return {
        "id": "r1",
        "type": "request",
        "source": "fuzz",
        "timestamp_utc": "2026-05-01T14:30:00Z",
        "user": "ada",
        "session_id": "s1",
        "query_id": "q1",
        "correlation_id": "c1",
        "deadline_utc": "2999-01-01T00:00:00Z",
        "payload": payload,
    }
