"""A ledger with a key against one without: storing, searching by words, opening, bytes on disk."""

import itertools
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from functools import partial
from pathlib import Path

from harness.client import USER, alternating
from harness.fill import episodes
from harness.report import Figure, milliseconds, ratio, run
from harness.texts import notes
from ledgers import ledger_in
from local2.content_key import ContentKey
from local2.ledger.ledger import Ledger
from local2.ledger.operations import working_sets
from local2.ledger.records import Record
from local2.ledger.search import (
    Choice,
    DetailRequest,
    Matches,
    Place,
    Search,
    VectorResult,
    WordMatches,
)

RECORDS = 10_000
BATCH = 250
BLOCKS = 15
OPENED = 7
QUESTIONS = 5


async def measure() -> list[Figure]:
    working_sets.MAX_RECORDS = -1  # search in SQL, as in a large memory
    with tempfile.TemporaryDirectory() as folder:
        plain = partial(ledger_in, Path(folder, "plain.sqlite3"))
        key = ContentKey.create(Path(folder, "content.key"))
        secret = partial(ledger_in, Path(folder, "secret.sqlite3"), key=key)
        async with plain() as without, secret() as with_key:
            figures = await while_open(with_key, without)
        starts = await alternating(OPENED, partial(start, secret), partial(start, plain))
        figures += compared("start", "opening", *starts)
        return [*figures, size(Path(folder))]


def size(folder: Path) -> Figure:
    ours, base = ([Path(folder, f"{name}.sqlite3").stat().st_size] for name in ("secret", "plain"))
    return ratio("size_ratio", "bytes on disk: with a key / without", ours, base)


async def while_open(with_key: Ledger, without: Ledger) -> list[Figure]:
    texts = notes(RECORDS, seed=1)
    for ledger in (with_key, without):
        for start_at in range(0, RECORDS, BATCH):
            await ledger.records.store(episodes(texts[start_at : start_at + BATCH]))
    found: list[Figure] = []
    for key, about, work in (("store", "storing 250 records", store), ("search", "search", search)):
        ours, base = (work(ledger) for ledger in (with_key, without))
        found += compared(key, about, *await alternating(BLOCKS, ours, base))
    return found


def compared(key: str, about: str, ours: list[float], base: list[float]) -> list[Figure]:
    return [
        ratio(f"{key}_ratio", f"{about}: with a key / without", ours, base),
        milliseconds(f"{key}_ms", f"{about}, with a key", ours),
    ]


def store(ledger: Ledger) -> Callable[[], Awaitable[float]]:
    seeds = itertools.count(2)

    async def work() -> float:
        records = episodes(notes(BATCH, seed=next(seeds)))
        begun = time.perf_counter()
        await ledger.records.store(records)
        return time.perf_counter() - begun

    return work


def search(ledger: Ledger) -> Callable[[], Awaitable[float]]:
    words = itertools.cycle(notes(QUESTIONS, seed=99, words=(4, 8)))

    async def unasked(_: int) -> VectorResult:
        return VectorResult(waiting=True, problem="Nobody embeds.")

    async def work() -> float:
        begun = time.perf_counter()
        for text in itertools.islice(words, QUESTIONS):
            terms = tuple(text.lower().split())
            asked = Search(
                text=text, terms=terms, places=(Place("session", USER, "episode"),), owner=USER
            )
            await ledger.searches.find(asked, unasked, lambda worded: worded, everything)
        return (time.perf_counter() - begun) / QUESTIONS

    return work


def everything(found: Matches, _: WordMatches) -> Choice[dict[int, Record]]:
    return dict((yield DetailRequest(records=found.view.rows)).records)


async def start(ledger: Callable[[], AbstractAsyncContextManager[Ledger]]) -> float:
    begun = time.perf_counter()
    async with ledger():
        return time.perf_counter() - begun


def main() -> None:
    run(__doc__, measure)
