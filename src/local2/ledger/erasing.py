"""The ledger's types for erasing.

Data about erased records contains no content and no names, except for the samples that are searched
for afterwards.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from datetime import datetime

import msgspec

SAMPLES = 20
"""Maximum number of erased texts that are searched for afterwards, to prove that they are gone."""


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """What an owner chose to erase: a session, a topic, one record, or everything.

    Everything is what belongs to the owner or to the owner's sessions, and what the owner stated
    for an agent or for the tenant. `scopes`, if given, limits the selection.
    """

    owner: str
    session_id: str | None = None
    topic: str | None = None
    id: str | None = None
    scopes: frozenset[str] | None = None

    @property
    def whole_owner(self) -> bool:
        return self.session_id is None and self.topic is None and self.id is None

    @property
    def is_by_sender(self) -> bool:
        """Whether it is selected by who sent it: a user, or one of the user's sessions.

        Then what no record refers to is erased, too: notes, items, pending ratings, and the
        sender's messages in the bus's streams.
        """
        return self.topic is None and self.id is None


class Selected(msgspec.Struct, frozen=True, kw_only=True):
    """The rows to erase, in order: derived records before their sources."""

    rows: tuple[int, ...]
    counts: Mapping[str, int]
    """Number of rows by user-facing name: messages, facts, notes, …"""


class Unindexed(msgspec.Struct, frozen=True):
    """A row to remove from the index, and the id under which the index has it."""

    row: int
    id: str


class Erased(msgspec.Struct, frozen=True, kw_only=True):
    """What a transaction erased: rows with their former ids, and samples of their texts.

    `counts`: how much of what, by user-facing name.
    """

    rows: tuple[int, ...] = ()
    ids: tuple[str, ...] = ()
    unindexed: tuple[Unindexed, ...] = ()
    samples: tuple[str, ...] = ()
    counts: Mapping[str, int] = {}


class Traces(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of traces of erased records that were found; all should be 0."""

    ids: int
    references: int
    vectors: int
    texts: int


class Anonymised(msgspec.Struct, frozen=True):
    """A record whose content and identity were cleared."""

    id: str
    kind: str


class ErasureOptions(msgspec.Struct, frozen=True, kw_only=True):
    """When content was erased, and whether it may be stored again."""

    at: datetime
    allow_again: bool = False


def combined(parts: Iterable[Erased]) -> Erased:
    """Combine what several transactions erased."""
    every = list(parts)
    counts = Counter[str]()
    for part in every:
        counts.update(part.counts)
    return Erased(
        rows=tuple(row for part in every for row in part.rows),
        ids=tuple(id_ for part in every for id_ in part.ids),
        unindexed=tuple(record for part in every for record in part.unindexed),
        samples=tuple(text for part in every for text in part.samples)[:SAMPLES],
        counts=counts,
    )
