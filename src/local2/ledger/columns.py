"""Holds records in columns for ranking, with their stems and vectors.

A record keeps its position for the lifetime of the columns. Ranking sees a `View`, which leaves out
the records that a search may not find, and stays as it is while the columns grow: a search keeps
its view from one read of the ledger to the next, and other searches add records in between.
"""

import re
import sys
from array import array
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from datetime import datetime
from functools import cached_property
from operator import attrgetter
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from local2.keys import fold_topic
from local2.language.features import HEAD_SEPARATOR, MAX_PASSAGES, Features, features
from local2.ledger.stored_vectors import Floats, unpacked
from local2.protocol.memories import Kind, MemoryType, OwnerScope, SourceClass

SPOKEN_KINDS = frozenset({"chat_message", "tool_output"})
MACHINE_ROLES = frozenset({"assistant", "tool"})
ECHO, UNANSWERED, EXTRACTED = 1, 2, 3
"""Values of the column `echo`: answered from memory, no answer found, extracted from messages."""
NEIGHBOUR_SPAN = 3
"""Number of messages before and after a message that count as its neighbours."""
MAX_COUNT = 15
"""Maximum count of a stem in a text; larger counts are cut."""
COUNT_BITS = 5
"""Low bits of a posting: the count, and whether the stem is in the beginning of the text."""
POSITION_SHIFT = COUNT_BITS + MAX_PASSAGES
"""The bits below a posting's position: between, which passages of a long text have the stem."""
STEM = re.compile(r"([^ ]+)=\d")
INITIAL_SIZE = 1_024
"""Number of records that the arrays have room for at first; they double when full."""

T = TypeVar("T")
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

    @property
    def asks(self) -> bool:
        """Whether it is somebody's question to the memory, whose words may be mistyped."""
        spoken = self.kind in SPOKEN_KINDS and self.role not in MACHINE_ROLES
        return spoken and self.echo in {ECHO, UNANSWERED}

    def features(self) -> Features:
        if self.stems is not None:
            return Features._make(_stored_features(self))
        at = datetime.fromisoformat(self.event_time)
        return features(self.content or "", topic=self.topic, label=self.label, at=at)


_stored_features = attrgetter(*Features._fields)


class Postings(NamedTuple):
    """The positions with a stem, its counts, and whether it is in the beginning of the text."""

    positions: Positions
    counts: Array
    ahead: Flags
    packed: Positions

    @classmethod
    def of_all(cls, positions: Positions) -> "Postings":
        """The postings of a word that is once in each of these texts, and in all their passages."""
        count = len(positions)
        packed = positions << POSITION_SHIFT | ((1 << MAX_PASSAGES) - 1 << COUNT_BITS) | 3
        return cls(positions, np.ones(count), np.ones(count, bool), packed)

    @classmethod
    def joined(cls, of_forms: Sequence["Postings"]) -> "Postings":
        """The postings of a word from those of the stems of its forms."""
        found = [each for each in of_forms if len(each.positions)] or of_forms[:1]
        if len(found) == 1:
            return found[0]
        positions, at = np.unique(
            np.concatenate([each.positions for each in found]), return_inverse=True
        )
        counts, ahead = np.zeros(len(positions)), np.zeros(len(positions), bool)
        packed = np.zeros(len(positions), np.int64)
        np.add.at(counts, at, np.concatenate([each.counts for each in found]))
        np.logical_or.at(ahead, at, np.concatenate([each.ahead for each in found]))
        np.bitwise_or.at(packed, at, np.concatenate([each.packed for each in found]))
        return cls(positions, counts, ahead, packed)

    def passages_at(self, positions: Positions) -> Positions:
        """Which passages of long texts have the stem, as the bits of a number, for each text."""
        packed = self.packed[np.searchsorted(self.positions, positions)]
        return packed >> COUNT_BITS & (1 << MAX_PASSAGES) - 1


class Numbers:
    """Assigns a number to each distinct value."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def number_of(self, name: Any) -> int:
        """The number of a value, assigning one if it is new."""
        return self._numbers.setdefault(name, len(self._numbers))

    @property
    def values(self) -> list[Any]:
        """Every value, in the order of the numbers."""
        return list(self._numbers)

    def map_values(self, function: Callable[[Any], float]) -> Array:
        """Apply a function to every value; return the results, indexed by number."""
        return np.array([function(name) for name in self.values], np.float64)


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


class Columns:
    """Columns that grow with `add`; a record that is added again replaces its former version."""

    def __init__(self, *, only: Collection[str] | None = None) -> None:
        """`only`: the stems to index; None means all of them."""
        every = "|".join(map(re.escape, only or ()))
        self._only = None if only is None else re.compile(rf" ({every})=(\d+(?:@[0-9a-f]+)?)")
        self._columns: dict[str, npt.NDArray[Any]] = {
            name: np.zeros(INITIAL_SIZE, COLUMNS[name]) for name in COLUMNS.names or ()
        }
        self._vectors = np.zeros((INITIAL_SIZE, 0), np.float32)
        self._position: dict[int, int] = {}
        self._postings: dict[str, array[int]] = {}
        self._stems: list[str] = []
        self._first_stems: dict[int, tuple[str, ...]] = {}
        self._view: View | None = None
        self.names = Names(*(Numbers() for _ in Names._fields))
        self.found_in_texts: defaultdict[Hashable, dict[Any, Any]] = defaultdict(dict)
        """What ranking found in texts, by what it looked for and by row: a row's text stays."""
        self.outdated = 0
        """Number of positions that are no longer used."""

    def __len__(self) -> int:
        return len(self._stems)

    def column(self, name: str) -> npt.NDArray[Any]:
        """The values of all positions, including those no longer used."""
        return self._columns[name][: len(self)]

    @property
    def vectors(self) -> Floats:
        return self._vectors[: len(self)]

    def position(self, row: int) -> int | None:
        return self._position.get(row)

    def add(self, candidates: Iterable[Candidate]) -> None:
        """Add records in their current state; remove those that are no longer active."""
        for candidate in candidates:
            self._view = None
            read = candidate.features() if candidate.active else None
            position = self._position.get(candidate.row)
            if position is not None and (read is None or self._stems[position] != read.stems):
                self._columns["active"][position] = False
                self.outdated += 1
                position = None
            if read is None:
                continue
            if position is None:
                position = len(self)
                if position == len(self._vectors):
                    self._columns = {
                        name: _doubled(values) for name, values in self._columns.items()
                    }
                    self._vectors = _doubled(self._vectors)
                self._stems.append(read.stems)
                self._add_postings(position, read.stems)
            self._write(position, candidate, read)

    def whole(self) -> "View":
        """A view of all records."""
        if self._view is None:
            self._view = View(self, np.flatnonzero(self.column("active")))
        return self._view

    def within(self, rows: Collection[int]) -> "View":
        """A view of these rows, as far as the columns have them."""
        asked = np.isin(self.column("row"), np.fromiter(rows, np.int64, len(rows)))
        return View(self, np.flatnonzero(self.column("active") & asked))

    def without(self, rows: Collection[int]) -> "View":
        """A view of all records except these rows."""
        if not rows:
            return self.whole()
        left_out = np.isin(self.column("row"), np.fromiter(rows, np.int64, len(rows)))
        return View(self, np.flatnonzero(self.column("active") & ~left_out))

    def linked(self, links: Iterable[Link]) -> "View":
        """A view of all records, with the given neighbours."""
        return View(self, np.arange(len(self)), links)

    def stems_of(self, position: int) -> tuple[str, ...]:
        """The stems in the beginning of a record's text.

        They are known where all stems are indexed, and otherwise read once.
        """
        if (known := self._first_stems.get(position)) is None:
            stems = self._stems[position]
            found = STEM.findall(stems, 0, stems.index(HEAD_SEPARATOR))
            known = self._first_stems[position] = tuple(map(sys.intern, found))
        return known

    def postings(self, stem: str, size: int | None = None) -> Postings:
        """The postings of a stem at every position, including those no longer used.

        `size`: how many positions to look at, from the first one; None means all of them.
        """
        packed = self._packed(stem, size)
        counts = packed >> 1 & MAX_COUNT
        ahead = (packed & 1).astype(bool)
        return Postings(packed >> POSITION_SHIFT, counts.astype(np.float64), ahead, packed)

    def positions_with(self, stem: str, size: int) -> Positions:
        """Which of the first `size` positions have a stem."""
        return self._packed(stem, size) >> POSITION_SHIFT

    def _packed(self, stem: str, size: int | None) -> Positions:
        known = self._postings.get(stem)
        # Copied in one step: another thread could not add to an array while NumPy reads it.
        packed = np.frombuffer(b"" if known is None else known.tobytes(), np.int64)
        return packed if size is None else packed[: self.count_postings(stem, size)]

    def count_postings(self, stem: str, size: int) -> int:
        """How many of the first `size` positions have a stem."""
        return bisect_left(self._postings.get(stem, ()), size << POSITION_SHIFT)

    def _write(self, position: int, candidate: Candidate, read: Features) -> None:
        embedder = None
        if candidate.vector is not None:
            embedder = candidate.embedder
            vector = unpacked(candidate.vector)
            if len(vector) != self._vectors.shape[1]:  # a new embedder: other vectors are obsolete
                self._vectors = np.zeros((len(self._vectors), len(vector)), np.float32)
                self._columns["embedder"][:] = self.names.embedders.number_of(None)
            self._vectors[position] = vector
        names, session = self.names, (candidate.scope, candidate.session_id)
        topic, type_, principal = candidate.topic, candidate.memory_type, candidate.stated_by
        time = _seconds(candidate.event_time)
        self._position[candidate.row] = position
        values = (  # in the order of COLUMNS
            candidate.row,
            candidate.session_position,
            True,
            -1 if candidate.session_id is None else names.sessions.number_of(session),
            candidate.kind in SPOKEN_KINDS,
            candidate.role in MACHINE_ROLES,
            names.scopes.number_of(candidate.scope),
            -1 if topic is None else names.topics.number_of(fold_topic(topic)),
            names.labels.number_of(candidate.label),
            names.durabilities.number_of(candidate.durability),
            candidate.importance,
            time,
            _seconds(candidate.stored_at) if candidate.stored_at else time,
            -1 if type_ is None else names.types.number_of(type_),
            names.sources.number_of(candidate.source_class),
            -1 if principal is None else names.principals.number_of(principal),
            candidate.echo,
            candidate.feedback or 0.0,
            names.embedders.number_of(embedder),
            *read[1:],  # all but the stems
        )
        for column, value in zip(self._columns.values(), values, strict=True):
            column[position] = value

    def _add_postings(self, position: int, stems: str) -> None:
        head = stems.index(HEAD_SEPARATOR)
        if self._only is not None:
            for found in self._only.finditer(stems):
                self._add_posting(found[1], position, found[2], found.start() < head)
            return
        first_stems = []
        for token in stems[:head].split():
            stem, _, counted = token.rpartition("=")
            self._add_posting(stem, position, counted, True)
            if stem:  # Porter's stem of a single "s" is empty
                first_stems.append(sys.intern(stem))
        self._first_stems[position] = tuple(first_stems)
        for token in stems[head + len(HEAD_SEPARATOR) :].split():
            stem, _, counted = token.rpartition("=")
            self._add_posting(stem, position, counted, False)

    def _add_posting(self, stem: str, position: int, counted: str, ahead: int) -> None:
        count, _, passages = counted.partition("@")
        at = int(passages, 16) if passages else 0
        packed = position << POSITION_SHIFT | at << COUNT_BITS | min(int(count), MAX_COUNT) << 1
        packed |= ahead
        if (known := self._postings.get(stem)) is None:
            known = self._postings[stem] = array("q")
        known.append(packed)


class View:
    """The columns of the records that a search may find; positions count from 0 without gaps.

    Records that the columns get later are not in it, and those it has stay as they were.
    """

    def __init__(
        self, columns: "Columns", chosen: Positions, links: Iterable[Link] | None = None
    ) -> None:
        """`links`: the neighbours, if the columns may lack some of the messages of a session."""
        self._columns = columns
        self._chosen = chosen
        self._vectors = columns.vectors
        self._has_all = len(chosen) == len(columns)
        self.size = len(chosen)
        self.column = {
            # Five times as fast as to select by an index in brackets.
            name: columns.column(name).take(chosen)
            for name in COLUMNS.names or ()
        }
        self._view_positions = np.full(len(columns), -1, np.int64)
        self._view_positions[chosen] = np.arange(self.size)
        self._derived: dict[Hashable, Any] = {}
        self.neighbours = _neighbours(self.column) if links is None else self._linked(links)
        """For each distance, from 1: the positions of the message before and of the one after each
        record; `size` means none."""

    @property
    def names(self) -> "Names":
        return self._columns.names

    def found_in_texts(self, sought: Hashable) -> dict[Any, Any]:
        """What was found in texts so far, by row, to add to it: see `Columns`."""
        return self._columns.found_in_texts[sought]

    @property
    def rows(self) -> list[int]:
        rows: list[int] = self.column["row"].tolist()
        return rows

    def derive(self, function: Callable[..., T], *args: Hashable) -> T:
        """`function(view, *args)`, computed once: it depends on nothing but the columns."""
        key = function, args
        if key not in self._derived:
            self._derived[key] = function(self, *args)
        derived: T = self._derived[key]
        return derived

    @cached_property
    def with_assistant(self) -> Flags:
        """Whether an assistant or a tool speaks in the record's session."""
        session = self.column["session"]
        has_machine = np.zeros(session.max(initial=-1) + 2, bool)
        has_machine[session[self.column["machine"]]] = True
        has_machine[-1] = False  # the last entry means "no session"
        return np.asarray(has_machine[session])

    @cached_property
    def sessions_back(self) -> Array:
        """Number of sessions newer than the record's own; infinite without a session."""
        session = self.column["session"]
        newest = np.full(session.max(initial=-1) + 2, -1, np.int64)
        np.maximum.at(newest, session, self.column["row"])
        back = np.empty(len(newest))
        newest[-1] = -1  # the last entry means "no session"
        back[np.argsort(-newest, kind="stable")] = np.arange(len(newest))
        return np.where(session >= 0, back[session], np.inf)

    def postings(self, stem: str) -> Postings:
        found = self._columns.postings(stem, len(self._view_positions))
        if self._has_all:
            return found
        positions = self._view_positions[found.positions]
        present = positions >= 0
        return Postings(
            positions[present],
            found.counts[present],
            found.ahead[present],
            found.packed[present],
        )

    def positions_with(self, stem: str) -> Positions:
        """Which records have a stem."""
        found = self._columns.positions_with(stem, len(self._view_positions))
        if self._has_all:
            return found
        positions = self._view_positions[found]
        return positions[positions >= 0]

    def frequency(self, stem: str) -> int:
        """How many records have a stem."""
        if self._has_all:
            return self._columns.count_postings(stem, len(self._view_positions))
        return len(self.positions_with(stem))

    def stating(self, stem: str) -> int:
        """How many records have a stem that are no questions to the memory."""
        if not self._columns.count_postings(stem, len(self._view_positions)):
            return 0  # as with most guesses at a mistyped word
        having = self.positions_with(stem)
        return int((~self.asking[having]).sum()) if len(having) else 0

    @cached_property
    def asking(self) -> Flags:
        """Which records are people's questions to the memory, whose words may be mistyped."""
        is_echo = np.isin(self.column["echo"], (ECHO, UNANSWERED))
        return np.asarray(is_echo & self.column["spoken"] & ~self.column["machine"])

    def has_comparable_vector(self, embedder: str) -> Flags:
        """For each record whether it has a vector of this embedder."""
        return np.asarray(self.column["embedder"] == self.names.embedders.number_of(embedder))

    def cosines(self, question: bytes, embedder: str) -> Array:
        """Each record's cosine with the question; 0 without a comparable vector."""
        compared = self.has_comparable_vector(embedder)
        vector = np.frombuffer(question, np.float32)
        if not compared.any() or len(vector) != self._vectors.shape[1]:
            return np.zeros(self.size)
        # A product of matrices would use every core, and the vector worker and the event loop would
        # wait. A product for each row uses one.
        cosines = np.vecdot(self._vectors, vector)
        if not self._has_all:
            cosines = cosines[self._chosen]
        return cosines if compared.all() else np.where(compared, cosines, 0.0)

    def vectors_at(self, positions: Positions) -> Floats:
        """A copy of the vectors at these positions."""
        vectors: Floats = self._vectors[self._chosen[positions]]
        return vectors

    def stems(self, position: int) -> tuple[str, ...]:
        """The stems in the beginning of a record's text."""
        return self._columns.stems_of(int(self._chosen[position]))

    def positions(self, rows: Collection[int]) -> Positions:
        """The positions of the rows that the view has, in the order of the rows."""
        size = len(self._view_positions)
        known = map(self._columns.position, rows)
        found = [position for position in known if position is not None]
        if max(found, default=-1) < size:
            own = self._view_positions[found]
            return own[own >= 0]
        # Some rows are new, or were written again at another position.
        at = {row: position for position, row in enumerate(self.rows)}
        return np.array([at[row] for row in rows if row in at], np.int64)

    def _linked(self, links: Iterable[Link]) -> list[tuple[Positions, Positions]]:
        near = [(self._no_neighbours(), self._no_neighbours()) for _ in range(NEIGHBOUR_SPAN)]
        for link in links:
            row, later = self._columns.position(link.row), self._columns.position(link.later)
            if row is not None and later is not None:
                before, after = near[link.distance - 1]
                after[row], before[later] = later, row
        return near

    def _no_neighbours(self) -> Positions:
        return np.full(self.size, self.size, np.int64)


def _doubled(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The values, with as much room again."""
    return np.concatenate([values, np.zeros_like(values)])


def _seconds(time: str) -> float:
    return datetime.fromisoformat(time).timestamp()


def _neighbours(column: Mapping[str, Any]) -> list[tuple[Positions, Positions]]:
    """The neighbours of messages, if the columns have all messages of each session."""
    size = len(column["row"])
    spoken = np.flatnonzero(column["spoken"] & (column["session"] >= 0))
    if not len(spoken):
        return []
    sessions = column["session"][spoken]
    order = np.lexsort((column["session_position"][spoken], sessions))
    ordered, sessions = spoken[order], sessions[order]
    near = []
    for distance in range(1, NEIGHBOUR_SPAN + 1):
        before, after = np.full((2, size), size, np.int64)
        same = sessions[distance:] == sessions[:-distance]
        first, second = ordered[:-distance][same], ordered[distance:][same]
        after[first], before[second] = second, first
        near.append((before, after))
    return near
