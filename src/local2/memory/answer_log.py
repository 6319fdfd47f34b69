"""Remember the results of the memory's tools, to recognise them when somebody reports them.

The log is bounded and lives in memory only: nothing is known about answers from before `since`.
Stacks that share a ledger tell each other what they answer, without its text.
"""

import hashlib
from collections.abc import Callable, Iterable
from datetime import datetime

import msgspec

from local2.bounded_dict import BoundedDict
from local2.memory.scopes import owner_of
from local2.protocol.envelope import Caller

MAX_RESULTS = 10_000
"""Maximum number of results that are remembered, the latest ones."""
MAX_SESSIONS = 2_000
"""Maximum number of sessions for which the shown records are remembered."""
NO_SESSION = ""
"""Stands for the session of calls that name none."""
MAX_SHOWN = 100
"""Maximum number of shown records that are remembered per session, the latest ones."""
COMPARED = 2_000
"""Number of characters by which results are compared: agents report results cut and with other
white space."""


class ShownAnswer(msgspec.Struct, frozen=True, kw_only=True):
    """A result of the memory's tools: its digest, and the ids of the records that it shows."""

    owner: str
    session_id: str
    digest: bytes
    ids: tuple[str, ...]


class AnswerLog:
    """Remembers the results of the memory's tools, and the ids of the records that they showed."""

    def __init__(self, since: datetime) -> None:
        self.since = since
        self.tell_others: Callable[[ShownAnswer], None] | None = None
        """Tells the other stacks that share the ledger."""
        self._results = BoundedDict[bytes, tuple[str, ...]](MAX_RESULTS)
        self._sessions = BoundedDict[tuple[str, str], dict[str, None]](MAX_SESSIONS)

    def add(self, caller: Caller, tool: str, content: str, ids: Iterable[str]) -> None:
        """Log that a tool is about to answer `content`, which shows these records."""
        owner = owner_of(caller)
        answer = ShownAnswer(
            owner=owner,
            session_id=caller.session_id or NO_SESSION,
            digest=_digest(owner, tool, content),
            ids=tuple(ids),
        )
        self.note(answer)
        if self.tell_others is not None:
            self.tell_others(answer)

    def note(self, answer: ShownAnswer) -> None:
        """Log an answer of this stack or of another one."""
        self._results[answer.digest] = answer.ids
        if answer.ids:
            key = answer.owner, answer.session_id
            shown = self._sessions[key] = self._sessions.get(key, {})
            shown.update(dict.fromkeys(answer.ids[:MAX_SHOWN]))
            while len(shown) > MAX_SHOWN:
                del shown[next(iter(shown))]

    def shown_in(self, owner: str, tool: str, content: str) -> tuple[str, ...] | None:
        """The ids of the records in a result; None if it is not a result of this memory."""
        return self._results.get(_digest(owner, tool, content))

    def shown_to(self, owner: str, session_id: str | None) -> tuple[str, ...]:
        """The ids of the records shown to a session, or in calls without a session."""
        keys = (owner, session_id or NO_SESSION), (owner, NO_SESSION)
        return tuple(dict.fromkeys(id_ for key in keys for id_ in self._sessions.get(key, ())))


def _digest(owner: str, tool: str, content: str) -> bytes:
    text = " ".join(content[: COMPARED * 2].split())[:COMPARED]
    return hashlib.blake2b(msgspec.json.encode((owner, tool, text)), digest_size=16).digest()
