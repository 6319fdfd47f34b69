"""One caller's sessions: what was said in them, what was noted, and what to know at their start."""

import math
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import Self

import msgspec

from local.database import Connection, Row
from local.errors import InvalidArgumentsError
from local.memory.notes import Note, Noted, Notes
from local.memory.places import how_to_send, own_places, place
from local.memory.provenance import by
from local.memory.records import TENANT_OWNED, Record, checked_text
from local.memory.rows import TenantRows
from local.protocol.caller import Caller
from local.protocol.ids import content_id
from local.protocol.kinds import By, Owning
from local.protocol.payloads import Json
from local.settings import MemorySettings

CHARACTERS = 500_000
"""Where reading a session backwards stops, after the message that reaches it."""
LONGEST = 100_000
"""Longer messages count as this much, since whoever shows them cuts them."""
ARGS_BYTES = 4_000
"""Of a call's arguments, as JSON; longer ones are left out."""
SHARED_PART = 2
"""Of the facts that matter most half may be those of an agent or of everybody."""


class SessionCall(msgspec.Struct, frozen=True, kw_only=True):
    """A tool call; `args` is empty where they are not known, or too long."""

    id: str
    name: str
    args: Json


class SessionMessage(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message as chat models take it.

    `name` is who said it or which tool answered, `source_ref` the id that who stored it gave it.
    """

    role: str
    content: str
    id: str
    event_time: datetime
    name: str | None = None
    source_ref: str | None = None
    query_id: str | None = None
    tool_calls: list[SessionCall] = []
    tool_call_id: str | None = None

    @classmethod
    def from_row(cls, row: Row) -> Self:
        return cls(
            role=row["role"],
            content=row["content"],
            id=row["id"],
            event_time=datetime.fromisoformat(row["event_time"]),
            name=row["label"],
            source_ref=row["source_ref"],
            query_id=row["query_id"],
            tool_calls=[_short(**call) for call in _kept(row).get("tool_calls", ())],
            tool_call_id=_call_id(row) if row["role"] == "tool" else None,
        )


class ImportantFact(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """`by`: stated by the user who asks, or by another."""

    id: str
    content: str
    importance: float
    event_time: datetime
    scope: Owning
    by: By
    topic: str | None = None

    @classmethod
    def of(cls, record: Record, caller: Caller) -> Self:
        return cls(
            id=record.id,
            content=record.content,
            importance=record.importance,
            event_time=record.event_time,
            scope=record.scope,
            by=by(record, caller),
            topic=record.topic,
        )


class Session(msgspec.Struct, frozen=True, kw_only=True):
    """Messages in the order in which they were told; `earlier`: there are more before them."""

    session_id: str
    messages: list[SessionMessage]
    earlier: bool
    notes: list[Note]
    memories: list[ImportantFact]


class Sessions:
    """The sessions of a caller; whose they are comes from the caller, never from a session's id."""

    def __init__(
        self,
        rows: TenantRows,
        caller: Caller,
        settings: MemorySettings,
        clock: Callable[[], datetime],
    ) -> None:
        self._rows = rows
        self._caller = caller
        self._owner = caller.user or TENANT_OWNED
        self._settings = settings
        self._clock = clock

    async def note(self, content: str, role: str | None = None) -> Noted:
        """Make a note in the caller's session, by default under the caller's name.

        Raises:
            InvalidArgumentsError: The caller is in no session, or the note or its role is blank.
        """
        named = " ".join(checked_text(role or self._caller.agent or "agent", "role").split())
        notes = Notes(self._rows, self._owner, self._known(None))
        return await notes.add(named, checked_text(content, "content"), self._clock())

    async def load(self, session_id: str | None, limit: int) -> Session:
        """A session's newest messages, `limit` at most, its notes, and what matters most.

        Tool results stand behind the assistant's message that asked for them; where that was not
        recorded, one without words stands for it.

        Raises:
            InvalidArgumentsError: Neither the argument nor the caller says which session.
        """
        known = self._known(session_id)
        notes = Notes(self._rows, self._owner, known)

        def load(connection: Connection) -> Session:
            rows, earlier = self._newest(connection, known, limit)
            told = conversation(in_order(rows))
            messages = from_answered(told, max(0, len(told) - limit))
            return Session(
                session_id=known,
                messages=messages,
                earlier=earlier or len(messages) < len(told),
                notes=notes.all_in(connection),
                memories=self._important(connection),
            )

        return await self._rows.read(load)

    def _newest(
        self, connection: Connection, session_id: str, limit: int
    ) -> tuple[list[Row], bool]:
        """Rows in their order, and whether there are more before them."""
        rows: list[Row] = []
        characters = 0
        found = self._rows.execute(
            connection,
            "session_messages",
            owner=self._owner,
            session_id=session_id,
            limit=limit + 1,
        )
        for row in found:
            if len(rows) == limit or characters >= CHARACTERS:
                found.close()
                return rows[::-1], True
            rows.append(row)
            characters += min(len(row["content"]), LONGEST)
        return rows[::-1], False

    def _important(self, connection: Connection) -> list[ImportantFact]:
        """The user's own facts, and then those that others state, too, which have their share."""
        count = self._settings.preseed_count
        whose = own_places(self._caller)
        own = self._facts(connection, [each for each in whose if each[0] == "user"], count)
        left = min(count - len(own), math.ceil(count / SHARED_PART))
        shared = self._facts(connection, [each for each in whose if each[0] != "user"], left)
        return [ImportantFact.of(record, self._caller) for record in (*own, *shared)]

    def _facts(
        self, connection: Connection, whose: Sequence[tuple[Owning, str]], limit: int
    ) -> list[Record]:
        """The most important facts of these scopes and owners."""
        places = [place(self._caller.tenant, scope, owner, "fact") for scope, owner in whose]
        found = self._rows.execute(
            connection,
            "important_facts",
            places=msgspec.json.encode(places).decode(),
            importance=self._settings.preseed_importance,
            limit=limit,
        )
        return [Record.from_row(row) for row in found]

    def _known(self, session_id: str | None) -> str:
        if known := session_id or self._caller.session_id:
            return known
        raise InvalidArgumentsError(
            "session_id: the request's envelope has none.",
            remedy=f"{how_to_send('session_id')}.",
        )


def in_order(rows: Sequence[Row]) -> list[Row]:
    """The rows as they stand, those of a turn together where its first one is, its question first.

    A tool's result may be heard before the question is reported. When something was said decides
    nothing: clocks are set back, and any time can be claimed.
    """
    runs: dict[str | int, list[Row]] = {}
    for number, row in enumerate(rows):
        runs.setdefault(row["turn"] or number, []).append(row)
    return [
        row for run in runs.values() for row in sorted(run, key=lambda row: row["role"] != "user")
    ]


def conversation(rows: Sequence[Row]) -> list[SessionMessage]:
    """Messages of records: tool results in a row are answers to one message of the assistant."""
    messages: list[SessionMessage] = []
    for answers, group in groupby(rows, key=lambda row: bool(row["role"] == "tool")):
        if answers:
            results = list(group)
            messages[-1:] = _asking(messages[-1:], results)
            messages += map(SessionMessage.from_row, results)
        else:
            messages += map(SessionMessage.from_row, group)
    return messages


def from_answered(messages: Sequence[SessionMessage], start: int) -> list[SessionMessage]:
    """The messages from a place on that begin with no tool's: it means nothing without its call.

    Where all of them are tools', the message with their calls stands in the place of the first.
    """
    roles = [message.role for message in messages]
    first = next((n for n in range(start, len(roles)) if roles[n] != "tool"), len(roles))
    answers = messages[start + 1 : first]
    if first < len(roles) or not answers:
        return list(messages[first:])
    asking = next(message for message in reversed(messages[:start]) if message.role != "tool")
    answered = {message.tool_call_id for message in answers}
    calls = [call for call in asking.tool_calls if call.id in answered]
    return [msgspec.structs.replace(asking, tool_calls=calls), *answers]


def _asking(before: Sequence[SessionMessage], results: Sequence[Row]) -> Iterator[SessionMessage]:
    """The message before the results, with their calls if it can have asked; else one that did."""
    calls = [_call(row) for row in results]
    if before and before[0].role == "assistant":
        answered = {call.id for call in calls}
        waiting = [call for call in before[0].tool_calls if call.id not in answered]
        yield msgspec.structs.replace(before[0], tool_calls=[*calls, *waiting])
        return
    yield from before
    first = SessionMessage.from_row(results[0])
    yield SessionMessage(
        role="assistant",
        content="",
        id=content_id("tool_calls", first.id),
        event_time=first.event_time,
        query_id=first.query_id,
        tool_calls=calls,
    )


def _call(row: Row) -> SessionCall:
    return _short(_call_id(row), row["label"] or "tool", _kept(row).get("args", {}))


def _short(id: str | None, name: str, args: Json) -> SessionCall:  # noqa: A002 - as it is kept
    short = len(msgspec.json.encode(args)) <= ARGS_BYTES
    return SessionCall(id=id or "", name=name, args=args if short else {})


def _kept(row: Row) -> Json:
    """What is kept beside a message's text."""
    kept: Json = msgspec.json.decode(row["metadata"])
    return kept


def _call_id(row: Row) -> str:
    return str(row["source_ref"] or row["id"])
