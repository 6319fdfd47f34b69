"""Which tool results are the memory's own: they are never recorded as memories.

A tool's name does not say whose it is, as other teams use the same names; what was answered does.
So the memory notes what its tools have answered, to whom and with which records. That is held in
this process only and is bounded: of what is older than `since` nobody can tell.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TypeVar

import msgspec

from local.ledger.records import TENANT_OWNED
from local.protocol.envelope import Caller
from local.protocol.payloads import ToolCallRecord, ToolSchema

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


OWN_RESULT = "answered by this memory itself"
NOT_RECORDED = "not to be recorded, as its tool says"

Announced = Callable[[str], ToolSchema | None]
"""What a tool of that name announced, if that was heard."""


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
