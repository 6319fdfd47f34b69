"""What the channels found, as ranking takes it."""

from typing import NamedTuple

import msgspec
import numpy as np

from local.ledger.columns import View
from local.ledger.entries import Array, Flags
from local.protocol.vectors import VectorHits


class Echo(NamedTuple):
    """Of which rows, which are in what is searched, and which words are its own."""

    sources: tuple[int, ...]
    adds: frozenset[str] = frozenset()


class Counts(msgspec.Struct, frozen=True, kw_only=True):
    """Of a memory's records; of many they are estimates."""

    total: float
    having: dict[str, float]


class Meaning(msgspec.Struct, frozen=True, kw_only=True):
    """What the vectors say of a question, or why they do not.

    `hits` are the nearest of everybody's, and `waiting` says that some records have none yet.
    """

    waiting: bool
    hits: VectorHits | None = None
    problem: str | None = None


class Worded(msgspec.Struct, frozen=True, kw_only=True):
    """What ranking chooses from, and what is known of it without the question's vector.

    `phrases` are the rows that have each of the question's.
    """

    view: View
    phrases: list[list[int]]
    topics: list[int]
    counts: Counts | None = None
    """Of the caller's memory, where the view is not all of it."""

    @property
    def total(self) -> float:
        """Records of the memory that is searched."""
        return max(self.counts.total if self.counts else 0.0, float(self.view.size))

    def having(self, stem: str, viewed: int) -> float:
        """How many of them have a stem, of which `viewed` are in the view."""
        counted = self.counts.having.get(stem, 0.0) if self.counts else 0.0
        return min(max(counted, viewed), self.total)  # counts are estimates, and of a while ago


class Found(Worded, frozen=True, kw_only=True):
    """What all channels say.

    `question` is the query's vector, float32, empty where there is none, and `embedder` made it.
    `problem` says why the vectors could not be asked, `waiting` that some records have none yet.
    """

    question: bytes
    embedder: str
    min_score: float
    waiting: bool
    problem: str | None

    @classmethod
    def of(cls, worded: Worded, meaning: Meaning) -> "Found":
        hits = meaning.hits
        return cls(
            view=worded.view,
            phrases=worded.phrases,
            topics=worded.topics,
            counts=worded.counts,
            question=hits.question if hits else b"",
            embedder=hits.embedder if hits else "",
            min_score=hits.min_score if hits else 0.0,
            waiting=meaning.waiting,
            problem=meaning.problem,
        )

    def compared(self) -> Flags:
        """Whether each record has a vector that the question's can be compared with."""
        if not self.question:
            return np.zeros(self.view.size, bool)
        return self.view.compared(self.embedder)

    def cosines(self) -> Array:
        """Of the question with each record; 0 where they cannot be compared."""
        return self.view.cosines(self.question, self.embedder)
