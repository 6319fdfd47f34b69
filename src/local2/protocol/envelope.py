"""The envelope of every message, its sender, and its encoding.

Messages are JSON in UTF-8, decoded once, at the edge, into typed Structs. New fields of an envelope
need defaults, so that older messages still decode.
"""

import hashlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from functools import cache
from typing import Annotated, Any, Generic, Literal, TypeVar, get_origin

import msgspec
import uuid_utils

from local2.errors import BadRequestError, InvalidArgumentsError, abridged, quoted
from local2.protocol.json_text import read_json
from local2.protocol.msgspec_errors import (
    WITHOUT_NUL,
    is_about_a_field,
    is_about_arguments,
    with_own_names,
)

P = TypeVar("P")

Clock = Callable[[], datetime]
"""Returns the current time in UTC."""

Role = Literal["reader", "writer", "curator", "admin"]
"""The roles; each also has the permissions of those before it."""

MAX_NAME = 256
_OuterName = Annotated[str, msgspec.Meta(max_length=MAX_NAME)]
"""A name in an envelope. `decode` looks for NUL in all of them at once: the patterns of each would
take longer than the rest of decoding."""
Name = Annotated[_OuterName, msgspec.Meta(pattern=WITHOUT_NUL)]
"""The name or id of a thing or a person. Names become keys and are part of every answer, so their
length is limited; 256 characters suffice for any id, path or address in use. None contains NUL,
at which SQLite's JSON functions cut a text."""
Id = Annotated[Name, msgspec.Meta(min_length=1)]
"""A name that must be given."""

CALL_EXAMPLE = 'A request looks like {"payload": {"args": {…}}}.'
MESSAGE_EXAMPLE = 'A message looks like {"payload": {…}}.'
WRONG_TYPE = "A field is not of its type."
ID_NUMBER_LIMIT = 2**64
"""Numbers from this one on, which need more than 64 bits, are not accepted as ids."""
NAMES = ("id", "type", "source", "user", "session_id", "query_id", "correlation_id")
"""The fields of an envelope that are names."""
TIMES = ("timestamp_utc", "deadline_utc")
"""Those that are times."""

_encoder = msgspec.json.Encoder()


class Envelope(msgspec.Struct, Generic[P], kw_only=True, omit_defaults=True):
    """The envelope of every message on the bus; a request needs only `payload`.

    The `correlation_id` of a result is the `id` of its request. Times without an offset are in UTC.
    """

    payload: P
    id: _OuterName = ""
    type: _OuterName = ""
    source: _OuterName = ""
    timestamp_utc: datetime | None = None
    user: _OuterName | None = None
    session_id: _OuterName | None = None
    query_id: _OuterName | None = None
    correlation_id: _OuterName | None = None
    deadline_utc: datetime | None = None


DEFAULT_TENANT = "default"
"""The only tenant of a server without accounts."""


class Sender(msgspec.Struct, frozen=True, kw_only=True):
    """The sender that an envelope claims; the tenant is known from the server only."""

    user: str | None = None
    agent: str | None = None
    session_id: str | None = None
    query_id: str | None = None
    """The id of the turn that the message belongs to."""
    token: str | None = None
    """The token that proves the user, on a server with accounts."""


class Caller(Sender, frozen=True, kw_only=True):
    """The caller of a tool. Only the bus creates one; a tool cannot choose its caller.

    The tenant deliberately has no default: code that forgets it cannot access any memory.
    """

    tenant: str
    role: Role | None = None
    """The caller's role; None without accounts, where everybody may do everything."""
    writes: frozenset[str] | None = None
    """The scopes that the caller may write to; None means all."""
    has_unnamed: bool = False
    """Whether memories without a user are also this user's: without accounts, they are those of the
    user who runs the stack."""

    @property
    def principal(self) -> tuple[str, str | None]:
        """The tenant and the user; limits apply to them."""
        return self.tenant, self.user


class _Times(msgspec.Struct, frozen=True):
    """The fields of an envelope that are times; they are read strictly."""

    timestamp_utc: datetime | None = None
    deadline_utc: datetime | None = None


def seal(
    payload: P,
    *,
    type: str,  # noqa: A002 - the name of the field on the wire
    source: str,
    user: str | None = None,
    session_id: str | None = None,
    query_id: str | None = None,
    correlation_id: str | None = None,
    deadline_utc: datetime | None = None,
) -> Envelope[P]:
    """Put a payload into an envelope with a new id and the current time."""
    return Envelope(
        payload=payload,
        id=new_id(),
        type=type,
        source=source,
        timestamp_utc=utc_now(),
        user=user,
        session_id=session_id,
        query_id=query_id,
        correlation_id=correlation_id,
        deadline_utc=deadline_utc,
    )


def seal_from(
    sender: Sender,
    payload: P,
    *,
    type: str,  # noqa: A002 - the name of the field on the wire
    correlation_id: str | None = None,
    deadline_utc: datetime | None = None,
) -> Envelope[P]:
    """Put a payload into an envelope of this sender; without an agent, the source is "client"."""
    return seal(
        payload,
        type=type,
        source=sender.agent or "client",
        user=sender.user,
        session_id=sender.session_id,
        query_id=sender.query_id,
        correlation_id=correlation_id,
        deadline_utc=deadline_utc,
    )


def encode(message: msgspec.Struct) -> bytes:
    """Encode an envelope.

    Raises:
        InvalidArgumentsError: A text contains lone surrogates.
    """
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError as error:
        raise InvalidArgumentsError(
            "A text contains characters that are not Unicode.", remedy="Send text in UTF-8."
        ) from error


def decode(data: bytes, payload: type[P]) -> Envelope[P]:
    """Decode one envelope.

    Models and other programs write numbers in several forms: 5 may also be 5.0 or "5", true may
    be "true", and an id may be a number. A name that is null is missing, and so is an empty time.

    Args:
        data: The bytes of the message.
        payload: The type of the payload; decoders are cached by it.

    Raises:
        BadRequestError: It is not JSON, or not an envelope with such a payload.
        InvalidArgumentsError: The tool's arguments do not match its schema.
    """
    envelope = _decoded(data, payload)
    names = (
        f"{envelope.id}{envelope.type}{envelope.source}{envelope.user}{envelope.session_id}"
        f"{envelope.query_id}{envelope.correlation_id}"
    )
    if "\0" in names:
        given = ((field, getattr(envelope, field) or "") for field in NAMES)
        field, name = next((field, name) for field, name in given if "\0" in name)
        raise BadRequestError(
            f"{field}: {quoted(name)} contains the character NUL.", remedy="Leave it out."
        )
    return envelope


def _decoded(data: bytes, payload: type[P]) -> Envelope[P]:
    envelope: Envelope[P]
    try:  # most messages are as they should be: the rest costs nothing until then
        envelope = read_json(data, _decoder(payload).decode)  # type: ignore[arg-type]
    except msgspec.ValidationError as error:
        with suppress(msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            message = _with_names(read_json(data))
            msgspec.convert(message, _Times)  # else 30 would be the first minute of 1970
            lax = _decoder(payload, strict=False)  # type: ignore[arg-type]
            envelope = lax.decode(_encoder.encode(message))
            return envelope
        problem = with_own_names(abridged(error))
        if is_about_arguments(str(error)):
            raise InvalidArgumentsError(f"{problem}.", logged=WRONG_TYPE) from error
        example: str | None = _example(payload)  # type: ignore[arg-type]
        if example == MESSAGE_EXAMPLE and is_about_a_field(str(error)):
            example = None  # the rest is right, and over HTTP nobody writes it
        raise BadRequestError(f"{problem}.", remedy=example, logged=WRONG_TYPE) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        with json_errors(_example(payload)):  # type: ignore[arg-type]
            raise
    return envelope


def _with_names(message: Any) -> Any:
    """The message, with its names as texts, without null names and empty times."""
    if not isinstance(message, dict):
        return message
    return {
        field: (name_of(value) or value) if field in NAMES else value
        for field, value in message.items()
        if (value is not None or field not in NAMES) and (value != "" or field not in TIMES)
    }


def name_of(value: Any) -> str | None:
    """Read a name or an id, which may be a number; None if it is invalid, or no `Name`."""
    match value:
        case str() if len(value) <= MAX_NAME and "\0" not in value:
            return value
        case bool():
            return None
        case int() | float() if abs(value) < ID_NUMBER_LIMIT:
            return str(int(value) if value == int(value) else value)
    return None


@cache
def _example(payload: Hashable) -> str:
    """An example of the message: a call of a tool has arguments, any other message none."""
    fields = getattr(get_origin(payload) or payload, "__struct_fields__", ())
    return CALL_EXAMPLE if "args" in fields else MESSAGE_EXAMPLE


@cache
def _decoder(payload: Hashable, *, strict: bool = True) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(Envelope[payload], strict=strict)  # type: ignore[valid-type]


@contextmanager
def json_errors(example: str) -> Iterator[None]:
    """Turn JSON errors into BadRequestError; `example` shows what to send instead.

    Raises:
        BadRequestError: The message is not JSON, or nested too deeply.
    """
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequestError(f"The message is not JSON: {error}.", remedy=example) from error
    except RecursionError as error:
        raise BadRequestError("The message is nested too deeply.", remedy=example) from error


def header_of(data: bytes) -> Envelope[None] | None:
    """The names of a message, without its payload, each if it is readable.

    Whoever sent a request that is refused finds its answer by them. None: it is no JSON object.
    """
    try:
        message: Any = read_json(data)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
    if not isinstance(message, dict):
        return None
    readable = ((field, name_of(message.get(field))) for field in NAMES)
    names: dict[str, Any] = {field: name for field, name in readable if name is not None}
    return Envelope(payload=None, **names)


def new_id() -> str:
    """A new UUIDv7; these ids sort by time."""
    return str(uuid_utils.uuid7())


def content_id(*parts: Any) -> str:
    """An id derived from the content: equal parts always give the same id."""
    return hashlib.blake2b(msgspec.json.encode(parts), digest_size=16).hexdigest()


def utc_now() -> datetime:
    return datetime.now(UTC)


def seconds_until(deadline: datetime) -> float:
    """The seconds that are left, negative afterwards; a time without an offset is in UTC."""
    at = deadline if deadline.tzinfo else deadline.replace(tzinfo=UTC)
    return (at - utc_now()).total_seconds()
