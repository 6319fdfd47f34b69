"""What one user's load costs another: recalls beside 200 others, indexing behind a backlog.

The other user has a memory of the same size, and asks one question after the other.
"""

import asyncio
import itertools
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

from harness.chat import messages, questions
from harness.client import USER, Asker, alternating, data_of, latency, request_as, request_of
from harness.client import asking as asking_at
from harness.fill import EVENT_TIME, write_records
from harness.processes import data_dir, running_stack
from harness.report import Figure, milliseconds, ratio, run
from harness.texts import notes
from local2.ledger.records import NewRecord
from local2.protocol.envelope import new_id
from local2.protocol.memory_tools import FoundMemories

LOADING = "eve"
REMEMBERED = 400
OUTSTANDING = 200
BLOCKS = 5
RECALLS = 40
BACKLOG = 20_000
SAVES = 12
POLL = 0.02


async def measure() -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for seed, user in enumerate((USER, LOADING)):
            await write_records(data_dir(folder), said(user, messages(REMEMBERED, seed=seed)))
        async with running_stack(folder) as url, asking_at(url) as asker:
            await asker.save(["The first note makes the collection."], in_flight=1)
            await asker.all_indexed()
            return [*await recalls(asker), *await indexing(asker, folder)]


def said(user: str, texts: Sequence[str]) -> list[NewRecord]:
    return [
        NewRecord(
            id=new_id(),
            kind="chat_message",
            owner=user,
            role="user",
            session_id="s1",
            content=text,
            event_time=EVENT_TIME,
        )
        for text in texts
    ]


async def recalls(asker: Asker) -> list[Figure]:
    mine = asked_by(USER)
    alone_ask = partial(recall_next, asker, mine)

    async def beside() -> float:
        async with outstanding(asker):
            return await latency(alone_ask, RECALLS, 0.95)

    alone, beside_p95 = await alternating(
        BLOCKS, partial(latency, alone_ask, RECALLS, 0.95), beside
    )
    about = f"p95: recall beside {OUTSTANDING} outstanding ones of another user / alone"
    return [
        ratio("recall_p95_ratio", about, beside_p95, alone, at_most=3.0),
        milliseconds("recall_beside_p95_ms", "beside them", beside_p95),
        milliseconds("recall_alone_p95_ms", "alone", alone),
    ]


def asked_by(user: str) -> Iterator[bytes]:
    return itertools.cycle([request_as(user, query=q) for q in questions(500, seed=len(user))])


async def recall_next(asker: Asker, requests: Iterator[bytes]) -> None:
    await asker.tool("recall", next(requests))


@asynccontextmanager
async def outstanding(asker: Asker) -> AsyncIterator[None]:
    """Keep this many recalls of the other user in progress; all are answered at the end."""
    requests = asked_by(LOADING)
    ending = False

    async def some() -> None:
        while not ending:
            await recall_next(asker, requests)

    load = [asyncio.create_task(some()) for _ in range(OUTSTANDING)]
    try:
        yield
    finally:
        ending = True
        await asyncio.gather(*load)


async def indexing(asker: Asker, folder: Path) -> list[Figure]:
    """Save each note once the previous one is in the index."""
    texts = notes(2 * SAVES, seed=7, words=(10, 40))
    alone = [await seconds_to_index(asker, text) for text in texts[:SAVES]]
    await write_records(data_dir(folder), said(LOADING, messages(BACKLOG, seed=3)))
    behind = [await seconds_to_index(asker, text) for text in texts[SAVES:]]
    assert (await asker.status()).waiting > BACKLOG // 4, "The backlog was too short."
    delays = [max(b - a, 0.0) for a, b in zip(alone, behind, strict=True)]
    about = f"until a note is in the index: behind {BACKLOG:,} of another user, longer by"
    return [
        milliseconds("index_delay_ms", about, delays, at_most=1_000),
        milliseconds("index_alone_ms", "alone", alone),
    ]


async def seconds_to_index(asker: Asker, text: str) -> float:
    """Return the seconds from the acknowledgement until the user's searches are not degraded."""
    await asker.save([text], in_flight=1)
    begun = time.perf_counter()
    ask = request_of(query=text)
    while True:
        if not data_of(await asker.tool("search_memory", ask), FoundMemories).degraded:
            return time.perf_counter() - begun
        await asyncio.sleep(POLL)


def main() -> None:
    run(__doc__, measure)
