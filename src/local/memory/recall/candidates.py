"""Reading candidates from the ledger, which decides what of them the caller may see.

Channels find records by their words or their vectors alone, whoever owns them. Every one of them
passes the statement `visible` before anybody looks at it.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from types import MappingProxyType
from typing import Any, NamedTuple, Self

import msgspec
import numpy as np
import numpy.typing as npt

from local.database import Connection
from local.errors import InvalidArgumentsError
from local.memory.places import Reach
from local.memory.records import Owning, folded, in_utc, stamp
from local.memory.rows import TenantRows
from local.protocol.vectors import VectorHits

NEIGHBOURED = 25
"""Of a channel's best so many get the messages around them."""
OWN = 3_000
"""No more records than these are all compared where the nearest of the index are others'."""

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

    @property
    def in_time(self) -> bool:
        """Whether only some times are asked for."""
        return self.since is not None or self.until is not None

    @classmethod
    def of(cls, reach: Reach, since: datetime | None, until: datetime | None) -> Self:
        """Times without an offset are UTC's.

        Raises:
            InvalidArgumentsError: The time ends before it begins, or outside of our calendar.
        """
        first = stamp(in_utc(since, "since")) if since else None
        last = stamp(in_utc(until, "until")) if until else None
        if first and last and first > last:
            raise InvalidArgumentsError(f"since: {since} is after {until}, where the time ends.")
        return cls(
            places=_json(reach.places),
            only_session=reach.only_session,
            but_session=reach.but_session,
            since=first,
            until=last,
        )


class Pool:
    """The candidates for one question, by row, as they come in; used inside a read."""

    def __init__(
        self,
        rows: TenantRows,
        connection: Connection,
        filter_: Filter,
        candidates: Mapping[int, Candidate] = MappingProxyType({}),
    ) -> None:
        self._rows = rows
        self._connection = connection
        self._asked = msgspec.structs.asdict(filter_)
        self.candidates = dict(candidates)

    def by_topics(self, topics: Sequence[str]) -> list[int]:
        """Rows of the facts under these keys."""
        asked = {
            "topics": _json([folded(topic) for topic in topics]),
            "places": self._asked["places"],
        }
        return [row for (row,) in self._all("topic_rows", **asked)] if topics else []

    def add(self, rows: Sequence[int]) -> None:
        """Take those of the rows, best first, that are visible, and what was said around them."""
        self._take(rows=sorted(set(rows)))
        first = [self.candidates[row] for row in rows[:NEIGHBOURED] if row in self.candidates]
        around = {row for c in first for row in (c.previous, c.next) if row is not None}
        self._take(rows=sorted(around))

    def first(self, rows: Sequence[int], limit: int) -> list[int]:
        """The first of the rows that are visible, candidates all of them."""
        self._take(rows=rows, limit=limit)
        return [row for row in rows if row in self.candidates][:limit]

    def nearest(self, hits: VectorHits, limit: int) -> list[int]:
        """Rows of the first hits that are visible, candidates all of them."""
        known = {candidate.id for candidate in self.candidates.values()}
        self._take(ids=[hit.id for hit in hits.hits if hit.id not in known], limit=limit)
        rows = {candidate.id: candidate.row for candidate in self.candidates.values()}
        return [rows[hit.id] for hit in hits.hits if hit.id in rows][:limit]

    def nearest_own(self, hits: VectorHits, limit: int) -> list[int] | None:
        """The nearest of all that the caller may see; None if that is too much to compare."""
        own = self._all("own_rows", limit=OWN + 1, **self._asked)
        if len(own) > OWN:
            return None
        rows = _json([row for (row,) in own])
        compared = self._all("own_vectors", rows=rows, embedder=hits.embedder, **self._asked)
        if not compared:
            return []
        cosines = matrix([data for _, data in compared]) @ vector_of(hits.question)
        return [compared[position][0] for position in np.argsort(-cosines)[:limit].tolist()]

    def related(self) -> dict[int, list[int]]:
        """Rows related to each candidate's row."""
        rows = {candidate.id: candidate.row for candidate in self.candidates.values()}
        related: dict[int, list[int]] = {}
        for of, row in self._all("related", ids=_json(list(rows))):
            related.setdefault(rows[of], []).append(row)
        return related

    def _take(self, rows: Iterable[int] = (), ids: Sequence[str] = (), limit: int = -1) -> None:
        """Read records by row or by id; the first so many that are visible become candidates."""
        new = [row for row in rows if row not in self.candidates]
        if new or ids:
            asked = {"rows": _json(new), "ids": _json(ids), "limit": limit}
            for row in self._all("visible", **asked, **self._asked):
                self.candidates[row[0]] = Candidate(*row)

    def _all(self, statement: str, **values: object) -> list[tuple[Any, ...]]:
        return self._rows.execute(self._connection, statement, **values).fetchall()


def vector_of(data: bytes) -> Floats:
    return np.frombuffer(data, np.float32)


def matrix(vectors: Sequence[bytes]) -> Floats:
    """One row a vector."""
    return np.frombuffer(b"".join(vectors), np.float32).reshape(len(vectors), -1)


def _json(values: Sequence[object]) -> str:
    return msgspec.json.encode(values).decode()
