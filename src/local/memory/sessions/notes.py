"""Notes of a session: short, each under a role, in their order. Of too many the oldest become one.

That one has the beginning of each. The notes it stands for stay in the ledger.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime

from local.ledger.door import Ledger
from local.ledger.sessions import SessionOf, StoredNote
from local.protocol.answers import Note
from local.text.sentences import excerpt

MOST = 15
MERGED_AT_ONCE = 8
EXCERPT = 160
"""Characters that a merged note keeps of one."""
MERGED_SIZE = 2_000
"""Characters of a merged note at most; beyond it the oldest lines go."""
EARLIER = "earlier notes"
"""The role of a merged note."""


class Notes:
    """The notes of one owner's session; another owner's of the same id are others."""

    def __init__(self, ledger: Ledger, session: SessionOf) -> None:
        self._notes = ledger.notes
        self._session = session

    async def add(self, role: str, content: str, at: datetime) -> StoredNote:
        """Make a note; what the role has noted already, word for word, is not noted again."""
        return await self._notes.store(self._session, role, content, at, merge=oldest_merged)


def oldest_merged(notes: Sequence[Note]) -> Note | None:
    """One note for the oldest, if there are too many before a new one."""
    return merged(notes[:MERGED_AT_ONCE]) if len(notes) >= MOST else None


def merged(notes: Sequence[Note]) -> Note:
    """One note for several: a line of each, of the newest at least, and how many they were."""
    lines = [line for note in notes for line in _lines(note)]
    kept = _newest(lines, MERGED_SIZE)
    total = sum(note.merges or 1 for note in notes)
    left_out = f", the oldest {total - len(kept)} left out" if len(kept) < total else ""
    last = notes[-1]
    return Note(
        position=last.position,
        role=EARLIER,
        content="\n".join([f"{total} notes, shortened{left_out}:", *kept]),
        event_time=last.event_time,
        merges=total,
    )


def _lines(note: Note) -> Iterator[str]:
    """What a merged note says of this one: its beginning, or the lines that it is made of."""
    if note.merges:
        yield from note.content.split("\n")[1:]
        return
    yield f"{note.role}: {excerpt(note.content, EXCERPT)}"


def _newest(lines: Sequence[str], size: int) -> list[str]:
    kept: list[str] = []
    for line in reversed(lines):
        size -= len(line) + 1
        if size < 0:
            break
        kept.insert(0, line)
    return kept
