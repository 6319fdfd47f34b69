"""Records, and searches over them, for tests of the ledger."""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
from msgspec import Raw
from msgspec.json import encode

from local2.content_key import ContentKey
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.erasing import Erased, ErasureOptions, Selection, combined
from local2.ledger.ledger import Ledger
from local2.ledger.operations.index import Waiting
from local2.ledger.operations.items import ItemCollection, NewItem
from local2.ledger.records import NewRecord, Record, Task
from local2.ledger.search import (
    Choice,
    DetailRequest,
    Matches,
    Place,
    Search,
    VectorResult,
    WordMatches,
)
from local2.protocol.envelope import new_id, utc_now
from local2.protocol.items import ItemPut, path_text
from local2.protocol.vectors import VectorHit, VectorHits
from local2.settings import MemorySettings
from local2.stack.ledgers import Ledgers

DAY = datetime(2026, 5, 1, 12, tzinfo=UTC)
OWNER = "richard"
ITEMS = ItemCollection(owner=OWNER, collection="test")
EMBEDDER = "plane"
"""An embedder with two dimensions: a text's vector is an angle."""


@asynccontextmanager
async def open_ledger(
    settings: MemorySettings, tenant: str, key: ContentKey | None = None
) -> AsyncIterator[Ledger]:
    """Open one tenant's ledger alone."""
    async with Ledgers(settings, lambda _: key) as ledgers, ledgers.open(tenant) as ledger:
        yield ledger


@asynccontextmanager
async def ledger_in(
    file: Path, tenant: str = "default", key: ContentKey | None = None
) -> AsyncIterator[Ledger]:
    """Open the ledger in a file, whatever other files are beside it."""
    async with Database.open(file, key=key) as database:
        yield Ledger(database, tenant)


def record(content: str, number: int = 0, **columns: Any) -> NewRecord:
    """Return an episode of Richard's, dated this many minutes after noon."""
    fields = {"id": new_id(), "kind": "episode", "owner": OWNER, "session_id": "s1"}
    at = DAY + timedelta(minutes=number)
    return NewRecord(**{**fields, "content": content, "event_time": at, **columns})


def message(content: str, number: Any = 0, **columns: Any) -> NewRecord:
    return record(content, number, **{"kind": "chat_message", "role": "user", **columns})


def fact(content: str, number: Any = 0, **columns: Any) -> NewRecord:
    fields = {"kind": "fact", "scope": "user", "session_id": None}
    return record(content, number, **{**fields, **columns})


def item(key: str, value: object = None, text: str | None = None, **columns: Any) -> NewItem:
    """Return an item of Richard's in `metals`, searchable by its text if it has one."""
    put = ItemPut(namespace=("metals",), key=key, value=Raw(encode(value)))
    if text is None:
        return NewItem(put=put)
    fields = {"scope": "user", "source_ref": path_text((ITEMS.collection, "metals", key))}
    return NewItem(put=put, record=record(text, **{**fields, **columns}))


def searching(*terms: str, **fields: Any) -> Search:
    """Search Richard's episodes, messages and facts."""
    places = (
        Place("session", OWNER, "episode"),
        Place("session", OWNER, "chat_message"),
        Place("user", OWNER, "fact"),
    )
    usual = {"text": " ".join(terms), "terms": terms, "places": places, "owner": OWNER}
    return Search(**{**usual, **fields})


def angle(degrees: float) -> bytes:
    turned = np.radians(degrees)
    return np.array([np.cos(turned), np.sin(turned)], np.float32).tobytes()


def no_vector_result(problem: str = "Nobody embeds.") -> VectorResult:
    return VectorResult(waiting=True, problem=problem)


def vector_result(degrees: float, ids: Sequence[str] = ()) -> VectorResult:
    """Return the question's vector, and the nearest ids of the index."""
    hits = [VectorHit(id=id_, cosine=1.0) for id_ in ids]
    return VectorResult(
        waiting=False,
        hits=VectorHits(hits=hits, question=angle(degrees), embedder=EMBEDDER, min_score=0.0),
    )


class Seen(msgspec.Struct, frozen=True, kw_only=True):
    """The results of a search that chooses everything."""

    found: Matches
    records: dict[int, Record]

    @property
    def contents(self) -> set[str]:
        return {one.content for one in self.records.values()}

    def cosines(self) -> dict[str, float]:
        both = zip(self.found.view.rows, self.found.cosines().tolist(), strict=True)
        return {self.records[row].content: round(cosine, 2) for row, cosine in both}


def everything(found: Matches, _: WordMatches) -> Choice[Seen]:
    """Choose all of it."""
    records = (yield DetailRequest(records=found.view.rows)).records
    return Seen(found=found, records=dict(records))


async def find(ledger: Ledger, search: Search, *meanings: VectorResult) -> Seen:
    """Run a search; `meanings` are the vectors' successive answers, the last one repeated."""
    results = list(meanings) or [no_vector_result()]

    async def look(_: int) -> VectorResult:
        return results.pop(0) if len(results) > 1 else results[0]

    return await ledger.searches.find(search, look, lambda worded: worded, everything)


async def unjudged(ledger: Ledger) -> list[str]:
    """Return the facts that wait to be compared with older ones."""
    tasks = await ledger.backlog.claim({"judge": 99}, now=utc_now())
    return [one.content for one in await ledger.records.at([task.row for task in tasks])]


async def to_index(
    ledger: Ledger, limit: int = 99, *, embedder: str = EMBEDDER, exclude: Sequence[Waiting] = ()
) -> list[Waiting]:
    """Return the records that are next to be indexed."""
    busy = [Task(kind="index", row=one.row, id=one.id) for one in exclude]
    tasks = await ledger.backlog.claim({"index": limit}, now=utc_now(), exclude=busy)
    return await ledger.index.waiting(tasks, embedder=embedder)


async def index(ledger: Ledger, angles: dict[str, float]) -> None:
    """Give the records of these texts their vectors."""
    waiting = await to_index(ledger, 999)
    taken = [one for one in waiting if one.text in angles]
    await ledger.index.store_vectors(taken, [angle(angles[one.text]) for one in taken], EMBEDDER)


async def erase(
    ledger: Ledger, selection: Selection, *, at: datetime = DAY, allow_again: bool = False
) -> Erased:
    """Erase what is selected, in as many transactions as that takes."""
    rows = (await ledger.erasures.select(selection)).rows
    how = ErasureOptions(at=at, allow_again=allow_again)
    return combined([part async for part in ledger.erasures.erase(selection, rows, how)])
