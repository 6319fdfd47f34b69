"""The types of a search: its query, its candidates, and the choice of the best.

The caller supplies the choice as a pure function, so that no SQL leaves the ledger and no ranking
enters it. The function is a generator: it yields requests for details, receives them, and returns
its choice. The ledger answers these requests within the read in which it found the candidates.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

import msgspec
import numpy as np

from local2.language.forms import forms_of
from local2.ledger.columns import Array, Flags, View
from local2.ledger.records import TENANT_OWNED, Record
from local2.protocol.memories import Kind, OwnerScope
from local2.protocol.memory_tools import ItemRelation
from local2.protocol.vectors import VectorHits


class Place(NamedTuple):
    """Scope, owner and kind of records."""

    scope: OwnerScope
    owner: str
    kind: Kind


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """The words of a search, and the conditions for records.

    For records of sessions, `only_session` is the one to search and `excluded_session` the one to
    leave out. `since`, `until` and `as_of` are in UTC; records that were retired after `as_of` are
    found as well. With `source`, only records whose `source_ref` begins with it are found.
    `optional` are terms that write others in another way, and are left out if no record has them.
    `current_query_id` is the query id of the turn in which `owner` asks; the question of that turn
    is not found.
    """

    text: str
    places: tuple[Place, ...]
    terms: tuple[str, ...] = ()
    optional: frozenset[str] = frozenset()
    phrases: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    only_session: str | None = None
    excluded_session: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    as_of: datetime | None = None
    source: str | None = None
    owner: str = TENANT_OWNED
    current_query_id: str | None = None

    @property
    def words(self) -> tuple[str, ...]:
        """The terms and their other forms: a record with one of these has the term."""
        return tuple(dict.fromkeys(form for term in self.terms for form in forms_of(term)))


class Source(NamedTuple):
    """A row that an echo repeats; `replaces` means that it is the fact that holds instead."""

    row: int
    replaces: bool = False


class StemCounts(msgspec.Struct, frozen=True, kw_only=True):
    """Numbers of records in a memory: in total, and with each stem. Large ones are estimates."""

    total: float
    by_stem: dict[str, float]


class VectorResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of the vector search for a question, or the reason why there is none.

    `hits` are the nearest records of all owners. `waiting` means that some records have no vector
    yet.
    """

    waiting: bool
    hits: VectorHits | None = None
    problem: str | None = None


class WordMatches(msgspec.Struct, frozen=True, kw_only=True):
    """The candidates for ranking, and what can be determined without the question's vector.

    `phrases` has one list of rows for each phrase of the question.
    """

    view: View
    phrases: list[list[int]]
    topics: list[int]
    counts: StemCounts | None = None
    """Counts in the caller's memory, if the view does not contain all of it."""
    meant: Mapping[str, tuple[str, ...]] = {}
    """What is meant by words of the question that no record has (`language/spelling.py`)."""

    @property
    def total(self) -> float:
        """Number of records in the searched memory."""
        return max(self.counts.total if self.counts else 0.0, float(self.view.size))

    def count_having(self, forms: Sequence[str], viewed: int) -> float:
        """How many records of the memory have one of these stems; `viewed` are in the view."""
        counted = sum(self.counts.by_stem.get(stem, 0.0) for stem in forms) if self.counts else 0.0
        return min(max(counted, viewed), self.total)  # counts are estimated and slightly outdated


class Matches(WordMatches, frozen=True, kw_only=True):
    """The results of all channels.

    `question` is the question's vector (float32, empty if there is none), made by `embedder`.
    Unrelated texts have a cosine of about `floor`. `problem` is the reason why the vector search
    failed. `waiting` means that some records have no vector yet.
    """

    question: bytes
    embedder: str
    min_score: float
    floor: float
    waiting: bool
    problem: str | None

    @classmethod
    def of(cls, worded: WordMatches, meaning: VectorResult) -> "Matches":
        hits = meaning.hits
        return cls(
            view=worded.view,
            phrases=worded.phrases,
            topics=worded.topics,
            counts=worded.counts,
            meant=worded.meant,
            question=hits.question if hits else b"",
            embedder=hits.embedder if hits else "",
            min_score=hits.min_score if hits else 0.0,
            floor=hits.floor if hits else 0.0,
            waiting=meaning.waiting,
            problem=meaning.problem,
        )

    def has_comparable_vector(self) -> Flags:
        """For each record whether its vector can be compared with the question's."""
        if not self.question:
            return np.zeros(self.view.size, bool)
        return self.view.has_comparable_vector(self.embedder)

    def cosines(self) -> Array:
        """Each record's cosine with the question, rescaled from the floor; 0 if unknown."""
        cosines = self.view.cosines(self.question, self.embedder)
        if not self.floor:
            return cosines
        return np.where(
            self.has_comparable_vector(), (cosines - self.floor) / (1 - self.floor), 0.0
        )


class Related(NamedTuple):
    """A related row; `stated` means by a stated relation, not merely by a common name."""

    row: int
    stated: bool


class Replaced(NamedTuple):
    """What holds in place of facts that were extracted from a message.

    The texts of these, the rows of the `facts` and of what is `stating` them, which are messages,
    or the facts themselves if they were saved, and the rows of the former message's facts that
    `stand`.
    """

    texts: set[str]
    facts: list[int]
    stating: list[int]
    stand: list[int]


D = TypeVar("D")
T = TypeVar("T")


class DetailRequest(msgspec.Struct, frozen=True, kw_only=True):
    """The rows for which a choice requests details; see `Details`."""

    related: Sequence[int] = ()
    sources: Sequence[int] = ()
    replaced: Sequence[int] = ()
    former: Sequence[int] = ()
    texts: Sequence[int] = ()
    records: Sequence[int] = ()
    relations: Sequence[int] = ()


class Details(msgspec.Struct, frozen=True, kw_only=True):
    """The requested details by row; `texts` are the beginnings of texts.

    `replaced` has the messages of which an extracted fact no longer holds. `former` has the values
    that a fact replaced under its key, the latest first. Records that have since been superseded
    are left out of the others.
    """

    related: Mapping[int, Sequence[Related]] = {}
    sources: Mapping[int, Sequence[Source]] = {}
    replaced: Mapping[int, Replaced] = {}
    former: Mapping[int, Sequence[Record]] = {}
    texts: Mapping[int, str] = {}
    records: Mapping[int, Record] = {}
    relations: Mapping[int, Sequence[ItemRelation]] = {}


AskVectors = Callable[[int], Awaitable[VectorResult]]
"""Returns the question's vector and the given number of nearest hits."""
Drafter = Callable[[WordMatches], D]
"""Computes everything that does not need the question's vector."""
Choice = Generator[DetailRequest, Details, T]
Chooser = Callable[[Matches, D], Choice[T]]


def run_choice(choice: Choice[T], details_of: Callable[[DetailRequest], Details]) -> T:
    """Run a choice to its result; `details_of` answers its requests."""
    try:
        request = next(choice)
        while True:
            request = choice.send(details_of(request))
    except StopIteration as end:
        chosen: T = end.value
        return chosen
