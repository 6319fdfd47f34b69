"""Make records of episodes: a question with its answer, or a note."""

from datetime import datetime

import msgspec

from local2.errors import InvalidArgumentsError, quoted
from local2.ledger.records import NewRecord, checked_text
from local2.memory.intake.echoes import OF_TURNS
from local2.memory.scopes import owner_of
from local2.protocol.envelope import Caller, content_id
from local2.protocol.memories import Kind
from local2.protocol.payloads import Json
from local2.protocol.times import in_utc

EPISODE: Kind = "episode"
NOTE: Kind = "note"
MAX_METADATA = 4_096
"""Maximum bytes, as JSON, of a caller's metadata for an episode."""
MAX_ID = 256
RESERVED = {
    "agent": "It is taken from the caller.",
    "score": "Rate the answer with response.feedback.",
    "recalled": "The memory determines it.",
    "unanswered": "The memory determines it.",
}
"""Names in metadata that only the memory fills in, with a remedy."""


def storable_metadata(metadata: Json) -> Json:
    """A sender's metadata without reserved names; empty if it is too large.

    Unlike a note, a turn is stored regardless of its metadata.
    """
    reserved = {*RESERVED, "session_id", "query_id", "timestamp_utc", "tool_calls"}
    kept = {name: value for name, value in metadata.items() if name not in reserved}
    return kept if len(msgspec.json.encode(kept)) <= MAX_METADATA else {}


def episode_text(query: str, answer: str | None) -> str:
    """The text of an episode; without an answer, it only serves to identify the turn."""
    return f"Q: {query}\nA: {answer}"


def split_episode(text: str) -> tuple[str, str]:
    """The question and the answer of a text that `episode_text` made."""
    query, _, answer = text.removeprefix("Q: ").partition("\nA: ")
    return query, answer


def new_episode(content: str, metadata: Json, caller: Caller, now: datetime) -> NewRecord:
    """The record of an episode. The same content and query_id give the same id.

    Without a query_id, the id also depends on the metadata, so that none is lost.

    Args:
        content: The text that is searched.
        metadata: `session_id`, `query_id` and `timestamp_utc` fill columns; the rest is stored.
        caller: The owner.
        now: The time of the episode, if there is no `timestamp_utc`.

    Raises:
        InvalidArgumentsError: The content is blank, an id is invalid, or `timestamp_utc` is not a
            time.
    """
    extra = dict(metadata)
    query_id = _pop_id(extra, "query_id")
    session_id = _pop_id(extra, "session_id") or caller.session_id
    moment = now
    if (written := extra.pop("timestamp_utc", None)) is not None:
        try:
            moment = in_utc(datetime.fromisoformat(written), "timestamp_utc")
        except (TypeError, ValueError, InvalidArgumentsError) as error:
            raise InvalidArgumentsError(
                f"timestamp_utc: {quoted(written)} is not an ISO 8601 time."
            ) from error
    owner = owner_of(caller)
    identity = [EPISODE, owner, query_id, checked_text(content, "content")]
    own = {name: value for name, value in extra.items() if name not in OF_TURNS}
    if own and query_id is None:
        identity.append(msgspec.json.encode(own, order="deterministic").decode())
    return NewRecord(
        id=content_id(*identity),
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
    """The record of a note. Arguments and errors are those of `new_episode`.

    Notes of earlier versions are episodes; the same note has the same id as such an episode.

    Raises:
        InvalidArgumentsError: The metadata is too large or has a reserved name.
    """
    for name, remedy in RESERVED.items():
        if name in metadata:
            raise InvalidArgumentsError(
                f"metadata.{name}: the name is reserved.", remedy=f"{remedy} Leave it out."
            )
    if (size := len(msgspec.json.encode(metadata))) > MAX_METADATA:
        raise InvalidArgumentsError(
            f"metadata: has {size:,} bytes as JSON; at most {MAX_METADATA:,} are allowed.",
            remedy="Put searchable text into the content.",
        )
    return msgspec.structs.replace(
        new_episode(content, metadata, caller, now), kind=NOTE, scope="user"
    )


def _pop_id(metadata: Json, name: str) -> str | None:
    """Remove an id from the metadata, and return it."""
    given = metadata.pop(name, None)
    if given is None or (isinstance(given, str) and len(given) <= MAX_ID and "\0" not in given):
        return given or None
    raise InvalidArgumentsError(
        f"metadata.{name}: {quoted(given)} is not an id.",
        remedy=f"Use a text of at most {MAX_ID} characters without NUL.",
    )
