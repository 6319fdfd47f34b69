"""Read queries, turns and ratings leniently, because other agents publish them in many forms.

The protocol requires only `query` and `answer` of a turn, so every message with both is a turn.
Other fields that are unreadable are left out and listed in `unread`. See decision 0009.
"""

from collections.abc import Mapping
from typing import Any, Final, Generic, TypeVar

import msgspec

from local2.errors import CODES, BadRequestError, ErrorCode
from local2.protocol.envelope import Envelope, Sender, json_errors, name_of
from local2.protocol.json_text import read_json
from local2.protocol.lenient.calls import read_calls
from local2.protocol.lenient.messages import Blocks, is_thought
from local2.protocol.lenient.responses import answers_in, blocks_of_answer, undumped
from local2.protocol.lenient.values import (
    MISSING,
    as_text,
    content_of,
    kind_of,
    moment_of,
    number_of,
    text_of,
    value_of,
)
from local2.protocol.payloads import (
    ErrorReply,
    Feedback,
    Generation,
    Json,
    Query,
    ToolCallRecord,
)

P = TypeVar("P")
MAX_SHOWN = 100
"""Maximum number of memories that a turn may say it was shown; the rest is left out."""

QUERY_EXAMPLE: Final = 'A query looks like {"payload": {"query": "…"}}.'
TURN_EXAMPLE: Final = 'A turn looks like {"payload": {"query": "…", "answer": "…"}}.'
RATING_EXAMPLE: Final = 'A rating looks like {"payload": {"query_id": "…", "score": 1}}.'


class Reading(msgspec.Struct, Generic[P], frozen=True, kw_only=True):
    """A message that was read; `unread` lists the paths of unreadable fields, without content."""

    envelope: Envelope[P]
    unread: tuple[str, ...]


def read_query(data: bytes) -> Reading[Query]:
    """Read a query, with or without an envelope, which may contain its ids.

    Raises:
        BadRequestError: The query or its user cannot be read.
    """
    with json_errors(QUERY_EXAMPLE):
        message = _MessageFields(data, ("query",), QUERY_EXAMPLE)
        query = Query(
            query=message.text("query", blank=False),
            session_id=message.id("session_id"),
            query_id=message.id("query_id"),
        )
        return message.read(query)


def read_generation(data: bytes) -> Reading[Generation]:
    """Read a turn, with or without an envelope, which may contain its ids.

    A turn without an answer needs an error.

    Raises:
        BadRequestError: The query or the answer cannot be read; or the user cannot be read, so that
            the turn might be stored for somebody else.
    """
    with json_errors(TURN_EXAMPLE):
        message = _MessageFields(data, ("query", "answer"), TURN_EXAMPLE)
        error = _error(message.inner.get("error"))
        thoughts, calls = message.split_blocks("answer")
        turn = Generation(
            query=message.text("query", blank=error is not None),
            answer=message.text("answer", blank=True, missing=error is not None),
            thinking=message.optional_text("thinking") or thoughts,
            tool_calls=_with_new(
                read_calls(
                    message.inner.get("tool_calls"), f"{message.path}tool_calls", message.unread
                ),
                read_calls(calls, f"{message.path}answer", message.unread),
            ),
            session_id=message.id("session_id"),
            query_id=message.id("query_id"),
            error=error,
            metadata=message.optional_object("metadata"),
            shown=message.names("shown", MAX_SHOWN),
            hint=message.optional_text("hint") or "",
        )
        return message.read(turn)


def read_feedback(data: bytes) -> Reading[Feedback]:
    """Read a rating, with or without an envelope, which may contain its ids.

    Raises:
        BadRequestError: The query id, the score or the user cannot be read.
    """
    with json_errors(RATING_EXAMPLE):
        message = _MessageFields(data, ("query_id", "score"), RATING_EXAMPLE)
        query_id = message.id("query_id")
        if query_id is None:
            raise message.expected("query_id", "an id of 1 to 256 characters without NUL")
        score = number_of(message.inner.get("score"))
        if score is None or not -1 <= score <= 1:
            got = None if score is None else f"{score:g}"
            raise message.expected("score", "a number from -1 to 1", got)
        rating = Feedback(
            query_id=query_id,
            score=score,
            session_id=message.id("session_id"),
            comment=message.optional_text("comment"),
        )
        return message.read(rating)


def source_of(data: bytes) -> str:
    """The source of a message that cannot be read, or an empty text."""
    try:
        whole: Any = read_json(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ""
    return (name_of(whole.get("source")) or "") if isinstance(whole, dict) else ""


def sender_of(data: bytes) -> Sender:
    """Read only which user, session and query a message names; its own id may be the query's.

    Raises:
        BadRequestError: It is not a JSON object.
    """
    with json_errors(TURN_EXAMPLE):
        whole = _read_object(data, TURN_EXAMPLE)
    payload = whole.get("payload")
    inner = payload if isinstance(payload, dict) else {}
    session = name_of(inner.get("session_id")) or name_of(whole.get("session_id"))
    query = name_of(inner.get("query_id")) or name_of(whole.get("query_id"))
    return Sender(
        user=name_of(whole.get("user")) or None,
        session_id=session or None,
        query_id=query or name_of(whole.get("id")) or None,
    )


def _read_object(data: bytes, example: str) -> Json:
    whole: Any = read_json(data)
    if not isinstance(whole, dict):
        raise BadRequestError(f"Expected an object, got {kind_of(whole)}.", remedy=example)
    return whole


class _MessageFields:
    """Reads the fields of a message one by one. `inner` is its payload, or the message itself."""

    def __init__(self, data: bytes, needed: tuple[str, ...], example: str) -> None:
        whole = _read_object(data, example)
        payload = whole.get("payload", whole)
        if isinstance(payload, str):
            payload = value_of(payload) or payload
        inside = isinstance(payload, dict) and any(field in payload for field in needed)
        if not inside and all(field in whole for field in needed):
            payload = whole
        if not isinstance(payload, dict):
            raise BadRequestError(
                f"payload: expected an object, got {kind_of(payload)}.", remedy=example
            )
        self.outer: Mapping[str, Any] = whole
        self.inner: Mapping[str, Any] = payload
        self.path = "" if payload is whole else "payload."
        self.unread: list[str] = []
        self._example = example

    def expected(self, field: str, wanted: str, got: str | None = None) -> BadRequestError:
        """Make the error for an invalid field; `got` defaults to the type of its value."""
        got = got or kind_of(self.inner.get(field, MISSING))
        where = f"{self.path}{field}"
        return BadRequestError(
            f"{field}: expected {wanted}, got {got} at {where}.",
            remedy=self._example,
            logged=f"{field}: expected {wanted} at {where}.",
        )

    def split_blocks(self, field: str) -> tuple[str | None, list[Json]]:
        """Remove thoughts, calls and results from a field's blocks; return them."""
        value = undumped(self.inner.get(field))
        answer = blocks_of_answer(value)
        blocks = answer or Blocks.of(content_of(value) if isinstance(value, dict) else value)
        calls = [*blocks.calls, *blocks.results]
        thoughts = [block for block in blocks.parts if is_thought(block)]
        if answer or calls or thoughts:
            self.inner = {**self.inner, field: blocks.text or ""}
        if answer and (count := answers_in(value)) > 1:
            self.unread.append(f"{self.path}{field}: expected one answer, got {count}")
        return text_of(thoughts), calls

    def text(self, field: str, *, blank: bool, missing: bool = False) -> str:
        """Read a required text, which must not be empty unless `blank`."""
        value = self.inner.get(field)
        text = text_of(value)
        if text is None and value not in (None, [], {}):
            is_message = isinstance(value, dict) and "role" in value
            content = content_of(value) if is_message else None
            text = as_text(value if content is None else content)
        if text is None:
            if missing:
                return ""
            raise self.expected(field, "text")
        if not blank and (not text or text.isspace()):
            raise BadRequestError(
                f"{field}: the text is blank at {self.path}{field}.", remedy=self._example
            )
        return text

    def optional_text(self, field: str) -> str | None:
        value = self.inner.get(field)
        text = text_of(value)
        if text is None and value not in (None, [], {}):
            self._note_unread(f"{self.path}{field}", "text", value)
        return text

    def optional_object(self, field: str) -> Json:
        value = self.inner.get(field)
        if isinstance(value, dict):
            return value
        if value is not None:
            self._note_unread(f"{self.path}{field}", "an object", value)
        return {}

    def names(self, field: str, limit: int) -> list[str]:
        """Read a list of ids; those that are none are left out."""
        value = self.inner.get(field)
        if value is not None and not isinstance(value, list):
            self._note_unread(f"{self.path}{field}", "a list", value)
            return []
        return [name for name in map(name_of, value or ()) if name][:limit]

    def id(self, field: str) -> str | None:
        """Read an id from the payload, else from the envelope."""
        if self.inner.get(field) in (None, ""):
            return self._name(self.outer.get(field), field)
        return self._name(self.inner[field], f"{self.path}{field}")

    def read(self, payload: P) -> Reading[P]:
        """Put the payload into its envelope, with the list of unreadable fields."""
        user = self.outer.get("user")
        if user is not None and name_of(user) is None:
            raise BadRequestError(
                f"user: expected a name of at most 256 characters without NUL, got {kind_of(user)} "
                "at user."
            )
        sent = self.outer.get("timestamp_utc")
        moment = moment_of(sent)
        if moment is None and sent is not None:
            self._note_unread("timestamp_utc", "a time", sent)
        envelope = Envelope(
            payload=payload,
            id=name_of(self.outer.get("id")) or "",
            source=self._name(self.outer.get("source"), "source") or "",
            timestamp_utc=moment,
            user=name_of(user),
            session_id=self.id("session_id"),
            query_id=self.id("query_id"),
        )
        return Reading(envelope=envelope, unread=tuple(dict.fromkeys(self.unread)))

    def _name(self, value: Any, at: str) -> str | None:
        name = name_of(value)
        if name is None and value is not None:
            self._note_unread(at, "an id of at most 256 characters without NUL", value)
        return name or None

    def _note_unread(self, at: str, wanted: str, value: Any) -> None:
        self.unread.append(f"{at}: expected {wanted}, got {kind_of(value)}")


def _with_new(reported: list[ToolCallRecord], among: list[ToolCallRecord]) -> list[ToolCallRecord]:
    """Add to the reported calls those among the blocks that were not reported already."""
    calls = list(reported)
    known = {(call.id, call.name) for call in reported}
    for call in among:
        if call.id is None or call.content or (call.id, call.name) not in known:
            calls.append(call)
        known.add((call.id, call.name))
    return calls


def _error(value: Any) -> ErrorReply | None:
    """Read the error of a turn, given in any form; null, false and empty values mean none."""
    if not value:
        return None
    code: ErrorCode = "internal"
    if isinstance(value, dict):
        code = CODES.get(str(value.get("code")), code)
        value = value.get("message") or text_of(value) or value
    return ErrorReply(code=code, message=as_text(value))
