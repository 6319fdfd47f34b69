"""Conversations with questions and their evidence, as stored in a JSON file."""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import msgspec

REQUEST_BYTES = 900_000
"""Maximum bytes of the messages in one request; the bus carries 1 MB."""
CLOCKS = ("", "%I:%M %p ", "%H:%M ", "%H:%M:%S ")
DATES = ("%d %B %Y", "%B %d %Y", "%d %b %Y", "%b %d %Y")

_BETWEEN = re.compile(r"[\s,-]+(?:on\s+)?")


class DataError(Exception):
    """A file that cannot be used, and why."""


class Message(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    role: str
    content: str
    time: str
    name: str | None = None

    @property
    def text(self) -> str:
        """What was said, and by whom."""
        return f"{self.name}: {self.content}" if self.name else self.content


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """One sitting; its id is unique within its conversation only."""

    id: str
    messages: list[Message]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """A question; `evidence` holds the ids of the messages that contain the answer.

    `before` names the session that the question opened: it is asked before that one is stored.
    """

    text: str
    evidence: list[str]
    category: str | int
    before: str | None = None


class Conversation(msgspec.Struct, frozen=True, kw_only=True):
    """All the sessions of one user."""

    id: str
    sessions: list[Session]
    questions: list[Question]

    @property
    def session_of(self) -> dict[str, str]:
        """The session of each message, by message id."""
        return {message.id: session.id for session in self.sessions for message in session.messages}


class Dataset(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    conversations: list[Conversation]


class Sent(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message in the form that `ingest` accepts."""

    id: str
    role: str
    content: str
    timestamp: datetime | None
    name: str | None = None


class Piece(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a session that one request carries."""

    session_id: str
    messages: Sequence[Message]

    @property
    def sent(self) -> list[Sent]:
        return [_sent(message) for message in self.messages]


def load(path: Path) -> Dataset:
    """Read a file.

    Raises:
        DataError: It cannot be read, has another form, or uses one id for two things.
    """
    try:
        dataset = msgspec.json.decode(path.read_bytes(), type=Dataset)
    except (OSError, msgspec.DecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: {error}") from error
    _unique(f"{path}: conversation", [each.id for each in dataset.conversations])
    for conversation in dataset.conversations:
        where = f"{path}: conversation {conversation.id!r}:"
        _unique(f"{where} session", [session.id for session in conversation.sessions])
        sessions = {session.id for session in conversation.sessions}
        for question in conversation.questions:
            if question.before is not None and question.before not in sessions:
                raise DataError(f"{where} there is no session {question.before!r} to ask before.")
        messages = [m for session in conversation.sessions for m in session.messages]
        _unique(f"{where} message", [message.id for message in messages])
        for message in messages:
            if moment(message.time) is None:
                raise DataError(f"{where} message {message.id!r}: {message.time!r} is no time.")
    return dataset


def moment(text: str) -> datetime | None:
    """Parse a time in ISO 8601 or in words, UTC by default; None if it cannot be read."""
    with suppress(ValueError):
        return _in_utc(datetime.fromisoformat(text))
    words = _BETWEEN.sub(" ", text.strip())
    for clock, date in itertools.product(CLOCKS, DATES):
        with suppress(ValueError):
            return _in_utc(datetime.strptime(words, clock + date))  # noqa: DTZ007 - it gets one
    return None


def pieces(session: Session) -> Iterator[Piece]:
    """Split a session into pieces that fit the bus, unless a single message is too long."""
    piece: list[Message] = []
    size = 0
    for message in session.messages:
        cost = len(msgspec.json.encode(_sent(message)))
        if piece and size + cost > REQUEST_BYTES:
            yield Piece(session_id=session.id, messages=piece)
            piece, size = [], 0
        piece.append(message)
        size += cost
    if piece:
        yield Piece(session_id=session.id, messages=piece)


def _sent(message: Message) -> Sent:
    return Sent(
        id=message.id,
        role=message.role,
        name=message.name,
        content=message.content,
        timestamp=moment(message.time),
    )


def _in_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _unique(what: str, ids: Sequence[str]) -> None:
    for id_, count in Counter(ids).items():
        if count > 1:
            raise DataError(f"{what} {id_!r} is there {count} times.")
