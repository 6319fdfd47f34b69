"""Reading candidates from the ledger, which decides what of them the caller may see.

Channels find records by their words or their vectors alone, whoever owns them. Every one of them
passes the statement `visible` before anybody looks at it.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
import numpy.typing as npt

from local.database import Connection
from local.memory.places import Reach
from local.memory.records import Owning, stamp
from local.memory.rows import TenantRows
from local.protocol.vectors import VectorHits

NEIGHBOURED = 25
"""Of a channel's best so many get the messages around them."""
OWN = 3_000
"""Whoever has no more records gets all their vectors compared where others' fill the index."""

Floats = npt.NDArray[np.float32]


class Candidate(NamedTuple):
    """What ranking needs to know of a record; in the order of the statement `visible`."""

    row: int
    id: str
    scope: Owning
    session_id: str | None
    role: str | None
    label: str | None
    importance: float
    durability: str
    event_time: str
    length: int
    recalled: int | None
    feedback: float | None
    embedder: str | None
    vector: bytes | None
    text: str
    previous: int | None
    next: int | None


class Filter(msgspec.Struct, frozen=True, kw_only=True):
    """What the statements ask of every record."""

    places: str
    only_session: str | None
    but_session: str | None
    since: str | None
    until: str | None

    @classmethod
    def of(cls, reach: Reach, since: datetime | None, until: datetime | None) -> Self:
        return cls(
            places=_json(reach.places),
            only_session=reach.only_session,
            but_session=reach.but_session,
            since=stamp(since) if since else None,
            until=stamp(until) if until else None,
        )


class Pool:
    """The candidates for one question, as they come in; used inside a read of the database."""

    def __init__(self, rows: TenantRows, connection: Connection, filter_: Filter) -> None:
        self._rows = rows
        self._connection = connection
        self._asked = msgspec.structs.asdict(filter_)

    def by_topics(self, topics: Sequence[str]) -> list[int]:
        """Rows of the facts under these keys."""
        asked = {"topics": _json(topics), "places": self._asked["places"]}
        return [row for (row,) in self._all("topic_rows", **asked)] if topics else []

    def with_neighbours(
        self, rows: Sequence[int], known: Collection[int] = ()
    ) -> dict[int, Candidate]:
        """Those of the rows that are visible, by row, and what was said around the first of them.

        Args:
            rows: Best first.
            known: Rows that are candidates already.
        """
        found = {c.row: c for c in self._visible(set(rows) - set(known))}
        first = [found[row] for row in rows[:NEIGHBOURED] if row in found]
        around = {row for c in first for row in (c.previous, c.next) if row is not None}
        return found | {c.row: c for c in self._visible(around - found.keys() - set(known))}

    def nearest(self, hits: VectorHits) -> list[int]:
        """Rows of those hits that are visible."""
        ids = _json([hit.id for hit in hits.hits])
        return [row for (row,) in self._all("visible_ids", ids=ids, **self._asked)]

    def nearest_own(self, hits: VectorHits, limit: int) -> list[int] | None:
        """The nearest of all that the caller may see; None if that is too much to compare."""
        own = self._all("own_rows", places=self._asked["places"], limit=OWN + 1)
        if len(own) > OWN:
            return None
        rows = _json([row for (row,) in own])
        compared = self._all("own_vectors", rows=rows, embedder=hits.embedder, **self._asked)
        if not compared:
            return []
        cosines = matrix([data for _, data in compared]) @ vector_of(hits.question)
        return [compared[position][0] for position in np.argsort(-cosines)[:limit].tolist()]

    def related(self, candidates: Iterable[Candidate]) -> dict[int, list[int]]:
        """Rows related to each candidate's row."""
        rows = {candidate.id: candidate.row for candidate in candidates}
        related: dict[int, list[int]] = {}
        for of, row in self._all("related", ids=_json(list(rows))):
            related.setdefault(rows[of], []).append(row)
        return related

    def _visible(self, rows: set[int]) -> list[Candidate]:
        found = self._all("visible", rows=_json(sorted(rows)), **self._asked) if rows else []
        return [Candidate(*row) for row in found]

    def _all(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        return self._rows.execute(self._connection, statement, **values).fetchall()


def vector_of(data: bytes) -> Floats:
    return np.frombuffer(data, np.float32)


def matrix(vectors: Sequence[bytes]) -> Floats:
    """One row a vector."""
    return np.frombuffer(b"".join(vectors), np.float32).reshape(len(vectors), -1)


def _json(values: Sequence[object]) -> str:
    return msgspec.json.encode(values).decode()
