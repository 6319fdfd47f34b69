"""What a tool answered, whoever made the tool: read as liberally as it can be.

Tools of this project answer as `ToolResult` says. Those of other teams may leave out the envelope
or `ok`, name the content otherwise, or answer a value, a text or what MCP has; `docs/protocol.md`
lists what is understood.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from local.errors import CODES, BadRequestError, RequestError, ToolFailedError
from local.protocol.codec import decode
from local.protocol.envelope import Envelope
from local.protocol.payloads import ErrorReply, ToolResult
from local.protocol.reading import as_text, texts_of_parts

CONTENTS = ("content", "result", "output", "text", "data")
"""Where the content may stand, in this order."""
OUTCOMES = ("ok", "success")
FAILURES = ("isError", "is_error")
"""How MCP, and those who follow it, say that a tool failed."""
SERVICE_ERROR = "Nats-Service-Error"
"""The header by which a NATS service says that it failed."""

CORRELATION = ("correlation_id", "session_id", "query_id")
"""What some put into the payload instead of the envelope."""

_TYPES = {
    field.name: field.type for field in msgspec.structs.fields(Envelope) if field.name != "payload"
}
_AROUND = frozenset([*CORRELATION, *OUTCOMES, *FAILURES, "error"])
"""What in a payload is not the content."""


def read_result(data: bytes, headers: Mapping[str, str] | None = None) -> Envelope[ToolResult]:
    """Read the reply to a request, or what came on `tool.result.<tool>`.

    What the envelope lacks of `correlation_id`, `session_id` and `query_id` the payload may say.

    Raises:
        BadRequestError: It is neither JSON nor text.
    """
    result = None
    try:
        envelope = decode(data, ToolResult)
        if envelope.payload.ok or envelope.payload.error:
            if envelope.correlation_id:
                return envelope
            result = envelope.payload
    except RequestError:
        pass  # not ours, but perhaps another's
    whole = _value(data)
    outer = whole if isinstance(whole, dict) else {}
    payload = outer.get("payload", whole)
    inner = payload if isinstance(payload, dict) else {}
    named = {name: inner[name] for name in CORRELATION if name in inner}
    fields = {name: _field(name, {**named, **outer}) for name in _TYPES}
    known = {name: value for name, value in fields.items() if value is not None}
    return Envelope(payload=result or _result(payload, headers or {}), **known)


def _value(data: bytes) -> Any:
    """The JSON, or the text where it is none."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise BadRequestError("The tool's answer is neither JSON nor text.") from error


def _field(name: str, fields: Mapping[str, Any]) -> Any:
    """None where it is not what an envelope has under this name; a number may be an id."""
    value = fields.get(name)
    if isinstance(value, int) and not isinstance(value, bool):
        value = str(value)
    try:
        return msgspec.convert(value, _TYPES[name])
    except msgspec.ValidationError:
        return None


def _result(payload: object, headers: Mapping[str, str]) -> ToolResult:
    if not isinstance(payload, dict):
        if (refusal := headers.get(SERVICE_ERROR)) is not None:
            return _failed(refusal, as_text(payload))
        return _succeeded(payload) if payload not in (None, "") else _failed(None, "")
    said = [payload[name] for name in CONTENTS if payload.get(name) is not None]
    rest = {k: value for k, value in payload.items() if k not in _AROUND and value is not None}
    content = said[0] if said else rest or None
    outcome = _outcome(payload)
    error = payload.get("error") or headers.get(SERVICE_ERROR)
    if outcome is False or (outcome is None and (error or content is None)):
        return _failed(error, as_text(content))
    return _succeeded(content, payload.get("data"))


def _outcome(payload: Mapping[str, Any]) -> bool | None:
    """Whether it says that it succeeded; None where it does not say."""
    if any(payload.get(name) is True for name in FAILURES):
        return False
    outcomes = (payload.get(name) for name in OUTCOMES)
    return next((value for value in outcomes if isinstance(value, bool)), None)


def _succeeded(content: object, data: object = None) -> ToolResult:
    """What has a structure is content as JSON, and data as it is."""
    structured = isinstance(content, dict | list) and texts_of_parts(content) is None
    if data is None and structured:
        data = content
    return ToolResult(ok=True, content=as_text(content), data=data)


def _failed(error: object, content: str) -> ToolResult:
    """`error` is text, or an object with a message and perhaps one of our codes."""
    fields = error if isinstance(error, dict) else {"message": error}
    named = fields.get("message")
    message = named if isinstance(named, str) and named else content or as_text(error)
    reply = ErrorReply(
        code=CODES.get(str(fields.get("code")), ToolFailedError.code),
        message=message or "The tool's answer says nothing.",
    )
    return ToolResult(
        ok=False, content=content or f"Error ({reply.code}): {reply.message}", error=reply
    )
