"""Load one caller's sessions: their messages, their notes and the top memories.

Top memories are facts, instructions and preferences: first the important and durable ones, then
those with a topic key. If a session has too many notes, the oldest are merged into one; the merged
notes stay in the ledger.
"""

import math
from collections.abc import Sequence
from itertools import accumulate, chain, groupby
from typing import Literal

import msgspec

from local2.errors import InvalidArgumentsError
from local2.keys import fold_topic
from local2.language.sentences import excerpt
from local2.language.statements import differ_in_value
from local2.ledger.ledger import Ledger
from local2.ledger.operations.candidates import TEXT_CHARACTERS
from local2.ledger.operations.sessions import (
    FactSelection,
    SessionKey,
    StoredMessage,
    StoredSession,
)
from local2.ledger.records import Record, checked_text, principal_of
from local2.memory.intake.waiting_turns import WaitingTurns, why_incomplete
from local2.memory.scopes import how_to_send, may_retire, own_places, owner_of, view
from local2.protocol.envelope import Caller, Clock, content_id
from local2.protocol.memories import MemoryType
from local2.protocol.memory_tools import (
    Note,
    SessionCall,
    SessionContent,
    SessionMessage,
    SessionNotes,
    TopMemories,
    TopMemory,
)
from local2.protocol.payloads import Json
from local2.quoting import TOP_MEMORIES_SECTION, memory_line, section
from local2.settings import MemorySettings

TYPES: tuple[MemoryType, ...] = ("fact", "instruction", "preference")
GROUPS: tuple[Literal["pinned", "important", "standing"], ...] = ("pinned", "important", "standing")
SHARED_DIVISOR = 2
"""The facts of an agent and of the tenant get at most half of the places."""
ARGS_BYTES = 4_000
"""Maximum bytes of a call's arguments as JSON; longer ones are omitted."""
MAX_NOTES, MERGED_NOTES = 15, 8
"""Number of notes from which the oldest are merged, and how many of them."""
EXCERPT, MERGED_SIZE = 160, 2_000
"""Maximum characters of a note within a merged note, and of the merged note."""
MERGED_ROLE = "earlier notes"
"""The role of a merged note."""


class PreseededMemories(TopMemories, frozen=True, kw_only=True):
    """The top memories, for a prompt."""

    def section(self) -> str:
        """A prompt section with a line for each memory; empty if there are none."""
        lines = list(map(memory_line, self.memories))
        return section(TOP_MEMORIES_SECTION, lines) if lines else ""


class TopSelection:
    """Selects the top memories of a caller according to the settings."""

    def __init__(self, caller: Caller, settings: MemorySettings) -> None:
        self._caller = caller
        self._settings = settings
        self._count = settings.preseed_count
        self._shared_count = math.ceil(self._count / SHARED_DIVISOR)

    @property
    def wanted(self) -> list[FactSelection]:
        """The groups to read: pinned facts, important ones, then those with a key.

        In each, the user's own come first.
        """
        places = own_places(self._caller)
        own = tuple(place for place in places if place[0] == "user")
        shared = tuple(place for place in places if place[0] != "user")
        return [
            FactSelection(
                places=places_of_group,
                types=TYPES,
                least=self._settings.preseed_importance,
                limit=limit,
                group=group,
            )
            for group in GROUPS
            for places_of_group, limit in ((own, self._count), (shared, self._shared_count))
        ]

    def select(self, facts: Sequence[Sequence[Record]]) -> list[TopMemory]:
        """The top memories out of the facts of each group in `wanted`, each text once.

        Of a user's facts under one key, for everybody and for an agent, the newest stands. So does
        the newest of those that state different values of the same thing, whatever their keys, as
        `recall` compares them. A text that has a key for one of them is not repeated without it for
        the other.
        """
        oldest_first = sorted(chain.from_iterable(facts), key=lambda fact: (fact.newness, fact.row))
        newest: dict[tuple[str, str | None], Record] = {}
        replaced: set[str] = set()
        for number, fact in enumerate(oldest_first):
            if fact.topic is not None:
                newest[fold_topic(fact.topic), principal_of(fact)] = fact
            replaced.update(
                older.id
                for older in oldest_first[:number]
                if may_retire(fact, older)
                and differ_in_value(fact.content[:TEXT_CHARACTERS], older.content[:TEXT_CHARACTERS])
            )

        def stands(fact: Record) -> bool:
            if fact.id in replaced:
                return False
            if fact.topic is None:
                return True
            return newest[fold_topic(fact.topic), principal_of(fact)].content == fact.content

        seen: set[str] = set()
        distinct: list[list[Record]] = []
        for group in facts:
            with_keys = {(principal_of(fact), fact.content) for fact in group if fact.topic}
            by_text = {
                (fact.topic, fact.content): fact
                for fact in group
                if stands(fact)
                and (fact.topic or (principal_of(fact), fact.content) not in with_keys)
            }
            new = [fact for fact in by_text.values() if fact.id not in seen]
            seen.update(fact.id for fact in new)
            distinct.append(new)
        pinned, shared_pinned, own, shared, standing, shared_standing = distinct
        shared = shared[: self._shared_count - len(shared_pinned)]
        left = self._shared_count - len(shared_pinned) - len(shared)
        first = [*pinned, *shared_pinned, *own, *shared]
        found = [*first, *standing, *shared_standing[:left]][: self._count]
        found.sort(key=lambda record: record.scope != "user")
        return [view(record, self._caller, TopMemory) for record in found]


class Sessions:
    """The sessions of one caller. Their owner is taken from the caller, never from a session id."""

    def __init__(
        self,
        ledger: Ledger,
        caller: Caller,
        settings: MemorySettings,
        clock: Clock,
        turns: WaitingTurns,
    ) -> None:
        self._ledger = ledger
        self._caller = caller
        self._owner = owner_of(caller)
        self._top = TopSelection(caller, settings)
        self._clock = clock
        self._turns = turns

    async def top_memories(self) -> PreseededMemories:
        """The memories that the caller should know in every turn."""
        facts = await self._ledger.sessions.important(self._top.wanted)
        return PreseededMemories(memories=self._top.select(facts))

    async def note(self, content: str, role: str | None = None) -> SessionNotes:
        """Store a note in the caller's session. The default role is the caller's agent.

        A note with the same role and words is stored once.

        Raises:
            InvalidArgumentsError: The caller has no session, or the note or its role is blank.
        """
        role = " ".join(checked_text(role or self._caller.agent or "agent", "role").split())
        session = SessionKey(self._owner, self._session_id(None))
        text, at = checked_text(content, "content"), self._clock()
        return await self._ledger.notes.store(session, role, text, at, merge=merge_oldest)

    async def load(self, session_id: str | None, limit: int) -> SessionContent:
        """A session's newest messages (at most `limit`), its notes and the top memories.

        Tool results follow the assistant's message that requested them. If that message was not
        recorded, an empty one takes its place.

        Raises:
            InvalidArgumentsError: Neither the argument nor the caller names a session.
        """
        session = SessionKey(self._owner, self._session_id(session_id))

        def make(stored: StoredSession) -> SessionContent:
            ordered = conversation(in_order(stored.messages))
            messages = from_call(ordered, max(0, len(ordered) - limit))
            return SessionContent(
                session_id=session.session_id,
                messages=messages,
                earlier=stored.earlier or len(messages) < len(ordered),
                notes=stored.notes,
                memories=self._top.select(stored.facts),
            )

        # Asked before the ledger, which may lack a turn that is stored meanwhile.
        waiting = await self._turns.count()
        loaded = await self._ledger.sessions.load(session, limit, self._top.wanted, make)
        if waiting:
            loaded = msgspec.structs.replace(loaded, degraded=True, reason=why_incomplete(waiting))
        return loaded

    def _session_id(self, session_id: str | None) -> str:
        if known := session_id or self._caller.session_id:
            return known
        raise InvalidArgumentsError(
            "session_id: the request's envelope has none.",
            remedy=f"{how_to_send('session_id')}.",
        )


def in_order(stored: Sequence[StoredMessage]) -> list[StoredMessage]:
    """The messages with those of a turn side by side: the question, calls and results, the answer.

    A tool's result may be stored before the question, or after the answer that it came too late
    for. It belongs to the message with its call or, if that was not recorded, to the turn with its
    query id. The messages' times are ignored, because clocks are set back and a message may claim
    any time.
    """
    turns: dict[str | int, list[StoredMessage]] = {}
    calling: dict[str, str | int] = {}
    # The first turn of each query; from there on, the last one so far.
    asking = {one.query_id: one.turn for one in reversed(stored) if one.query_id and one.turn}
    for number, message in enumerate(stored):
        turn: str | int | None = message.turn
        if turn is None and message.role == "tool":
            turn = calling.get(message.source_ref or "") or asking.get(message.query_id or "")
        elif message.query_id and message.turn:
            asking[message.query_id] = message.turn
        turn = number if turn is None else turn
        calling |= {call["id"]: turn for call in _calls(message) if call["id"]}
        turns.setdefault(turn, []).append(message)
    ordered = (sorted(turn, key=_place_in_turn) for turn in turns.values())
    return [message for turn in ordered for message in turn]


def _place_in_turn(message: StoredMessage) -> int:
    is_answer = message.role == "assistant" and not _calls(message)
    return 0 if message.role == "user" else 1 + is_answer


def conversation(stored: Sequence[StoredMessage]) -> list[SessionMessage]:
    """The records as messages; consecutive tool results follow one assistant's message."""
    messages: list[SessionMessage] = []
    for are_results, group in groupby(stored, key=lambda record: record.role == "tool"):
        records = list(group)
        if are_results:
            calls = [
                _shortened(
                    _call_id(result), result.label or "tool", result.metadata.get("args", {})
                )
                for result in records
            ]
            before = messages[-1] if messages else None
            if before is not None and before.role == "assistant":
                answered = {call.id for call in calls}
                waiting = [call for call in before.tool_calls if call.id not in answered]
                messages[-1] = msgspec.structs.replace(before, tool_calls=[*calls, *waiting])
            else:  # the message that called was not recorded
                messages.append(
                    SessionMessage(
                        role="assistant",
                        content="",
                        id=content_id("tool_calls", records[0].id),
                        event_time=records[0].event_time,
                        query_id=records[0].query_id,
                        tool_calls=calls,
                    )
                )
        messages += map(_message, records)
    return messages


def from_call(messages: Sequence[SessionMessage], start: int) -> list[SessionMessage]:
    """The messages from `start` on, without tool results whose call precedes them.

    A result means nothing without its call. If only results are left, the message with their calls
    takes the place of the first.
    """
    roles = [message.role for message in messages]
    first = next((n for n in range(start, len(roles)) if roles[n] != "tool"), len(roles))
    results = messages[start + 1 : first]
    if first < len(roles) or not results:
        return list(messages[first:])
    calling = next(message for message in reversed(messages[:start]) if message.role != "tool")
    answered = {message.tool_call_id for message in results}
    calls = [call for call in calling.tool_calls if call.id in answered]
    return [msgspec.structs.replace(calling, tool_calls=calls), *results]


def _message(stored: StoredMessage) -> SessionMessage:
    return SessionMessage(
        role=stored.role,
        content=stored.content,
        id=stored.id,
        event_time=stored.event_time,
        name=stored.label,
        source_ref=stored.source_ref,
        query_id=stored.query_id,
        tool_calls=[_shortened(**call) for call in _calls(stored)],
        tool_call_id=_call_id(stored) if stored.role == "tool" else None,
    )


def _calls(stored: StoredMessage) -> Sequence[Json]:
    """The calls of a message whose results were not reported with it."""
    calls: Sequence[Json] = stored.metadata.get("tool_calls", ())
    return calls


def _shortened(id: str | None, name: str, args: Json) -> SessionCall:  # noqa: A002 - the field's name
    short = len(msgspec.json.encode(args)) <= ARGS_BYTES
    return SessionCall(id=id or "", name=name, args=args if short else {})


def _call_id(result: StoredMessage) -> str:
    return result.source_ref or result.id


def merge_oldest(notes: Sequence[Note]) -> Note | None:
    """Merge the oldest notes into one if there is no room for another note."""
    return merge(notes[:MERGED_NOTES]) if len(notes) >= MAX_NOTES else None


def merge(notes: Sequence[Note]) -> Note:
    """Merge notes into one that has their number and a line for each, as far as they fit."""
    lines: list[str] = []
    for note in notes:
        if note.merges:
            lines += note.content.split("\n")[1:]  # without its heading
        else:
            lines.append(f"{note.role}: {excerpt(note.content, EXCERPT)}")
    sizes = accumulate(len(line) + 1 for line in reversed(lines))
    newest = lines[len(lines) - sum(size <= MERGED_SIZE for size in sizes) :]
    total = sum(note.merges or 1 for note in notes)
    left_out = f", the oldest {total - len(newest)} left out" if len(newest) < total else ""
    last = notes[-1]
    return Note(
        position=last.position,
        role=MERGED_ROLE,
        content="\n".join([f"{total} notes, shortened{left_out}:", *newest]),
        event_time=last.event_time,
        merges=total,
    )
