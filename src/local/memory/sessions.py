"""One caller's sessions: their messages and notes, and what to know at their start.

The last are facts, instructions and preferences: those that are important or made to last, and
after them those with a key. Of too many notes the oldest become one; the notes that it replaces
stay in the ledger.
"""

import math
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import accumulate, groupby

import msgspec

from local.errors import InvalidArgumentsError
from local.ledger.door import Ledger
from local.ledger.records import TENANT_OWNED, Record, checked_text, class_of
from local.ledger.sessions import FactSelection, SessionOf, StoredMessage, StoredSession
from local.llm.framing import fact_line, section
from local.memory.scopes import by, how_to_send, own_places
from local.protocol.answers import (
    Note,
    SessionCall,
    SessionContent,
    SessionMessage,
    SessionNotes,
    TopMemory,
)
from local.protocol.envelope import Caller, Clock, content_id
from local.protocol.memories import MemoryType
from local.protocol.payloads import Json
from local.settings import MemorySettings
from local.text.features import excerpt

TYPES: tuple[MemoryType, ...] = ("fact", "instruction", "preference")
SHARED_PART = 2
"""The share of an agent's or everybody's facts: half."""
SECTION = "pre-seeded-memories"
ARGS_BYTES = 4_000
"""Bytes of a call's arguments as JSON; longer ones are left out."""
MOST_NOTES = 15
MERGED_AT_ONCE = 8
EXCERPT = 160
"""Characters of a note in a merged one."""
MERGED_SIZE = 2_000
"""Characters of a merged note at most; beyond it the oldest lines are dropped."""
EARLIER = "earlier notes"
"""The role of a merged note."""


class TopMemories(msgspec.Struct, frozen=True, kw_only=True):
    """Important facts, then standing ones; of each the user's own first, by importance."""

    memories: list[TopMemory]

    def section(self) -> str:
        """Return the memories as a part of a prompt, each in a line of its own; empty for none."""
        lines = [fact_line(m.content, m.topic, m.by, m.source_class) for m in self.memories]
        return section(SECTION, lines) if lines else ""


class Selection:
    """Selects the facts that a caller should know, as the settings define."""

    def __init__(self, caller: Caller, settings: MemorySettings) -> None:
        self._caller = caller
        self._settings = settings
        self._count = settings.preseed_count
        self._share = math.ceil(self._count / SHARED_PART)

    @property
    def wanted(self) -> list[FactSelection]:
        """The important ones, then those with a key; within each the user's own first."""
        whose = own_places(self._caller)
        own = tuple(each for each in whose if each[0] == "user")
        shared = tuple(each for each in whose if each[0] != "user")
        return [
            FactSelection(
                whose=places,
                types=TYPES,
                least=self._settings.preseed_importance,
                limit=limit,
                standing=standing,
            )
            for standing in (False, True)
            for places, limit in ((own, self._count), (shared, self._share))
        ]

    def chosen(self, facts: Sequence[Sequence[Record]]) -> list[TopMemory]:
        """Return as many as are wanted, the user's own first; the facts of others have a share."""
        own, shared, standing, shared_standing = facts
        left = self._share - len(shared)
        found = [*own, *shared, *standing, *shared_standing[:left]][: self._count]
        found.sort(key=lambda one: one.scope != "user")
        return [_shown(one, self._caller) for one in found]


def _shown(record: Record, caller: Caller) -> TopMemory:
    return TopMemory(
        id=record.id,
        content=record.content,
        importance=record.importance,
        event_time=record.event_time,
        scope=record.scope,
        by=by(record, caller),
        source_class=class_of(record),
        topic=record.topic,
    )


class Sessions:
    """The sessions of a caller; the owner comes from the caller, never from a session's id."""

    def __init__(
        self,
        ledger: Ledger,
        caller: Caller,
        settings: MemorySettings,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._caller = caller
        self._owner = caller.user or TENANT_OWNED
        self._top = Selection(caller, settings)
        self._clock = clock

    async def top_memories(self) -> TopMemories:
        """Return what the caller should know at the start of each turn, whatever the question."""
        facts = await self._ledger.sessions.important(self._top.wanted)
        return TopMemories(memories=self._top.chosen(facts))

    async def note(self, content: str, role: str | None = None) -> SessionNotes:
        """Store a note in the caller's session, by default under the caller's name.

        A note that the role has made already, word for word, is not stored again.

        Raises:
            InvalidArgumentsError: The caller is in no session, or the note or its role is blank.
        """
        named = " ".join(checked_text(role or self._caller.agent or "agent", "role").split())
        session = SessionOf(self._owner, self._known(None))
        text, at = checked_text(content, "content"), self._clock()
        return await self._ledger.notes.store(session, named, text, at, merge=oldest_merged)

    async def load(self, session_id: str | None, limit: int) -> SessionContent:
        """Return a session's newest messages, `limit` at most, its notes, and what matters most.

        Tool results come after the assistant's message that requested them; where that was not
        recorded, a message without words takes its place.

        Raises:
            InvalidArgumentsError: Neither the argument nor the caller names a session.
        """
        session = SessionOf(self._owner, self._known(session_id))
        made = partial(self._made, session.session_id, limit)
        return await self._ledger.sessions.load(session, limit, self._top.wanted, made)

    def _made(self, session_id: str, limit: int, stored: StoredSession) -> SessionContent:
        ordered = conversation(in_order(stored.messages))
        messages = from_answered(ordered, max(0, len(ordered) - limit))
        return SessionContent(
            session_id=session_id,
            messages=messages,
            earlier=stored.earlier or len(messages) < len(ordered),
            notes=stored.notes,
            memories=self._top.chosen(stored.facts),
        )

    def _known(self, session_id: str | None) -> str:
        if known := session_id or self._caller.session_id:
            return known
        raise InvalidArgumentsError(
            "session_id: the request's envelope has none.",
            remedy=f"{how_to_send('session_id')}.",
        )


def in_order(stored: Sequence[StoredMessage]) -> list[StoredMessage]:
    """Return the messages in order; those of a turn together from its first, its question first.

    A tool's result may be received before the question is reported. The messages' times decide
    nothing: clocks are set back, and a message may claim any time.
    """
    runs: dict[str | int, list[StoredMessage]] = {}
    for number, message in enumerate(stored):
        runs.setdefault(message.turn or number, []).append(message)
    return [one for run in runs.values() for one in sorted(run, key=lambda one: one.role != "user")]


def conversation(stored: Sequence[StoredMessage]) -> list[SessionMessage]:
    """Return messages of records: consecutive tool results answer one message of the assistant."""
    messages: list[SessionMessage] = []
    for answers, group in groupby(stored, key=lambda one: one.role == "tool"):
        if answers:
            results = list(group)
            messages[-1:] = _asking(messages[-1:], results)
            messages += map(_message, results)
        else:
            messages += map(_message, group)
    return messages


def from_answered(messages: Sequence[SessionMessage], start: int) -> list[SessionMessage]:
    """Return the messages from a place on, beginning with one that is no tool's result.

    A result means nothing without its call. Where all are results, the message with their calls
    replaces the first.
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


def _asking(
    before: Sequence[SessionMessage], results: Sequence[StoredMessage]
) -> Iterator[SessionMessage]:
    """Yield the message before the results with their calls, or a new one with them."""
    calls = [_call(result) for result in results]
    if before and before[0].role == "assistant":
        answered = {call.id for call in calls}
        waiting = [call for call in before[0].tool_calls if call.id not in answered]
        yield msgspec.structs.replace(before[0], tool_calls=[*calls, *waiting])
        return
    yield from before
    first = _message(results[0])
    yield SessionMessage(
        role="assistant",
        content="",
        id=content_id("tool_calls", first.id),
        event_time=first.event_time,
        query_id=first.query_id,
        tool_calls=calls,
    )


def _message(stored: StoredMessage) -> SessionMessage:
    return SessionMessage(
        role=stored.role,
        content=stored.content,
        id=stored.id,
        event_time=stored.event_time,
        name=stored.label,
        source_ref=stored.source_ref,
        query_id=stored.query_id,
        tool_calls=[_short(**call) for call in stored.metadata.get("tool_calls", ())],
        tool_call_id=_call_id(stored) if stored.role == "tool" else None,
    )


def _call(result: StoredMessage) -> SessionCall:
    return _short(_call_id(result), result.label or "tool", result.metadata.get("args", {}))


def _short(id: str | None, name: str, args: Json) -> SessionCall:  # noqa: A002 - the field's name
    short = len(msgspec.json.encode(args)) <= ARGS_BYTES
    return SessionCall(id=id or "", name=name, args=args if short else {})


def _call_id(result: StoredMessage) -> str:
    return result.source_ref or result.id


def oldest_merged(notes: Sequence[Note]) -> Note | None:
    """Merge the oldest notes into one, if there are too many before a new one."""
    return merged(notes[:MERGED_AT_ONCE]) if len(notes) >= MOST_NOTES else None


def merged(notes: Sequence[Note]) -> Note:
    """Return one note for several: a line of each, at least of the newest, and their number."""
    lines = [line for note in notes for line in _lines(note)]
    newest = _newest(lines, MERGED_SIZE)
    total = sum(note.merges or 1 for note in notes)
    left_out = f", the oldest {total - len(newest)} left out" if len(newest) < total else ""
    last = notes[-1]
    return Note(
        position=last.position,
        role=EARLIER,
        content="\n".join([f"{total} notes, shortened{left_out}:", *newest]),
        event_time=last.event_time,
        merges=total,
    )


def _lines(note: Note) -> list[str]:
    """Return the lines of a note in a merged one: its beginning, or the lines that it merges."""
    own = f"{note.role}: {excerpt(note.content, EXCERPT)}"
    return note.content.split("\n")[1:] if note.merges else [own]


def _newest(lines: Sequence[str], size: int) -> Sequence[str]:
    """Return as many of the last lines as have so many characters."""
    sizes = accumulate(len(line) + 1 for line in reversed(lines))
    return lines[len(lines) - sum(each <= size for each in sizes) :]
