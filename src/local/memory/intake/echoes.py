"""Recognises what comes back from the memory: results of its own tools, and answers from them.

Results of its tools are never recorded as memories. A tool's name does not prove whose it is, as
other teams use the same names; its answer does. So the memory notes what its tools have answered,
to whom and with which records. This is held in this process only and is bounded: nothing is known
about answers older than `since`.

Everything else is stored word for word. But a repeated question is nearer to itself than to its
answers, and its answer repeats a memory: in a search both give way to the memories behind them, by
what is noted here when the turn is stored.
"""

import asyncio
import hashlib
import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import TypeVar

import msgspec

from local.ledger.door import Ledger
from local.ledger.records import TENANT_OWNED, NewRecord, Shown
from local.protocol.envelope import Caller
from local.protocol.payloads import Json, ToolCallRecord, ToolSchema
from local.text.features import asks, sentences
from local.text.words import informative_words, stems, words

MOST_RESULTS = 10_000
MOST_SESSIONS = 2_000
NO_SESSION = ""
"""The session of calls that name none."""
MOST_SHOWN = 100
"""The number of records, shown to a session, that are remembered: the latest."""
COMPARED = 2_000
"""Characters of a result that are compared: agents report it cut, and with other white space."""

K = TypeVar("K")
V = TypeVar("V")
OWN_RESULT = "answered by this memory itself"
NOT_RECORDED = "not to be recorded, as its tool says"
Announced = Callable[[str], ToolSchema | None]
"""Returns what a tool of that name announced, if the announcement was received."""
ADDS, UNANSWERED = "adds", "unanswered"
"""In the metadata: its own words; whether it asks, or reports that nothing is known."""
OF_TURNS = frozenset({"tool_calls", "recalled", ADDS, UNANSWERED})
"""What the memory notes about a turn; it does not make another memory of it."""
READ = 20_000
"""Characters of a text that are compared; the rest of a longer one counts as its own."""
REFUSING = 2_000
"""Characters at the beginning in which a refusal is recognised."""
MOST_ADDED = 64
SHARED, LEAST_SHARED = 0.3, 2
"""The share of a memory's words in an answer that rests on it, or the other way round."""
MOST_BESIDE = 3
"""Words that a refusal may have besides those of its question and its wording."""


class AnswerLog:
    """Results of the memory's tools, each with the ids of the records that it showed."""

    def __init__(self, since: datetime) -> None:
        self.since = since
        self._results = OrderedDict[bytes, tuple[str, ...]]()
        self._sessions = OrderedDict[tuple[str, str], dict[str, None]]()

    def add(self, caller: Caller, tool: str, content: str, ids: Iterable[str]) -> None:
        """Note that a tool is about to answer `content`, which shows these records."""
        owner, shown = caller.user or TENANT_OWNED, tuple(ids)
        _put(self._results, _digest(owner, tool, content), shown, MOST_RESULTS)
        if shown:
            key = owner, caller.session_id or NO_SESSION
            latest = dict.fromkeys((*self._sessions.get(key, ()), *shown[:MOST_SHOWN]))
            latest = dict.fromkeys(list(latest)[-MOST_SHOWN:])
            _put(self._sessions, key, latest, MOST_SESSIONS)

    def shown(self, owner: str, tool: str, content: str) -> tuple[str, ...] | None:
        """Return the ids of the records in this result; None if this memory did not answer it."""
        return self._results.get(_digest(owner, tool, content))

    def to_session(self, owner: str, session_id: str | None) -> tuple[str, ...]:
        """Return the ids of what was shown to the session, or without naming a session."""
        keys = (owner, session_id or NO_SESSION), (owner, NO_SESSION)
        return tuple(dict.fromkeys(id_ for key in keys for id_ in self._sessions.get(key, ())))


def _put(held: OrderedDict[K, V], key: K, value: V, most: int) -> None:
    held[key] = value
    held.move_to_end(key)
    if len(held) > most:
        held.popitem(last=False)


def _digest(owner: str, tool: str, content: str) -> bytes:
    text = " ".join(content[: COMPARED * 2].split())[:COMPARED]
    return hashlib.blake2b(msgspec.json.encode((owner, tool, text)), digest_size=16).digest()


class KnownTools:
    """`own` are the names of the tools over this memory.

    Another team's tool may have such a name: the answer decides whose a result is.
    """

    def __init__(self, own: frozenset[str], served: AnswerLog, announced: Announced) -> None:
        self.own = own
        self._served = served
        self._announced = announced

    def why_not(self, owner: str, call: ToolCallRecord) -> str | None:
        """Return why the result of an owner's call is not recorded, if it is not."""
        if self._is_own(owner, call):
            return OWN_RESULT
        announced = self._of_another(call.name)
        recorded = call.recorded and (announced is None or announced.recorded)
        return None if recorded else NOT_RECORDED

    def may_be_own(self, tool: str, at: datetime) -> bool:
        """Return whether one of the memory's own tools may have answered before it was noted."""
        return tool in self.own and at < self._served.since

    def reads_memory(self, tool: str) -> bool:
        """Return whether it is another team's tool whose results come from the memory."""
        announced = self._of_another(tool)
        return announced is not None and announced.reads_memory

    def _is_own(self, owner: str, call: ToolCallRecord) -> bool:
        """Return whether a tool of this memory answered; for an empty answer the name decides."""
        if not call.content.strip():
            return call.name in self.own
        return self._served.shown(owner, call.name, call.content) is not None

    def _of_another(self, tool: str) -> ToolSchema | None:
        """Return what was announced under a name that is none of the memory's own."""
        return None if tool in self.own else self._announced(tool)


_REFUSAL = re.compile(
    r"\b(?:no|not|nothing|never|cannot|unable|\w{2,7}n['\u2019]t)\b[^.!?\n]{0,60}?\b(?:know|remember|"
    r"recall|aware|information|memor(?:y|ies)|record(?:s|ed)?|mention(?:ed)?|found|find|saved|stored|"
    r"details?|context|sure|told|access|answer|anything)\b"
    r"|\b(?:know|remember|recall|found|find|have|see) (?:nothing|no|none|neither)\b",
    re.IGNORECASE,
)
_TALK = frozenset(
    stems(
        words("""
    access across again ahead anything answer asked available aware cannot check chat clear confirm
    context conversation could couldn currently detail details did didn doesn don earlier far feel
    find found free give glad happy haven help here hope information isn know known let like ll look
    looked looking may maybe memories memory mention might more moment need never nothing now old
    one past perhaps personal previous provide provided re record recorded records remember right
    save saved search searched see seem session sessions share shared something sorry specific
    specifically store stored sure there time topic try unable unfortunately ve wasn yet
    """)
    )
)


class Reading(msgspec.Struct, frozen=True, kw_only=True):
    """What a turn repeats; `sources` are the ids of the records that its answer rests on.

    The others are metadata for the records of the question, and of the answer.
    """

    sources: tuple[str, ...] = ()
    of_question: Json = {}
    of_answer: Json = {}

    def of(self, record: NewRecord) -> Json:
        """Return the metadata for a record of the turn."""
        if record.kind == "episode":
            return self.of_episode
        return {"user": self.of_question, "assistant": self.of_answer}.get(record.role or "", {})

    @property
    def of_episode(self) -> Json:
        """The metadata of both; it is unanswered only if nothing else is stated."""
        adds = [*self.of_question.get(ADDS, ()), *self.of_answer.get(ADDS, ())]
        if UNANSWERED in self.of_question and UNANSWERED in self.of_answer:
            return {UNANSWERED: True}
        return {ADDS: adds[:MOST_ADDED]} if self.sources else {}


class Echoes:
    """Compares the turns of one tenant with what its memory showed."""

    def __init__(self, ledger: Ledger, served: AnswerLog, tools: KnownTools) -> None:
        self._ledger = ledger
        self._served = served
        self.tools = tools

    async def read(
        self, query: str, answer: str | None, calls: Sequence[ToolCallRecord], record: NewRecord
    ) -> Reading:
        """Compare a turn, whose records are like this one, with what its session was shown."""
        if answer is None:
            return Reading(of_question=unanswered(query))
        owner, session_id = record.owner, record.session_id
        results, ids = await asyncio.to_thread(self._answers, owner, session_id, calls)
        compared = await self._shown(list(ids), record.turn)
        return await asyncio.to_thread(read, query, answer, compared, results)

    def _answers(
        self, owner: str, session_id: str | None, calls: Sequence[ToolCallRecord]
    ) -> tuple[list[str], Iterable[str]]:
        """Return the calls' results from the memory, and the ids of what the session was shown."""
        results = []
        ids = dict.fromkeys(self._served.to_session(owner, session_id))
        for call in calls:
            if (shown := self._served.shown(owner, call.name, call.content)) is not None:
                results.append(call.content)
                ids |= dict.fromkeys(shown)
            elif self.tools.reads_memory(call.name):
                results.append(call.content)
        return results, ids

    async def _shown(self, ids: Sequence[str], turn: str | None) -> list[Shown]:
        if not ids:
            return []
        return await self._ledger.records.shown(ids, but_turn=turn, characters=READ)


def read(query: str, answer: str, shown: Sequence[Shown], results: Sequence[str]) -> Reading:
    """Compare a turn with what was shown to the agent that answered it.

    Args:
        query: The question.
        answer: The answer.
        shown: The records that memory tools showed meanwhile.
        results: What these tools answered, and others that read the memory, as text.
    """
    asked, answered = words_of(query), words_of(answer)
    stated = words_of(statements(query))
    added = answered - asked
    used = [
        (one.id, words) for one in shown if _rests_on(words := words_of(one.content), asked, added)
    ]
    known = _TALK.union(*map(words_of, results))
    if used:
        known = known.union(*(words for _, words in used))
        return Reading(
            sources=tuple(dict.fromkeys(id_ for id_, _ in used)),
            of_question=_adding(stated - known),
            of_answer=_adding(added - known),
        )
    refused = len(added - known) <= MOST_BESIDE and _REFUSAL.search(answer[:REFUSING])
    if not refused:
        return Reading()
    return Reading(of_question=unanswered(query), of_answer={UNANSWERED: True})


def unanswered(query: str) -> Json:
    """Return the metadata of a question without an answer; none if something else is stated."""
    return {} if words_of(statements(query)) else {UNANSWERED: True}


def statements(text: str) -> str:
    """Return the sentences that ask nothing."""
    return " ".join(one for one in sentences(text[:READ]) if not asks(one))


def words_of(text: str) -> frozenset[str]:
    """Return the stems of the informative words of a text."""
    return frozenset(stems(informative_words(text[:READ])))


def _rests_on(source: frozenset[str], asked: frozenset[str], added: frozenset[str]) -> bool:
    """Return whether an answer that adds these words to its question's has them from the source."""
    news = source - asked
    if not news:
        return bool(source) and source <= asked | added
    shared = len(news & added)
    return shared >= min(LEAST_SHARED, len(news)) and shared >= SHARED * min(len(news), len(added))


def _adding(words: frozenset[str]) -> Json:
    return {ADDS: sorted(words)[:MOST_ADDED]}
