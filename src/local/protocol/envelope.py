"""The envelope around every message. New fields need defaults, so that old bytes still decode."""

from datetime import UTC, datetime
from typing import Annotated, Generic, TypeVar

import msgspec
import uuid_utils

P = TypeVar("P")

Name = Annotated[str, msgspec.Meta(max_length=256)]
"""Of a thing or a person: these become keys, and travel back with every answer."""


def new_id() -> str:
    """A UUIDv7: unique, and sorted by time."""
    return str(uuid_utils.uuid7())


def utc_now() -> datetime:
    return datetime.now(UTC)


class Envelope(msgspec.Struct, Generic[P], kw_only=True, omit_defaults=True):
    """What travels on the bus; of a request only `payload` is required.

    `correlation_id` of a result is the `id` of its request. Times without an offset are UTC.
    """

    payload: P
    id: Name = ""
    type: Name = ""
    source: Name = ""
    timestamp_utc: datetime | None = None
    user: Name | None = None
    session_id: Name | None = None
    query_id: Name | None = None
    correlation_id: Name | None = None
    deadline_utc: datetime | None = None


def seal(  # noqa: PLR0913 - one keyword a field of the envelope
    payload: P,
    *,
    type: str,  # noqa: A002 - the wire's own name
    source: str,
    user: str | None = None,
    session_id: str | None = None,
    query_id: str | None = None,
    correlation_id: str | None = None,
    deadline_utc: datetime | None = None,
) -> Envelope[P]:
    """Put a payload into an envelope with a fresh id and the time."""
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


def is_past(moment: datetime | None) -> bool:
    """Whether a deadline has passed; a time without an offset is UTC."""
    if moment is None:
        return False
    return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)) < utc_now()
