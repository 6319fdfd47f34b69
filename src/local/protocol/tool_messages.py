"""Announcements and answers of tools, read leniently: other teams' tools have other forms.

An announcement may be our own `ToolSchema`, the schema that LLM APIs take, or a name with its
parameters as MCP lists them. A result may be our own `ToolResult`; it may also leave out the
envelope or `ok`, have its content under another name, or be a value, a text or MCP's form.
`docs/protocol.md` lists the supported forms.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from local.errors import CODES, BadRequestError, RequestError, ToolFailedError, echoed
from local.protocol import subjects
from local.protocol.envelope import Envelope, decode
from local.protocol.payloads import (
    ErrorReply,
    Function,
    FunctionSchema,
    Json,
    ToolHints,
    ToolResult,
    ToolSchema,
)
from local.protocol.reading import as_text, texts_of_parts

PARAMETERS = ("parameters", "inputSchema", "input_schema")
"""Where the parameters may stand: the names of LLM APIs and of MCP."""
SHAPE = "Announce {type: function, function: {name, description, parameters}} as the payload."


CONTENT_KEYS = ("content", "result", "output", "text", "data")
"""Where the content of a result may stand, in this order."""
OUTCOME_KEYS = ("ok", "success")
FAILURE_KEYS = ("isError", "is_error")
"""The mark of MCP, and of those who follow it, for the result of a tool that failed."""
SERVICE_ERROR = "Nats-Service-Error"
"""The header that NATS services use to report a failure."""
ERROR_CODE = "Nats-Service-Error-Code"
RETRY_AFTER = "Retry-After"
"""Whole seconds, as in HTTP; the error itself has the fraction."""
LONGEST_HEADER = 256
"""Characters of an error message that fit into a header; the answer has the whole message."""
CORRELATION = ("correlation_id", "session_id", "query_id")
"""Fields that some tools put into the payload instead of the envelope."""
_TYPES = {
    field.name: field.type for field in msgspec.structs.fields(Envelope) if field.name != "payload"
}
_NO_CONTENT = frozenset([*CORRELATION, *OUTCOME_KEYS, *FAILURE_KEYS, "error"])
"""Fields of a payload that are not its content."""


class _Parameters(msgspec.Struct):
    """The part of a tool's parameters that models and the command line need."""

    properties: dict[str, Json | bool] = {}
    required: list[str] = []


def read_schema(data: bytes) -> ToolSchema:
    """Read a message of `tool.schema`.

    Raises:
        BadRequestError: It is no JSON object, its name is missing or no tool name, or its
            parameters are no JSON schema.
    """
    try:
        whole = msgspec.json.decode(data)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(f"It is not JSON: {echoed(error)}.", remedy=SHAPE) from error
    payload = whole.get("payload", whole) if isinstance(whole, dict) else whole
    if not isinstance(payload, dict):
        raise BadRequestError("It is no JSON object.", remedy=SHAPE)
    schema = payload.get("schema")
    functions = [_object(schema, "function"), _object(payload, "function")]
    sources = [each for each in (payload, *functions, schema) if isinstance(each, dict)]
    if not (name := _first_text("name", sources)):
        raise BadRequestError("It names no tool.", remedy=SHAPE)
    description = _first_text("description", sources)
    parameters = _parameters(sources, schema)
    stated = payload.get("annotations")
    function = Function(name=name, description=description, parameters=parameters)
    return ToolSchema(
        name=subjects.checked_tool_name(name),
        description=description,
        version=_first_text("version", sources),
        tool_schema=FunctionSchema(function=function),
        title=_first_text("title", [each for each in (payload, stated) if isinstance(each, dict)]),
        annotations=_hints(stated),
        reads_memory=payload.get("reads_memory") is True,
        for_models=payload.get("for_models") is not False,
        recorded=payload.get("recorded") is not False,
        whole=payload.get("whole") is True,
    )


def _object(fields: object, name: str) -> object:
    return fields.get(name) if isinstance(fields, dict) else None


def _hints(stated: object) -> ToolHints:
    """Return the hints that are `true` or `false`; other values count as not stated."""
    names = {field.name: field.encode_name for field in msgspec.structs.fields(ToolHints)}
    hints = {name: _object(stated, wire) for name, wire in names.items()}
    return ToolHints(**{name: value for name, value in hints.items() if isinstance(value, bool)})


def _first_text(name: str, sources: Sequence[Mapping[str, Any]]) -> str:
    return next((each[name] for each in sources if isinstance(each.get(name), str)), "")


def _parameters(sources: Sequence[Mapping[str, Any]], schema: object) -> Json:
    """Return the parameters, or an object without properties; `schema` itself may be these."""
    declared = [each[name] for each in sources for name in PARAMETERS if each.get(name) is not None]
    alone = schema if _object(schema, "properties") is not None else {"properties": {}}
    try:
        given = msgspec.convert(declared[0] if declared else alone, Json)
        given = {key: value for key, value in given.items() if value is not None}
        properties = msgspec.convert(given, _Parameters).properties
    except msgspec.ValidationError as error:
        raise BadRequestError(f"Its parameters are no JSON schema: {echoed(error)}.") from error
    if properties:  # some model servers reject `true`, which is the schema of any value
        given["properties"] = {name: {} if p is True else p for name, p in properties.items()}
    return {"type": "object", **given}


def read_result(data: bytes, headers: Mapping[str, str] | None = None) -> Envelope[ToolResult]:
    """Read the reply to a request, or a message of `tool.result.<tool>`.

    `correlation_id`, `session_id` and `query_id` may stand in the envelope or in the payload.

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
        pass  # not our own form, but perhaps another one
    whole = _value(data)
    outer = whole if isinstance(whole, dict) else {}
    payload = outer.get("payload", whole)
    inner = payload if isinstance(payload, dict) else {}
    named = {name: inner[name] for name in CORRELATION if name in inner}
    fields = {name: _field(name, {**named, **outer}) for name in _TYPES}
    known = {name: value for name, value in fields.items() if value is not None}
    return Envelope(payload=result or _result(payload, headers or {}), **known)


def _value(data: bytes) -> Any:
    """Return the JSON, or the text if it is not JSON."""
    try:
        return msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise BadRequestError("The tool's answer is neither JSON nor text.") from error


def _field(name: str, fields: Mapping[str, Any]) -> Any:
    """Return a field of the envelope, None if its type is wrong; an id may also be a number."""
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
    contents = [payload[name] for name in CONTENT_KEYS if payload.get(name) is not None]
    rest = {k: value for k, value in payload.items() if k not in _NO_CONTENT and value is not None}
    content = contents[0] if contents else rest or None
    outcome = _outcome(payload)
    error = payload.get("error") or headers.get(SERVICE_ERROR)
    if outcome is False or (outcome is None and (error or content is None)):
        return _failed(error, as_text(content))
    return _succeeded(content, payload.get("data"))


def _outcome(payload: Mapping[str, Any]) -> bool | None:
    """Return whether the tool succeeded; None if the payload does not state it."""
    if any(payload.get(name) is True for name in FAILURE_KEYS):
        return False
    outcomes = (payload.get(name) for name in OUTCOME_KEYS)
    return next((value for value in outcomes if isinstance(value, bool)), None)


def _succeeded(content: object, data: object = None) -> ToolResult:
    """Return a success: a content with a structure becomes `data`, and text as JSON."""
    structured = isinstance(content, dict | list) and texts_of_parts(content) is None
    if data is None and structured:
        data = content
    return ToolResult(ok=True, content=as_text(content), data=data)


def _seconds(value: object) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return float(value) if is_number and value >= 0 else None  # type: ignore[arg-type, operator]


def _failed(error: object, content: str) -> ToolResult:
    """Return a failure: `error` is a text, or an object with a message and perhaps our code."""
    fields = error if isinstance(error, dict) else {"message": error}
    named = fields.get("message")
    message = named if isinstance(named, str) and named else content or as_text(error)
    reply = ErrorReply(
        code=CODES.get(str(fields.get("code")), ToolFailedError.code),
        message=message or "The tool's answer says nothing.",
        retry_after=_seconds(fields.get("retry_after")),
    )
    return ToolResult(
        ok=False, content=content or f"Error ({reply.code}): {reply.message}", error=reply
    )


def error_headers(error: ErrorReply) -> dict[str, str]:
    """Return the headers with the error's code, and when to ask again."""
    headers = {SERVICE_ERROR: header_value(error.message), ERROR_CODE: str(error.code)}
    if error.retry_after is not None:
        headers[RETRY_AFTER] = str(math.ceil(error.retry_after))
    return headers


def header_value(text: str) -> str:
    """Return one line of ASCII: some servers drop all headers if one value is anything else."""
    return " ".join(text.split()).encode("ascii", "replace").decode()[:LONGEST_HEADER]
