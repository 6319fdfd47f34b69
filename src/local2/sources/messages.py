"""Messages, one JSON object a line, in local2's own form or in those of chat models' APIs.

A line may name its `session_id`; lines that name none are one session. A message without an id is
counted among its equals, so that reading the file again gives the same records.
"""

from collections import Counter
from collections.abc import Iterable, Iterator

import msgspec

from local2.errors import InvalidArgumentsError
from local2.protocol.conversation import ConversationMessage, numbered, session_of
from local2.protocol.envelope import content_id
from local2.protocol.lenient.messages import SessionField, messages_of
from local2.protocol.payloads import split_into_parts
from local2.sources.items import Conversation, LeftOuts
from local2.sources.objects import FoundObject, converted

PART_MESSAGES = 5_000
PART_CHARACTERS = 4_000_000
"""How many lines are read before they are sent, by session; a file may have any number."""


class Line(msgspec.Struct, frozen=True):
    session: str | None
    message: ConversationMessage


def items(objects: Iterable[FoundObject], left_out: LeftOuts) -> Iterator[Conversation]:
    """Read the messages of a file, by session."""
    counts: Counter[str] = Counter()
    begun: set[str] = set()
    unnamed: str | None = None
    parts = split_into_parts(
        _lines(objects, left_out),
        lambda line: len(line.message.content or ""),
        max_bytes=PART_CHARACTERS,
        max_items=PART_MESSAGES,
    )
    for part in parts:
        by_session: dict[str | None, list[ConversationMessage]] = {}
        for line in part:
            by_session.setdefault(line.session, []).append(line.message)
        if unnamed is None and None in by_session:
            unnamed = session_of(by_session[None])
        for named, messages in by_session.items():
            session = named or unnamed or ""
            yield Conversation(
                id=session,
                messages=list(numbered(_counted(messages, session, counts))),
                continues=session in begun,
            )
            begun.add(session)


def _lines(objects: Iterable[FoundObject], left_out: LeftOuts) -> Iterator[Line]:
    for found in objects:
        named = converted(found, SessionField, left_out)
        if named is None:
            continue
        session = None if named.session_id is None else str(named.session_id)
        value = {name: value for name, value in found.value.items() if name != "session_id"}
        try:
            for message in messages_of(value):
                yield Line(session=session, message=message)
        except InvalidArgumentsError as error:
            left_out.add(f"{found.name}: {error.message}", "no messages")


def _counted(
    messages: Iterable[ConversationMessage], session: str, counts: Counter[str]
) -> list[ConversationMessage]:
    """Say of each message how many equal ones its session has had in the file so far."""
    counted = []
    for message in messages:
        key = content_id(session, message.role, message.name, message.content)
        counts[key] += 1
        occurrence = message.occurrence or counts[key]
        counted.append(msgspec.structs.replace(message, occurrence=occurrence))
    return counted
