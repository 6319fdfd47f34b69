"""A search of the ledger: what is asked for, what is found, and how the best is chosen.

The choice is a pure function, so that no SQL leaves the ledger and no ranking enters it. It is a
generator: it yields what it needs, is sent that, and returns what it chose. The ledger answers
within the read in which it found the candidates.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from local.ledger.columns import View
from local.ledger.entries import Array, Flags
from local.ledger.records import TENANT_OWNED, Record
from local.protocol.memories import ItemRelation, Kind, Owning
from local.protocol.vectors import VectorHits


class Place(NamedTuple):
    """The owner and the kind of records."""

    scope: Owning
    owner: str
    kind: Kind


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The words of a search, and the records that may be found.

    For records of sessions, `only_session` is the one to search, and `but_session` the one to leave
    out. `since`, `until` and `as_of` are in UTC; what was retired after `as_of` is found as well.
    For records with ids of their senders, only those that begin with `source`. `asking` is the
    query id of the turn in which `owner` asks: its own question is no memory yet.
    """

    text: str
    places: tuple[Place, ...]
    terms: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    only_session: str | None = None
    but_session: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    source: str | None = None
    owner: str = TENANT_OWNED
    asking: str | None = None


class Echo(NamedTuple):
    """The rows that an echo repeats, those of them that are searched, and its own words."""

    sources: tuple[int, ...]
    adds: frozenset[str] = frozenset()


class StemCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of a memory's records; of many they are estimates."""

    total: float
    having: dict[str, float]


class Meaning(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the vectors for a question, or why there is none.

    `hits` are the nearest of everybody's records; `waiting`: some records have no vector yet.
    """

    waiting: bool
    hits: VectorHits | None = None
    problem: str | None = None


class WordMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates for ranking, and what is known without the question's vector.

    `phrases` are the rows that have each of the question's phrases.
    """

    view: View
    phrases: list[list[int]]
    topics: list[int]
    counts: StemCounts | None = None
    """Its rows in the caller's memory, where the view is not all of it."""

    @property
    def total(self) -> float:
        """The number of records in the searched memory."""
        return max(self.counts.total if self.counts else 0.0, float(self.view.size))

    def having(self, stem: str, viewed: int) -> float:
        """Return how many of them have a stem; `viewed` of these are in the view."""
        counted = self.counts.having.get(stem, 0.0) if self.counts else 0.0
        return min(max(counted, viewed), self.total)  # counts are estimates, and a little old


class Matches(WordMatches, frozen=True, kw_only=True):
    """The results of all channels.

    `question` is the query's vector, float32, empty where there is none, and `embedder` made it.
    Unrelated texts have a cosine of about `floor`.

    `problem` is why the vectors could not be asked, `waiting` that some records have none yet.
    """

    question: bytes
    embedder: str
    min_score: float
    floor: float
    waiting: bool
    problem: str | None

    @classmethod
    def of(cls, worded: WordMatches, meaning: Meaning) -> "Matches":
        hits = meaning.hits
        return cls(
            view=worded.view,
            phrases=worded.phrases,
            topics=worded.topics,
            counts=worded.counts,
            question=hits.question if hits else b"",
            embedder=hits.embedder if hits else "",
            min_score=hits.min_score if hits else 0.0,
            floor=hits.floor if hits else 0.0,
            waiting=meaning.waiting,
            problem=meaning.problem,
        )

    def compared(self) -> Flags:
        """Return whether each record has a vector that the question's can be compared with."""
        if not self.question:
            return np.zeros(self.view.size, bool)
        return self.view.compared(self.embedder)

    def cosines(self) -> Array:
        """Return each record's cosine with the question, above the floor; 0 where there is none."""
        cosines = self.view.cosines(self.question, self.embedder)
        if not self.floor:
            return cosines
        return np.where(self.compared(), (cosines - self.floor) / (1 - self.floor), 0.0)


class Related(NamedTuple):
    """A row that another leads to; `stated`: by a relation, and not only by a common name."""

    row: int
    stated: bool


D = TypeVar("D")
T = TypeVar("T")


class DetailRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of which a choice needs relations, sources, beginnings, or records."""

    related: Sequence[int] = ()
    sources: Sequence[int] = ()
    texts: Sequence[int] = ()
    records: Sequence[int] = ()
    relations: Sequence[int] = ()


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """By row: what it leads to, what echoes repeat, the beginning, the record, its relations.

    Records that were superseded meanwhile are left out.
    """

    related: Mapping[int, Sequence[Related]] = {}
    sources: Mapping[int, Echo] = {}
    texts: Mapping[int, str] = {}
    records: Mapping[int, Record] = {}
    relations: Mapping[int, Sequence[ItemRelation]] = {}


AskVectors = Callable[[int], Awaitable[Meaning]]
"""Returns the question's vector, and so many of the nearest hits."""
Drafter = Callable[[WordMatches], D]
"""Makes what needs no vector of the question."""
Choice = Generator[DetailRequest, Details, T]
Chooser = Callable[[Matches, D], Choice[T]]


def run_choice(choice: Choice[T], given: Callable[[DetailRequest], Details]) -> T:
    """Run a choice to its result; `given` answers its requests."""
    try:
        wanted = next(choice)
        while True:
            wanted = choice.send(given(wanted))
    except StopIteration as end:
        chosen: T = end.value
        return chosen
