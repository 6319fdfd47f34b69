"""Broken requests to a live stack: each gets one answer, and refused requests write nothing."""

import asyncio
import sqlite3
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fuzz.broken import Breaker, random_of
from fuzz.valid import ARGUMENTS, LINES, OUTPUT_PART, QUERY, RATING, RESULT, SCHEMA, TURN, enveloped
from fuzz.wire import Answer, Wire, wired
from harness.client import Asker, asking
from local2.errors import CODES
from local2.protocol import subjects
from local2.protocol.envelope import decode
from local2.protocol.maintenance import ExportPage
from local2.protocol.payloads import ERROR_CODE, ErrorReply, Json, ToolResult
from local2.protocol.services import EXPORT, IMPORT, KEEP_OUTPUT, REINDEX, STATUS

IN_FLIGHT = 256
PATIENCE = 60.0
"""Seconds until the last answer."""
NO_HEADERS = 0.7
ODD_SUBJECTS = 0.03
UNANSWERED_SHARE = 0.1
"""Shares of messages without headers, to unserved subjects, and without a reply."""
EXPENSIVE_SHARE = 0.03
"""Share of messages that cost the stack much work once accepted."""
UNSERVED = ("recall.x", "x" * 300, "no_such_tool", "Ő", "a\x0bb", "\0", "$SRV")
REFUSED = (b".*", b".>", b"..a", b".")
"""Endings of subjects that the server refuses."""
LARGEST = 900_000
"""Bytes of a message; the server disconnects clients that send more than 1 MB."""
NOT_UTF_8 = b"\xff\xc3"
UNANSWERED: tuple[tuple[str, Any], ...] = (
    (subjects.TOOL_SCHEMA, SCHEMA),
    (subjects.tool_result("weigh"), RESULT),
    (subjects.RESPONSE_GENERATION, TURN),
    (subjects.RESPONSE_FEEDBACK, RATING),
    (subjects.MEMORY_TURN, TURN),
    (subjects.MEMORY_SAVED, {"id": "a", "kind": "fact"}),
    (subjects.SESSION_RESET, {"session_id": "s1", "agent_name": "a"}),
    (subjects.MEMORY_FORGOTTEN, {}),
    (subjects.tool_request("recall_topic"), {"args": {"topic": "user.language"}}),
)
"""Subjects on which nobody answers, or nobody waits for the answer."""
LONG = ("forget", "consolidate")
TOOLS = tuple(tool for tool in ARGUMENTS if tool not in LONG)
ANSWERED: tuple[tuple[str, Any], ...] = (
    *((subjects.tool_request(tool), {"args": ARGUMENTS[tool]}) for tool in TOOLS),
    (EXPORT.subject, {"scope": "user", "vectors": True, "cursor": '["record",7,0]'}),
    *((IMPORT.subject, {"number": 2, "lines": [line], "dry_run": False}) for line in LINES[1:-1]),
    (
        IMPORT.subject,
        {"number": 2, "piece": msgspec.json.encode(LINES[1]), "transfer": "t", "part": 0},
    ),
    (KEEP_OUTPUT.subject, OUTPUT_PART),
    (STATUS.subject, {}),
    (subjects.SESSION_CLEAR, {"session_id": "s1"}),
    (subjects.RESPONSE_FEEDBACK, RATING),
)
SLOW: tuple[tuple[str, Any], ...] = (
    (subjects.QUERY_RECEIVED, QUERY),
    (subjects.RESPONSE_GENERATION, TURN),
    (REINDEX.subject, {"embedder": "nobody"}),
    *((subjects.tool_request(tool), {"args": ARGUMENTS[tool]}) for tool in LONG),
)
GOOD = {"ok", "nobody", *CODES} - {"internal"}
"""Acceptable answers; `internal` means a bug of ours."""
REFUSALS = {"bad_request", "invalid_arguments", "too_large", "forbidden", "internal"}
"""Codes of refusals: such requests write nothing, however often they are sent."""
WRITTEN = ("record", "feedback", "note", "tool_output", "relation", "audit")


class Request(NamedTuple):
    """A message as sent over the wire; if it has its own `reply`, nobody waits for an answer."""

    subject: bytes
    data: bytes
    headers: bytes | None = None
    reply: bytes | None = None


class Live(msgspec.Struct, kw_only=True):
    """The outcomes of messages."""

    inputs: int = 0
    codes: Counter[str] = msgspec.field(default_factory=Counter)
    """Answers by their code."""
    unanswered: list[str] = []
    doubled: list[str] = []
    wrong: list[str] = []
    """Requests with unacceptable answers, and these answers."""
    written: int = 0
    """Rows written by refused requests."""
    problems: list[str] = []
    """Problems of the stack or its ledger afterwards."""

    def add(self, other: "Live") -> None:
        """Add another batch."""
        self.inputs += other.inputs
        self.codes += other.codes
        self.unanswered += other.unanswered
        self.doubled += other.doubled
        self.wrong += other.wrong
        self.written += other.written
        self.problems += other.problems

    @property
    def faults(self) -> list[str]:
        """Return the findings, for people."""
        written = [f"{self.written} rows of what was refused"] if self.written else []
        return [*self.unanswered, *self.doubled, *self.wrong, *self.problems, *written]


def request_of(seed: int, number: int) -> Request:
    """Return a broken message, reproducible from its seed and number."""
    random = random_of(seed, number)
    breaker = Breaker(random)
    headers = None if random.random() < NO_HEADERS else breaker.headers()
    chance = random.random()
    if chance < UNANSWERED_SHARE:
        subject, payload = random.choice(UNANSWERED)
        reply = random.choice((b"", b"", NOT_UTF_8, b"a..b", b">", b"\0", b"x" * 3_000))
        odd = random.choice((b"", b"", b"", b"", NOT_UTF_8, *REFUSED))
        return Request(
            subject.encode() + odd, breaker.json(enveloped(payload))[:LARGEST], headers, reply
        )
    if chance < UNANSWERED_SHARE + ODD_SUBJECTS:
        return Request(f"tool.request.{random.choice(UNSERVED)}".encode(), b"{}", headers)
    subject, payload = random.choice(SLOW if chance > 1 - EXPENSIVE_SHARE else ANSWERED)
    return Request(subject.encode(), breaker.json(enveloped(payload))[:LARGEST], headers)


async def fuzz_bus(url: str, ledger: Path, numbers: range, *, seed: int) -> Live:
    """Send the messages with these numbers, and the refused ones again."""
    live = Live(inputs=len(numbers))
    async with wired(url) as wire, asking(url) as asker:
        asked = await _send(wire, [request_of(seed, number) for number in numbers])
        refused = _judged(wire, asked, live)
        again: list[Request] = []
        while len(again) != len(refused):  # otherwise some of them were not refused this time
            await _settled(asker)
            before = rows(ledger)
            again, asked = refused, await _send(wire, refused)
            refused = _judged(wire, asked, live)
        await _settled(asker)
        live.written = rows(ledger) - before
        live.problems = await _problems(wire, ledger)
    return live


async def _settled(asker: Asker) -> None:
    """Wait until accepted messages are stored and read, so that later rows come from others."""
    async with asyncio.timeout(PATIENCE):
        await asker.turns_stored()
        await asker.all_indexed()


async def _send(wire: Wire, requests: Sequence[Request]) -> dict[int, Request]:
    """Send the requests and wait; return the answered requests, by number."""
    asked: dict[int, Request] = {}
    for request in requests:
        subject, data, headers, reply = request
        if reply is not None:
            await wire.send(subject, data, reply=reply, headers=headers)
        elif await wire.answered(IN_FLIGHT, PATIENCE):
            asked[await wire.request(subject, data, headers)] = request
    await wire.flush()
    await wire.answered(0, PATIENCE)
    return asked


def _judged(wire: Wire, asked: dict[int, Request], live: Live) -> list[Request]:
    """Return the refused requests, and note unacceptable answers."""
    refused = []
    for number, request in asked.items():
        answers = wire.answers[number]
        if len(answers) != 1:
            (live.doubled if answers else live.unanswered).append(_shown(request, answers))
            continue
        code = code_of(answers[0])
        live.codes[code] += 1
        if code not in GOOD:
            live.wrong.append(_shown(request, answers))
        if code in REFUSALS:
            refused.append(request)
    return refused


def code_of(answer: Answer) -> str:
    """Return `ok`, `nobody` (the server's no responders), or an error code."""
    if answer.is_nobodys:
        return "nobody"
    try:
        whole = msgspec.json.decode(answer.data, type=dict[str, Any])
        payload = whole.get("payload", whole)  # JetStream answers without an envelope
        if ERROR_CODE.encode() in answer.headers and "ok" not in payload:
            return msgspec.convert(payload, ErrorReply).code
        if "ok" not in payload:
            return "ok"
        result = msgspec.convert(payload, ToolResult)
    except msgspec.DecodeError as error:
        return f"unreadable: {error}"
    return result.outcome if result.ok == (result.error is None) else "neither"


def _shown(request: Request, answers: Sequence[Answer]) -> str:
    subject, data, headers, _ = request
    told = [f"{answer.headers[:200]!r} {answer.data[:300]!r}" for answer in answers]
    return f"{subject!r} {(headers or b'')[:200]!r} {data[:2_000]!r}: {told}"


def rows(ledger: Path) -> int:
    """Count all rows that a request may write."""
    return sum(int(_first(ledger, f"SELECT count(*) FROM {table}")) for table in WRITTEN)  # noqa: S608


async def _problems(wire: Wire, ledger: Path) -> list[str]:
    """Check that the stack answers, its whole memory can be read, and its ledger is intact."""
    found = []
    recalled = await _asked(wire, subjects.tool_request("recall"), {"args": {"query": "metal"}})
    if code_of(recalled) != "ok":
        found.append(f"recall answers {recalled}")
    cursor: str | None = ""
    while cursor is not None:
        page = await _asked(wire, EXPORT.subject, {"cursor": cursor or None})
        if code_of(page) != "ok":
            return [*found, f"the export after {cursor} answers {page}"]
        cursor = decode(page.data, ExportPage).payload.cursor
    checked = await asyncio.to_thread(_first, ledger, "PRAGMA integrity_check")
    return found if checked == "ok" else [*found, checked]


async def _asked(wire: Wire, subject: str, payload: Json) -> Answer:
    """Return the answer to a request without faults."""
    number = await wire.request(subject.encode(), msgspec.json.encode(enveloped(payload)))
    await wire.answered(0, PATIENCE)
    return wire.answers[number][0] if wire.answers[number] else Answer(b"", b"")


def _first(ledger: Path, statement: str) -> Any:
    """Return the first value that a statement finds, read beside the running stack."""
    with closing(sqlite3.connect(f"{ledger.resolve().as_uri()}?mode=ro", uri=True)) as connection:
        return connection.execute(statement).fetchone()[0]
