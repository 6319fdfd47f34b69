"""Read announcements and results of tools leniently, because other teams use other forms.

An announcement may be a `ToolSchema`, the function schema of LLM APIs, or MCP's form. A result may
be a `ToolResult`; it may also lack the envelope or `ok`, have its content under another name, be a
plain value or text, or have MCP's form. docs/protocol.md lists the supported forms.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from local2.errors import CODES, BadRequestError, RequestError, ToolFailedError, abridged
from local2.protocol import subjects
from local2.protocol.envelope import Envelope, decode
from local2.protocol.json_text import read_json
from local2.protocol.lenient.values import as_text, texts_of_parts
from local2.protocol.payloads import (
    SERVICE_ERROR,
    ErrorReply,
    Function,
    FunctionSchema,
    Json,
    ToolHints,
    ToolResult,
    ToolSchema,
)

PARAMETERS = ("parameters", "inputSchema", "input_schema")
"""Fields that may contain a tool's parameters, in LLM APIs and in MCP."""
SCHEMA_EXAMPLE = "The payload is {type: function, function: {name, description, parameters}}."


CONTENT_KEYS = ("content", "result", "output", "text", "data")
"""Fields that may contain a result's content; the first one present is used."""
OUTCOME_KEYS = ("ok", "success")
FAILURE_KEYS = ("isError", "is_error")
"""Fields that mark the result of a failed tool, in MCP and similar forms."""
CORRELATION_FIELDS = ("correlation_id", "session_id", "query_id")
"""Fields of the envelope that some tools put into the payload."""
_TYPES = {
    field.name: field.type for field in msgspec.structs.fields(Envelope) if field.name != "payload"
}
_HINTS = {field.name: field.encode_name for field in msgspec.structs.fields(ToolHints)}
_NON_CONTENT_FIELDS = frozenset([*CORRELATION_FIELDS, *OUTCOME_KEYS, *FAILURE_KEYS, "error"])
"""Fields of a payload that are never its content."""


class _Parameters(msgspec.Struct):
    """The part of a tool's parameters that models and the command line need."""

    properties: dict[str, Json | bool] = {}
    required: list[str] = []


def read_schema(data: bytes) -> ToolSchema:
    """Read a message on `tool.schema`.

    Raises:
        BadRequestError: It is not a JSON object, its name is missing or invalid, or its parameters
            are not a JSON schema.
    """
    try:
        whole: Any = read_json(data)
    except (ValueError, RecursionError) as error:
        raise BadRequestError(
            f"It is not JSON: {abridged(error)}.", remedy=SCHEMA_EXAMPLE
        ) from error
    payload = whole.get("payload", whole) if isinstance(whole, dict) else whole
    if not isinstance(payload, dict):
        raise BadRequestError("It is not a JSON object.", remedy=SCHEMA_EXAMPLE)
    schema = payload.get("schema")
    functions = [_value_at(schema, "function"), _value_at(payload, "function")]
    sources = [source for source in (payload, *functions, schema) if isinstance(source, dict)]
    if not (name := _first_text("name", sources)):
        raise BadRequestError("It names no tool.", remedy=SCHEMA_EXAMPLE)
    description = _first_text("description", sources)
    parameters = _parameters(sources, schema)
    annotations, answer = payload.get("annotations"), payload.get("output_schema")
    hints = {name: _value_at(annotations, wire) for name, wire in _HINTS.items()}
    stated = {name: value for name, value in hints.items() if isinstance(value, bool)}
    function = Function(name=name, description=description, parameters=parameters)
    return ToolSchema(
        name=subjects.checked_tool_name(name),
        description=description,
        version=_first_text("version", sources),
        tool_schema=FunctionSchema(function=function),
        title=_first_text(
            "title", [source for source in (payload, annotations) if isinstance(source, dict)]
        ),
        annotations=ToolHints(**stated),
        reads_memory=payload.get("reads_memory") is True,
        for_models=payload.get("for_models") is not False,
        recorded=payload.get("recorded") is not False,
        whole=payload.get("whole") is True,
        output_schema=answer if _value_at(answer, "type") == "object" else None,
    )


def _value_at(fields: object, name: str) -> object:
    return fields.get(name) if isinstance(fields, dict) else None


def _first_text(name: str, sources: Sequence[Mapping[str, Any]]) -> str:
    return next((source[name] for source in sources if isinstance(source.get(name), str)), "")


def _parameters(sources: Sequence[Mapping[str, Any]], schema: object) -> Json:
    """Read the parameters, by default without properties; `schema` itself may be these."""
    declared = [
        source[name] for source in sources for name in PARAMETERS if source.get(name) is not None
    ]
    alone = schema if _value_at(schema, "properties") is not None else {"properties": {}}
    try:
        given = msgspec.convert(declared[0] if declared else alone, Json)
        given = {key: value for key, value in given.items() if value is not None}
        properties = msgspec.convert(given, _Parameters).properties
    except msgspec.ValidationError as error:
        problem = f"Its parameters are not a JSON schema: {abridged(error)}."
        raise BadRequestError(problem) from error
    if properties:  # some model servers reject `true`, which is the schema of any value
        given["properties"] = {name: {} if p is True else p for name, p in properties.items()}
    return {"type": "object", **given}


def read_result(data: bytes, headers: Mapping[str, str] | None = None) -> Envelope[ToolResult]:
    """Read the reply to a request, or a message on `tool.result.<tool>`.

    `correlation_id`, `session_id` and `query_id` may be in the envelope or in the payload.

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
        pass  # not local2's own form, but perhaps another one
    whole = _json_or_text(data)
    outer = whole if isinstance(whole, dict) else {}
    payload = outer.get("payload", whole)
    inner = payload if isinstance(payload, dict) else {}
    named = {name: inner[name] for name in CORRELATION_FIELDS if name in inner}
    fields = {name: _field(name, {**named, **outer}) for name in _TYPES}
    known = {name: value for name, value in fields.items() if value is not None}
    return Envelope(payload=result or _result(payload, headers or {}), **known)


def _json_or_text(data: bytes) -> Any:
    """Decode JSON; what is not JSON is text."""
    try:
        return read_json(data)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
        try:
            return data.decode()
        except UnicodeDecodeError as error:
            raise BadRequestError("The tool's answer is neither JSON nor text.") from error


def _field(name: str, fields: Mapping[str, Any]) -> Any:
    """Read a field of the envelope; None if its type is wrong. An id may be a number."""
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
    rest = {
        k: value
        for k, value in payload.items()
        if k not in _NON_CONTENT_FIELDS and value is not None
    }
    content = contents[0] if contents else rest or None
    outcome: bool | None = None
    if any(payload.get(name) is True for name in FAILURE_KEYS):
        outcome = False
    else:
        outcomes = (payload.get(name) for name in OUTCOME_KEYS)
        outcome = next((value for value in outcomes if isinstance(value, bool)), None)
    error = payload.get("error") or headers.get(SERVICE_ERROR)
    if outcome is False or (outcome is None and (error or content is None)):
        return _failed(error, as_text(content))
    return _succeeded(content, payload.get("data"))


def _succeeded(content: object, data: object = None) -> ToolResult:
    """Make a success; structured content becomes `data`, and as JSON the text, too."""
    structured = isinstance(content, dict | list) and texts_of_parts(content) is None
    if data is None and structured:
        data = content
    return ToolResult(ok=True, content=as_text(content), data=data)


def _failed(error: object, content: str) -> ToolResult:
    """Make a failure; `error` is a text, or an object with a message and perhaps a known code."""
    fields = error if isinstance(error, dict) else {"message": error}
    named = fields.get("message")
    message = named if isinstance(named, str) and named else content or as_text(error)
    delay: Any = fields.get("retry_after")
    is_delay = isinstance(delay, int | float) and not isinstance(delay, bool) and delay >= 0
    reply = ErrorReply(
        code=CODES.get(str(fields.get("code")), ToolFailedError.code),
        message=message or "The tool's answer is empty.",
        retry_after=float(delay) if is_delay else None,
    )
    return ToolResult(
        ok=False, content=content or f"Error ({reply.code}): {reply.message}", error=reply
    )
