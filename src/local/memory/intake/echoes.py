"""What comes back from the memory itself: results of its own tools, and answers that repeat it.

Results of its tools are never recorded as memories. A tool's name does not say whose it is, as
other teams use the same names; what was answered does. So the memory notes what its tools have
answered, to whom and with which records. That is held in this process only and is bounded: of what
is older than `since` nobody can tell.

Everything else is stored word for word. But a question asked again is nearer to itself than to what
answers it, and its answer says again what a memory said: in a search both give way to the memories
behind them, by what is noted here when the turn is stored.
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
"""Of calls that name none."""
MOST_SHOWN = 100
"""Of the records that a session was shown, the latest so many."""
COMPARED = 2_000
"""Characters of a result: agents report what they got cut, and with other white space."""

K = TypeVar("K")
V = TypeVar("V")
OWN_RESULT = "answered by this memory itself"
NOT_RECORDED = "not to be recorded, as its tool says"
Announced = Callable[[str], ToolSchema | None]
"""What a tool of that name announced, if that was heard."""
ADDS, UNANSWERED = "adds", "unanswered"
"""In the metadata: the words that are its own; that it asks, or says that nothing is known."""
OF_TURNS = frozenset({"tool_calls", "recalled", ADDS, UNANSWERED})
"""What the memory notes of a turn; no other memory because of it."""
READ = 20_000
"""Characters of a text that are compared; the rest of a longer one counts as its own."""
REFUSING = 2_000
"""Characters in which a refusal says that it is one."""
MOST_ADDED = 64
SHARED, LEAST_SHARED = 0.3, 2
"""How much of what a memory tells an answer has, or the other way round, if it rests on it."""
MOST_BESIDE = 3
"""Words that a refusal may have besides those of its question and of refusing."""


class AnswerLog:
    """Results of the memory's tools, each with the ids of the records that it showed."""

    def __init__(self, since: datetime) -> None:
        self.since = since
        self._results = OrderedDict[bytes, tuple[str, ...]]()
        self._sessions = OrderedDict[tuple[str, str], dict[str, None]]()

    def add(self, caller: Caller, tool: str, content: str, ids: Iterable[str]) -> None:
        """A tool is about to answer `content`, which shows these records."""
        owner, shown = caller.user or TENANT_OWNED, tuple(ids)
        _put(self._results, _digest(owner, tool, content), shown, MOST_RESULTS)
        if shown:
            key = owner, caller.session_id or NO_SESSION
            latest = dict.fromkeys((*self._sessions.get(key, ()), *shown[:MOST_SHOWN]))
            latest = dict.fromkeys(list(latest)[-MOST_SHOWN:])
            _put(self._sessions, key, latest, MOST_SESSIONS)

    def shown(self, owner: str, tool: str, content: str) -> tuple[str, ...] | None:
        """Ids of the records that this result showed; None if this memory did not answer it."""
        return self._results.get(_digest(owner, tool, content))

    def to_session(self, owner: str, session_id: str | None) -> tuple[str, ...]:
        """Ids of what the session was shown, and of what was shown without saying in which."""
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

    A tool of another's may have such a name: whose a result is, what was answered says.
    """

    def __init__(self, own: frozenset[str], served: AnswerLog, announced: Announced) -> None:
        self.own = own
        self._served = served
        self._announced = announced

    def why_not(self, owner: str, call: ToolCallRecord) -> str | None:
        """Why the result of an owner's call is not recorded, if it is not."""
        if self._is_own(owner, call):
            return OWN_RESULT
        announced = self._of_another(call.name)
        recorded = call.recorded and (announced is None or announced.recorded)
        return None if recorded else NOT_RECORDED

    def may_be_own(self, tool: str, at: datetime) -> bool:
        """Whether one of the memory's own may have answered, before anybody noted what it did."""
        return tool in self.own and at < self._served.since

    def reads_memory(self, tool: str) -> bool:
        """Whether it is another's tool whose results come from the memory."""
        announced = self._of_another(tool)
        return announced is not None and announced.reads_memory

    def _is_own(self, owner: str, call: ToolCallRecord) -> bool:
        """Whether a tool of this memory answered; of one that answered nothing the name tells."""
        if not call.content.strip():
            return call.name in self.own
        return self._served.shown(owner, call.name, call.content) is not None

    def _of_another(self, tool: str) -> ToolSchema | None:
        """What was announced under a name that is none of the memory's own."""
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
    """What a turn is beside a new memory; `sources` are ids of what its answer rests on.

    The others are metadata of the records made of the question, and of the answer.
    """

    sources: tuple[str, ...] = ()
    of_question: Json = {}
    of_answer: Json = {}

    def of(self, record: NewRecord) -> Json:
        """Metadata of a record of the turn."""
        if record.kind == "episode":
            return self.of_episode
        return {"user": self.of_question, "assistant": self.of_answer}.get(record.role or "", {})

    @property
    def of_episode(self) -> Json:
        """It has both, and is unanswered only if nothing is stated beside."""
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
        """What the calls have from the memory, and the ids of what the session was shown."""
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
    """Compare a turn with what was shown to whoever answered it.

    Args:
        query: What was asked.
        answer: What was answered.
        shown: The records that memory tools showed meanwhile.
        results: What these tools answered, and others that read the memory, as text.
    """
    asked, answered = words_of(query), words_of(answer)
    stated = words_of(statements(query))
    told = answered - asked
    used = [
        (one.id, words) for one in shown if _rests_on(words := words_of(one.content), asked, told)
    ]
    known = _TALK.union(*map(words_of, results))
    if used:
        known = known.union(*(words for _, words in used))
        return Reading(
            sources=tuple(dict.fromkeys(id_ for id_, _ in used)),
            of_question=_adding(stated - known),
            of_answer=_adding(told - known),
        )
    refused = len(told - known) <= MOST_BESIDE and _REFUSAL.search(answer[:REFUSING])
    if not refused:
        return Reading()
    return Reading(of_question=unanswered(query), of_answer={UNANSWERED: True})


def unanswered(query: str) -> Json:
    """Metadata of a question without an answer; none if something is stated beside."""
    return {} if words_of(statements(query)) else {UNANSWERED: True}


def statements(text: str) -> str:
    """The sentences that ask nothing."""
    return " ".join(one for one in sentences(text[:READ]) if not asks(one))


def words_of(text: str) -> frozenset[str]:
    """The stems of the words that say what a text is about."""
    return frozenset(stems(informative_words(text[:READ])))


def _rests_on(source: frozenset[str], asked: frozenset[str], told: frozenset[str]) -> bool:
    """Whether an answer that tells this beside its question has it from the source."""
    news = source - asked
    if not news:
        return bool(source) and source <= asked | told
    shared = len(news & told)
    return shared >= min(LEAST_SHARED, len(news)) and shared >= SHARED * min(len(news), len(told))


def _adding(words: frozenset[str]) -> Json:
    return {ADDS: sorted(words)[:MOST_ADDED]}
