"""All code that reads what others wrote: it returns a value, or raises one of our errors."""

import io
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from fuzz.broken import Breaker
from fuzz.valid import (
    ARGUMENTS,
    CHAT,
    LINES,
    MESSAGES,
    OUTPUT_PART,
    QUERY,
    RATING,
    RESULT,
    SCHEMA,
    SETTINGS,
    STORY,
    TURN,
    enveloped,
)
from local2.bus.connection import BusMessage
from local2.bus.identity import Claimed, is_genuine
from local2.cli.import_ import LineChecker
from local2.cli.ingest import sessions_in
from local2.config_files import load_settings
from local2.errors import InvalidArgumentsError, Local2Error
from local2.ledger.operations.exports import ExportCursor
from local2.ledger.records import NewRecord, with_features
from local2.memory.intake.conversations import Conversation, Turn, read_records, records_of_turn
from local2.protocol.conversation import session_of
from local2.protocol.envelope import Caller, decode, encode, header_of, seal, seconds_until, utc_now
from local2.protocol.lenient.messages import messages_of
from local2.protocol.lenient.tools import read_result, read_schema
from local2.protocol.lenient.turns import (
    read_feedback,
    read_generation,
    read_query,
    sender_of,
    source_of,
)
from local2.protocol.maintenance import ExportRequest, ImportRequest, Reindex
from local2.protocol.memory_tools import TOOLS
from local2.protocol.payloads import (
    SERVICE_ERROR,
    ClearSession,
    Empty,
    OutputPart,
    ToolRequest,
    ToolResult,
)
from local2.protocol.portable import stored_line
from local2.protocol.times import in_utc
from local2.protocol.tool import Tool, ToolOutput, with_suggestion
from local2.sources.items import batches
from local2.stories.script import load_story

CURSOR = ["record", 7, 0]
SECRET = "0" * 64


class Reader(NamedTuple):
    """A reader, a valid input, the way to break it, and how often it is chosen."""

    name: str
    valid: bytes
    broken: Callable[[Breaker], bytes]
    read: Callable[[bytes], object]
    weight: int


def readers(folder: Path) -> list[Reader]:
    """Return all readers; those that read files use `folder`."""
    return [*_requests(), *_messages(), *_parts(), *_files(folder)]


def _on_the_wire(read: Callable[[bytes], object], data: bytes) -> object:
    """Turn the reader's error into an answer, as an unreadable request needs one."""
    try:
        return read(data)
    except Local2Error as error:
        encode(seal(ToolResult.failed(error), type="result", source="fuzz"))
        raise


def _of_json(name: str, valid: Any, read: Callable[[bytes], object], weight: int = 10) -> Reader:
    return Reader(
        name,
        msgspec.json.encode(valid),
        lambda breaker: breaker.json(valid),
        partial(_on_the_wire, read),
        weight,
    )


def _of_lines(name: str, valid: list[Any], read: Callable[[bytes], object]) -> Reader:
    data = b"\n".join(map(msgspec.json.encode, valid))
    return Reader(name, data, lambda breaker: breaker.lines(valid), read, 20)


def _of_yaml(name: str, valid: str, read: Callable[[bytes], object]) -> Reader:
    return Reader(name, valid.encode(), lambda breaker: breaker.yaml(valid), read, 2)


def _requests() -> list[Reader]:
    """Readers of tool requests and of other requests."""
    tools = [
        _of_json(
            f"tool.request.{tool.name}",
            enveloped({"args": ARGUMENTS[tool.name]}),
            partial(_request, _as_served(tool.name, tool.args)),
        )
        for tool in TOOLS
    ]
    others: dict[type[msgspec.Struct], dict[str, Any]] = {
        ClearSession: {"session_id": "s1"},
        Empty: {},
        Reindex: {"embedder": "minilm"},
        OutputPart: OUTPUT_PART,
        ExportRequest: {"scope": "user", "vectors": True, "cursor": '["record",7,0]'},
        ImportRequest: {"number": 2, "lines": LINES[1:3], "part": 0, "piece": "AAAA"},
    }
    return [
        *tools,
        *(
            _of_json(of.__name__, enveloped(payload), partial(_decoded, of))
            for of, payload in others.items()
        ),
    ]


def _as_served(name: str, args: type[msgspec.Struct]) -> Tool:
    async def run(_caller: Caller, _args: Any) -> ToolOutput:
        raise NotImplementedError

    return Tool(name=name, description="", version="", args=args, run=run)


def _request(tool: Tool, data: bytes) -> object:
    """Read it like a tool's host; `header_of` serves the answer to an unreadable request."""
    header_of(data)
    try:
        envelope = _decoded(ToolRequest[tool.args], data)  # type: ignore[name-defined]
    except InvalidArgumentsError as error:
        raise with_suggestion(error, tool.args) from error
    if tool.name == "ingest":
        _conversation([one for each in envelope.payload.args.messages for one in messages_of(each)])
    return envelope


def _decoded(of: Any, data: bytes) -> Any:
    envelope = decode(data, of)
    if envelope.deadline_utc is not None:
        seconds_until(envelope.deadline_utc)
    return envelope


def _conversation(messages: list[Any]) -> None:
    """Turn the messages into records."""
    said = Conversation(
        messages=messages, owner="ada", agent=None, session_id=session_of(messages), now=utc_now()
    )
    for one in read_records(said):
        if isinstance(one, NewRecord):
            with_features(one)


def _messages() -> list[Reader]:
    """Readers of what agents and tools publish."""
    return [
        _of_json("query.received", enveloped(QUERY), read_query),
        _of_json("query without an envelope", QUERY, read_query),
        _of_json("response.generation", enveloped(TURN), _turn, 30),
        _of_json("turn without an envelope", TURN, _turn, 30),
        _of_json("response.feedback", enveloped(RATING), read_feedback),
        _of_json("tool.schema", enveloped(SCHEMA), read_schema, 30),
        _of_json(
            "tool.schema of MCP", {"name": "a", "inputSchema": {"type": "object"}}, read_schema
        ),
        _of_json("tool.result", enveloped(RESULT), _result, 30),
        _of_json("tool.result without an envelope", RESULT, _result),
        _of_json("dead letter", enveloped(TURN), lambda data: (sender_of(data), source_of(data))),
    ]


def _turn(data: bytes) -> object:
    reading = read_generation(data)
    turn, envelope = reading.envelope.payload, reading.envelope
    remembered = Turn(
        query=turn.query,
        answer=turn.answer,
        at=in_utc(envelope.timestamp_utc or utc_now(), "timestamp_utc"),
        tool_calls=turn.tool_calls,
        session_id=turn.session_id,
        query_id=turn.query_id,
    )
    return [
        with_features(record)
        for record in records_of_turn(
            remembered, Claimed().caller_of(BusMessage("", data), envelope)
        )
    ]


def _result(data: bytes) -> object:
    """Read a result, with part of the data in the headers that are read."""
    text = data[:40].decode("utf-8", "replace")
    headers = {SERVICE_ERROR: text, "Local2-Signature": text}
    is_genuine(SECRET, BusMessage("tool.result.weigh", data, headers=headers))
    read_result(data, headers)
    return encode(read_result(data))


def _parts() -> list[Reader]:
    """Readers of message parts that are read separately."""
    return [
        *(
            _of_json(
                f"message {number}",
                message,
                _message,
            )
            for number, message in enumerate(MESSAGES)
        ),
        _of_json(
            "cursor of an export",
            CURSOR,
            lambda data: ExportCursor.of(data.decode("utf-8", "replace")),
        ),
        *(
            _of_json(f"line of {line['type']}", line, lambda data: stored_line(data, 1), 5)
            for line in LINES[1:-1]
        ),
    ]


def _message(data: bytes) -> None:
    """Read a message as `ingest` receives it: JSON, and an object."""
    try:
        message = msgspec.json.decode(data, type=dict[str, Any])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return
    _conversation(messages_of(message))


def _files(folder: Path) -> list[Reader]:
    file = folder / "story.yaml"

    def story(data: bytes) -> object:
        file.write_bytes(data)
        loaded = load_story(file)
        return [str(step) for session in loaded.sessions for step in session.turns]

    def settings(name: str, data: bytes) -> object:
        (folder / f"{name}.yaml").write_bytes(data)
        try:
            return load_settings(folder, {})
        finally:
            (folder / f"{name}.yaml").unlink()

    def variable(data: bytes) -> object:
        name, _, value = data.decode("utf-8", "surrogateescape").partition(":")
        return load_settings(folder, {f"LOCAL2_{name}": value.strip()})

    return [
        _of_lines("file for import", LINES, _imported),
        _of_lines("file for ingest", CHAT, _ingested),
        _of_yaml("story", STORY, story),
        *(
            _of_yaml(f"{name}.yaml", text, partial(settings, name))
            for name, text in SETTINGS.items()
        ),
        _of_yaml("environment", "MEMORY__TOP_K: 7", variable),
        _of_yaml("environment of a path", "MEMORY__DATA_DIR: a", variable),
    ]


def _imported(data: bytes) -> None:
    checker = LineChecker()
    for line in io.BytesIO(data):
        checker.accepts(line.rstrip(b"\r\n"))
    checker.finish()


def _ingested(data: bytes) -> object:
    return [list(batches(session.messages)) for session in sessions_in(io.BytesIO(data), None)]
