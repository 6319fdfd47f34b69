"""Messages, one JSON object a line, in local2's own form or in those of chat models' APIs.

A line may name its `session_id`; lines that name none are one session. A message without an id is
counted among its equals, so that reading the file again gives the same records.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from local2.errors import InvalidArgumentsError, abridged
from local2.protocol.conversation import ConversationMessage, numbered, session_of
from local2.protocol.envelope import content_id
from local2.protocol.lenient.messages import Id, messages_of
from local2.protocol.payloads import Json, split_into_parts
from local2.sources.items import Conversation, LeftOuts
from local2.sources.objects import FoundObject

PART_MESSAGES = 5_000
PART_CHARACTERS = 4_000_000
"""How many lines are read before they are sent, by session; a file may have any number."""


class SessionField(msgspec.Struct, frozen=True):
    """The field of a line of messages that is not part of its message."""

    session_id: Id | None = None


def read_line(line: Json) -> tuple[str | None, list[ConversationMessage]]:
    """The session that a line names, and its messages: tool results first, then its own.

    Raises:
        InvalidArgumentsError: It is not a message.
        msgspec.ValidationError: Its `session_id` is not an id.
    """
    session = msgspec.convert(line, SessionField).session_id
    message = {name: value for name, value in line.items() if name != "session_id"}
    return None if session is None else str(session), messages_of(message)


def items(objects: Iterable[FoundObject], left_out: LeftOuts) -> Iterator[Conversation]:
    """Read the messages of a file, by session."""
    counts: Counter[str] = Counter()
    begun: set[str] = set()
    unnamed: str | None = None
    parts = split_into_parts(
        _lines(objects, left_out),
        lambda line: len(line[1].content or ""),
        max_bytes=PART_CHARACTERS,
        max_items=PART_MESSAGES,
    )
    for part in parts:
        by_session: dict[str | None, list[ConversationMessage]] = {}
        for session, message in part:
            by_session.setdefault(session, []).append(message)
        if unnamed is None and None in by_session:
            unnamed = session_of(by_session[None])
        for named, messages in by_session.items():
            id_ = named or unnamed or ""
            counted = []  # how many equal ones the session has had in the file so far
            for message in messages:
                key = content_id(id_, message.role, message.name, message.content)
                counts[key] += 1
                occurrence = message.occurrence or counts[key]
                counted.append(msgspec.structs.replace(message, occurrence=occurrence))
            yield Conversation(id=id_, messages=list(numbered(counted)), continues=id_ in begun)
            begun.add(id_)


def _lines(
    objects: Iterable[FoundObject], left_out: LeftOuts
) -> Iterator[tuple[str | None, ConversationMessage]]:
    for found in objects:
        try:
            session, messages = read_line(found.value)
        except InvalidArgumentsError as error:
            left_out.refuse(f"{found.name}: {error.message}", "no messages")
        except msgspec.ValidationError as error:
            left_out.refuse(f"{found.name}: {abridged(error)}", "of another form than expected")
        else:
            for message in messages:
                yield session, message
