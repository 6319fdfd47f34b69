"""What the memory's own tools answered lately, to whom: a turn may hold it, and rest on it.

A tool's name does not say whose it is; what was answered does. Kept in this process only and
bounded: of what is older than `since` nobody can tell.
"""

import hashlib
from collections import OrderedDict
from collections.abc import Iterable
from datetime import datetime
from typing import TypeVar

import msgspec

from local.ledger.records import TENANT_OWNED
from local.protocol.envelope import Caller

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


class Served:
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
