"""Unreadable messages for every public subject of the bus."""

from collections.abc import Iterator
from itertools import cycle, islice, product
from typing import NamedTuple

from local2.protocol import subjects
from local2.protocol.services import KEEP_OUTPUT, REINDEX, STATUS

TOOLS = (
    "save_topic", "recall_topic", "remember_fact", "recall", "save_memory", "search_memory",
    "memory_history", "note", "load_session", "add_knowledge", "ingest", "add_document",
    "read_tool_output", "no_such_tool",
)  # fmt: skip
STORED = (subjects.RESPONSE_GENERATION, subjects.RESPONSE_FEEDBACK, subjects.MEMORY_TURN)
"""Subjects on which JetStream acknowledges messages, and unreadable ones are kept."""
PUBLIC = (
    *STORED,
    *map(subjects.tool_request, TOOLS),
    *map(subjects.tool_result, TOOLS),
    *(subjects.discovery(verb) for verb in ("PING", "INFO", "STATS")),
    subjects.TOOL_SCHEMA,
    subjects.TOOL_SCHEMA_REQUEST,
    subjects.QUERY_RECEIVED,
    subjects.RESPONSE_DELTA,
    subjects.MEMORY_SAVED,
    subjects.MEMORY_SUPERSEDED,
    subjects.MEMORY_DEAD_LETTER,
    subjects.MEMORY_PROBE,
    STATUS.subject,
    REINDEX.subject,
    KEEP_OUTPUT.subject,
    subjects.SESSION_COMPACTION,
    subjects.SESSION_CLEAR,
    subjects.SESSION_RESET,
)
HALF = 50_000
WRONG_TYPES = (
    b'{"user": "eve", "session_id": "s1", "payload": {"args": "x", "query": null, "answer": [],'
    b' "query_id": {}, "score": "high", "name": 5, "parameters": 7, "key": 1, "text": {},'
    b' "offset": "0", "content": false, "ok": "no", "session_id": []}}'
)
FORMS = (
    b"",
    b"\xff\xfe\x00\x80 bytes \xc3\x28",
    b"not JSON",
    b'{"payload": {"query": "cut',
    b"null",
    b"[1, 2, 3]",
    b'{"payload": null}',
    WRONG_TYPES,
    b'{"payload": {"args": {"top_k": 1e400, "limit": %s}}}' % (b"9" * 5_000),
    b'{"user": %s, "timestamp_utc": 1e308, "payload": {"args": {}}}' % (b"9" * 400),
    b"[" * HALF + b"]" * HALF,
    b'{"user": "\\ud800", "payload": {"args": {"\\u0000": "\\udfff"}}}',
)


class Garbled(NamedTuple):
    """A message, and whether JetStream should acknowledge it."""

    subject: str
    data: bytes
    is_stored: bool


def garbled(count: int) -> Iterator[Garbled]:
    """Yield this many messages: every form on every subject, then again from the first."""
    every = (Garbled(s, data, s in STORED) for data, s in cycle(product(FORMS, PUBLIC)))
    return islice(every, count)
