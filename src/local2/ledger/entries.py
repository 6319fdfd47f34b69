"""The types of the ranking columns: what the ledger provides for ranking a record."""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from local2.language.features import Features, features_of
from local2.protocol.memories import Kind, MemoryType, OwnerScope, SourceClass

SPOKEN_KINDS = frozenset({"chat_message", "tool_output"})
MACHINE_ROLES = frozenset({"assistant", "tool"})
ECHO, UNANSWERED, EXTRACTED = 1, 2, 3
"""Values of the column `echo`: answered from memory, no answer found, extracted from messages."""
NEIGHBOUR_SPAN = 3
"""Number of messages before and after a message that count as its neighbours."""

Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

COLUMNS = np.dtype([
    ("row", np.int64),
    ("session_position", np.float64),  # row of the first version, or between two rows
    ("active", np.bool_),
    ("session", np.int32),       # number of the session; -1: none
    ("spoken", np.bool_),
    ("machine", np.bool_),
    ("scope", np.int32),
    ("topic", np.int32),         # topic of a fact; -1: none
    ("label", np.int32),
    ("durability", np.int32),
    ("importance", np.float64),
    ("time", np.float64),        # seconds since 1970
    ("newness", np.float64),     # the same, or when it was stored if that was earlier
    ("type", np.int32),          # memory type of a fact; -1: none
    ("source", np.int32),        # source class
    ("principal", np.int32),     # user who stated the record; -1: unknown
    ("echo", np.int8),           # ECHO, UNANSWERED, EXTRACTED, or 0
    ("feedback", np.float64),
    ("embedder", np.int32),
    ("length", np.float64),
    ("density", np.float64),
    ("firsthand", np.float64),
    ("timed", np.bool_),
    ("wish", np.bool_),
])  # fmt: skip


class Candidate(NamedTuple):
    """A record as returned by the statements `visible` and `changed`.

    Features are missing once the text was erased or anonymised.
    """

    row: int
    id: str
    kind: Kind
    scope: OwnerScope
    session_id: str | None
    role: str | None
    label: str | None
    importance: float
    durability: str
    event_time: str
    echo: int
    feedback: float | None
    embedder: str | None
    vector: bytes | None
    stems: str | None
    length: int
    density: float
    firsthand: int
    timed: bool
    wish: bool
    topic: str | None
    content: str | None
    """The text to extract features from, if none are stored."""
    session_position: float
    """Position in the session: the row of the first version, or a number between two rows."""
    memory_type: MemoryType | None
    source_class: SourceClass
    stated_by: str | None
    stored_at: str | None
    active: int = 1

    def features(self) -> Features:
        if self.stems is not None:
            return Features._make(_stored_features(self))
        return features_of(
            self.content or "", topic=self.topic, label=self.label, event_time=self.event_time
        )


_stored_features = attrgetter(*Features._fields)


class Postings(NamedTuple):
    """The positions with a stem, its counts, and whether it is in the beginning of the text."""

    positions: Positions
    counts: Array
    ahead: Flags


class Numbers:
    """Assigns a number to each distinct value."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def number_of(self, name: Any) -> int:
        """The number of a value, assigning one if it is new."""
        return self._numbers.setdefault(name, len(self._numbers))

    def map_values(self, function: Callable[[Any], float]) -> Array:
        """Apply a function to every value; return the results, indexed by number."""
        return np.array([function(name) for name in self._numbers], np.float64)


class Names(NamedTuple):
    """The numbering of each column that stores numbers for values."""

    sessions: Numbers
    labels: Numbers
    scopes: Numbers
    topics: Numbers
    durabilities: Numbers
    types: Numbers
    sources: Numbers
    principals: Numbers
    embedders: Numbers


class Link(NamedTuple):
    """Two messages of a session, `distance` messages apart; `later` is the row of the second."""

    row: int
    later: int
    distance: int
