"""Episodes: one question with its answer, or a note; how they are made, and shown when found."""

from datetime import datetime
from typing import Any

import msgspec

from local.errors import InvalidArgumentsError, quoted
from local.ledger.records import TENANT_OWNED, NewRecord, checked_text
from local.memory.intake.echoes import OF_TURNS
from local.protocol.envelope import Caller, content_id
from local.protocol.memories import Kind
from local.protocol.payloads import Json
from local.protocol.reading import in_utc

EPISODE: Kind = "episode"
NOTE: Kind = "note"
MAX_METADATA = 4_096
"""Bytes, as JSON, of the metadata that a caller may give an episode."""
MAX_ID = 256
GIVEN = {
    "agent": "It is who calls.",
    "score": "Rate the answer with response.feedback.",
    "recalled": "The memory finds out by itself.",
    "adds": "The memory finds out by itself.",
    "unanswered": "The memory finds out by itself.",
}
"""Names in metadata that only the memory fills in, and what to do instead."""


def checked_metadata(metadata: Json) -> Json:
    """Return the metadata if an episode can carry them.

    Raises:
        InvalidArgumentsError: They are too large, or one has a name that only the memory fills in.
    """
    for name, instead in GIVEN.items():
        if name in metadata:
            raise InvalidArgumentsError(
                f"metadata.{name}: only the memory says this.", remedy=f"{instead} Leave it out."
            )
    if (size := len(msgspec.json.encode(metadata))) > MAX_METADATA:
        raise InvalidArgumentsError(
            f"metadata: has {size:,} bytes as JSON; at most {MAX_METADATA:,}.",
            remedy="Put what is to be found into the content.",
        )
    return metadata


def storable_metadata(metadata: Json) -> Json:
    """Return a sender's metadata as far as an episode can carry it: none if it is too large.

    A turn is stored with any metadata, so names that only the memory fills in are left out.
    """
    own = {*GIVEN, "session_id", "query_id", "timestamp_utc", "tool_calls"}
    stated = {name: value for name, value in metadata.items() if name not in own}
    return stated if len(msgspec.json.encode(stated)) <= MAX_METADATA else {}


def new_episode(content: str, metadata: Json, caller: Caller, now: datetime) -> NewRecord:
    """Return the record of an episode; the same content and query_id make the same id.

    Without a query_id other metadata make it another episode: nothing of them is lost.

    Args:
        content: The text to be found by its meaning.
        metadata: Stored with it, without `session_id`, `query_id` and `timestamp_utc`.
        caller: The owner.
        now: When it happened, if there is no `timestamp_utc`.

    Raises:
        InvalidArgumentsError: The content is blank, an id is not valid, or `timestamp_utc` is no
            time.
    """
    extra = dict(metadata)
    query_id = _id(extra, "query_id")
    session_id = _id(extra, "session_id") or caller.session_id
    moment = _moment(extra.pop("timestamp_utc", None)) or now
    owner = caller.user or TENANT_OWNED
    what = [EPISODE, owner, query_id, checked_text(content, "content")]
    stated = {name: value for name, value in extra.items() if name not in OF_TURNS}
    if stated and query_id is None:
        what.append(msgspec.json.encode(stated, order="deterministic").decode())
    return NewRecord(
        id=content_id(*what),
        kind=EPISODE,
        owner=owner,
        content=content,
        agent=caller.agent,
        session_id=session_id,
        query_id=query_id,
        event_time=moment,
        metadata=extra,
    )


def new_note(content: str, metadata: Json, caller: Caller, now: datetime) -> NewRecord:
    """Return the record of a note; the arguments and errors are those of `new_episode`.

    Older notes are episodes, and are recognised when they are stored again: the ids are the same.
    """
    return msgspec.structs.replace(
        new_episode(content, metadata, caller, now), kind=NOTE, scope="user"
    )


def _id(metadata: Json, name: str) -> str | None:
    """Remove an id from the metadata, and return it."""
    given = metadata.pop(name, None)
    if given is None or (isinstance(given, str) and len(given) <= MAX_ID):
        return given or None
    raise InvalidArgumentsError(
        f"metadata.{name}: {quoted(given)} is no id.",
        remedy=f"Write a text of at most {MAX_ID} characters.",
    )


def _moment(text: Any) -> datetime | None:
    if text is None:
        return None
    try:
        return in_utc(datetime.fromisoformat(text), "timestamp_utc")
    except (TypeError, ValueError, InvalidArgumentsError) as error:
        raise InvalidArgumentsError(
            f"timestamp_utc: {quoted(text)} is not an ISO 8601 time."
        ) from error
