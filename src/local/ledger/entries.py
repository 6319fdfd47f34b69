"""The ledger's data of a record for ranking, and what its columns hold."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from local.protocol.memories import Kind, MemoryType, Owning, SourceClass
from local.text.features import Features, features_of

SPOKEN = frozenset({"chat_message", "tool_output"})
MACHINES = frozenset({"assistant", "tool"})
ECHO, UNANSWERED, EXTRACTED = 1, 2, 3
"""In the column `echo`: answered from memory; found no answer; extracted from messages."""
SPAN = 3
"""Messages before and after one that count as its neighbours."""

Floats = npt.NDArray[np.float32]
Array = npt.NDArray[np.float64]
Positions = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

COLUMNS = np.dtype([
    ("row", np.int64),
    ("stands", np.float64),      # in its session: the row of its first version, or between two
    ("active", np.bool_),
    ("session", np.int32),       # a number; -1: none
    ("spoken", np.bool_),
    ("machine", np.bool_),
    ("scope", np.int32),
    ("topic", np.int32),         # of a fact; -1: none
    ("label", np.int32),
    ("durability", np.int32),
    ("importance", np.float64),
    ("time", np.float64),        # seconds since 1970
    ("type", np.int32),          # the memory type of a fact; -1: none
    ("source", np.int32),        # where it comes from
    ("principal", np.int32),     # the user who stated it; -1: not known
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
    """A record as the statements `visible` and `changed` return it; the features may be missing."""

    row: int
    id: str
    kind: Kind
    scope: Owning
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
    timed: int
    wish: int
    topic: str | None
    content: str | None
    """Where there are no features: the text to read them from."""
    stands: float
    """Its place in its session: the row of its first version, or between two rows."""
    memory_type: MemoryType | None
    source_class: SourceClass
    stated_by: str | None
    active: int = 1

    def read(self) -> Features:
        if self.stems is not None:
            return Features._make(self[14:20])
        return features_of(
            self.content or "", topic=self.topic, label=self.label, event_time=self.event_time
        )


class Postings(NamedTuple):
    """The places of a stem, with its count, and whether it is in the beginning of the text."""

    positions: Positions
    counts: Array
    ahead: Flags


class Numbers:
    """Numbers for repeated values."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def of(self, name: Any) -> int:
        """Return its number, a new one if it has none yet."""
        return self._numbers.setdefault(name, len(self._numbers))

    def each(self, function: Callable[[Any], float]) -> Array:
        """Return the results of a function of every name, by their numbers."""
        return np.array([function(name) for name in self._numbers], np.float64)


class Names(NamedTuple):
    """The names for the numbers in the columns."""

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
    """Two messages of a session, so many apart."""

    row: int
    behind: int
    distance: int
