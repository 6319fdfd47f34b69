"""Bytes to envelopes and back: JSON in UTF-8, decoded once, at the edge, into typed Structs."""

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

import msgspec

from local.errors import BadRequestError, InvalidArgumentsError, echoed
from local.protocol.envelope import Envelope

P = TypeVar("P")

REQUEST = 'A request looks like {"payload": {"args": {…}}}.'

NOT_OF_ITS_TYPE = "A field is not of its type."

_encoder = msgspec.json.Encoder()


def encode(message: msgspec.Struct) -> bytes:
    """Encode an envelope.

    Raises:
        InvalidArgumentsError: A text in it is not Unicode.
    """
    try:
        return _encoder.encode(message)
    except UnicodeEncodeError as error:
        raise InvalidArgumentsError(
            "A text holds characters that are not Unicode.", remedy="Send text in UTF-8."
        ) from error


@cache
def _decoder(payload: Hashable) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(Envelope[payload])  # type: ignore[valid-type]


def decode(data: bytes, payload: type[P]) -> Envelope[P]:
    """Decode one envelope.

    Args:
        data: The message as it came.
        payload: The type its payload must have; decoders are kept, one a type.

    Raises:
        BadRequestError: Not JSON, or not an envelope.
        InvalidArgumentsError: The tool's arguments are not as its schema says.
    """
    with reading_json(REQUEST):
        try:
            envelope: Envelope[P] = _decoder(payload).decode(data)  # type: ignore[arg-type]
        except msgspec.ValidationError as error:
            problem = f"{echoed(error)}."
            if "$.payload.args" in problem:
                raise InvalidArgumentsError(
                    problem.replace("$.payload.args", "args"), logged=NOT_OF_ITS_TYPE
                ) from error
            raise BadRequestError(problem, remedy=REQUEST, logged=NOT_OF_ITS_TYPE) from error
    return envelope


@contextmanager
def reading_json(shape: str) -> Iterator[None]:
    """What is no JSON becomes an error, with `shape` as what to send instead.

    Raises:
        BadRequestError: It is none, or nested without end.
    """
    try:
        yield
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise BadRequestError(f"The message is not JSON: {error}.", remedy=shape) from error
    except RecursionError as error:
        raise BadRequestError("The message is nested too deeply.", remedy=shape) from error


def header_of(data: bytes) -> Envelope[msgspec.Raw] | None:
    """Read what can be read of a refused message: enough to tell its sender so."""
    try:
        return decode(data, msgspec.Raw)
    except (BadRequestError, InvalidArgumentsError):
        return None
