"""Consolidating 50,000 facts, and its effect on recall meanwhile.

One user's facts: in each hundred, three repeat another fact, one contradicts another, and eighty
have faded; some are recalled. Each block is one run, which works on what the previous one left.
"""

import asyncio
import itertools
import tempfile
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

import numpy as np

from harness.chat import messages, questions
from harness.client import USER, Asker, alternating, asking, data_of, latency, request_of, seconds
from harness.fill import fill_index, made_up_vectors, write_records
from harness.processes import chroma_dir, data_dir, running_stack
from harness.report import Figure, milliseconds, percentile, ratio, run
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.records import EXTRACTED_FROM, NewRecord
from local2.protocol.envelope import DEFAULT_TENANT, content_id
from local2.protocol.memory_tools import ConsolidationReport
from local2.vectors.minilm import MiniLM

FACTS = 50_000
BLOCKS = 3
RECALLS = 200
POLL = 0.1
LONGEST_RUN = 120.0
"""Seconds until a run counts as failed; the bound is half of it."""
LONG_AGO = datetime(2019, 1, 1, tzinfo=UTC)
RECENT = datetime(2026, 1, 1, tzinfo=UTC)
SAME, OTHER, FADED = 3, 4, 80
"""In each hundred facts, 1 to `SAME` are repeats, and the one after `OTHER` contradicts it."""


NONE_BY_ITSELF = {"LOCAL2_MEMORY__CONSOLIDATION_HOURS": "0"}
"""Without this, a scheduled run would be in progress when the benchmark starts its own."""


async def measure() -> list[Figure]:
    texts = facts_said()
    records = [_record(n, text) for n, text in enumerate(texts)]
    vectors = made_up_vectors(MiniLM.load(Path("models")), texts)
    vectors[_repeated()] = vectors[_repeated() - 1]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        await write_records(data_dir(folder), records, vectors)
        await _contradict(data_dir(folder), records)
        fill_index(chroma_dir(folder), [record.id for record in records], vectors)
        async with (
            running_stack(folder, environment=NONE_BY_ITSELF) as url,
            asking(url) as asker,
            asking(url) as keeper,
        ):
            await _settled(asker)
            return await _figures(asker, keeper)


async def _figures(asker: Asker, keeper: Asker) -> list[Figure]:
    requests = itertools.cycle([request_of(query=q) for q in questions(500, seed=3)])
    took: list[float] = []
    behind: list[float] = []

    async def beside() -> float:
        consolidating = asyncio.create_task(_consolidate(keeper))
        waits = await _recall_until(consolidating, asker, requests)
        took.append(await consolidating)
        behind.append(await seconds(_settled(asker)))
        return percentile(waits, 0.95)

    alone = partial(latency, partial(_recall, asker, requests), RECALLS, 0.95)
    idle, busy = await alternating(BLOCKS, alone, beside)
    about = f"seconds to consolidate {FACTS:,} facts"
    return [
        Figure(key="consolidation_s", about=about, blocks=took[1:], unit="s", at_most=60.0),
        Figure(
            key="index_behind_s",
            about="until the index has let them go",
            blocks=behind[1:],
            unit="s",
        ),
        ratio("recall_p95_ratio", "p95: recall beside it / idle", busy, idle, at_most=2.0),
        milliseconds("recall_beside_p95_ms", "beside it", busy),
        milliseconds("recall_idle_p95_ms", "idle", idle),
    ]


async def _consolidate(asker: Asker) -> float:
    """Return how long one run takes; it finds as much as it is allowed to change."""
    begun = asyncio.get_running_loop().time()
    answer = await asker.tool("consolidate", request_of(), within=LONGEST_RUN)
    report = data_of(answer, ConsolidationReport)
    assert len(report.changes) > FACTS // 100, f"Only {len(report.changes)} changes were made."
    return asyncio.get_running_loop().time() - begun


async def _recall(asker: Asker, requests: Iterator[bytes]) -> None:
    await asker.tool("recall", next(requests))


async def _recall_until(
    done: "asyncio.Task[float]", asker: Asker, requests: Iterator[bytes]
) -> list[float]:
    waits: list[float] = []
    while not done.done():
        waits.append(await seconds(_recall(asker, requests)))
    return waits


async def _settled(asker: Asker) -> None:
    """Return when the index matches the ledger."""
    while True:
        status = await asker.status()
        if status.waiting == 0 and status.in_index == status.indexed and status.vectors_available:
            return
        await asyncio.sleep(POLL)


def facts_said() -> list[str]:
    texts = messages(FACTS, seed=1)
    for n in range(1, FACTS):
        kind = n % 100
        if kind <= SAME and kind > 0:
            texts[n] = texts[n - 1].upper()
        elif kind == OTHER + 1:
            texts[n] = f"The door {n // 100} has the colour red."
        elif kind == OTHER:
            texts[n] = f"The door {n // 100} has the colour blue."
    return texts


def _repeated() -> "np.ndarray[tuple[int], np.dtype[np.int64]]":
    numbers = np.arange(FACTS)
    return numbers[(numbers % 100 <= SAME) & (numbers % 100 > 0)]


def _record(number: int, text: str) -> NewRecord:
    faded = number % 100 >= 100 - FADED
    return NewRecord(
        id=content_id("fact", USER, number),
        kind="fact",
        scope="user",
        owner=USER,
        agent="benchmark",
        content=text,
        memory_type="fact",
        source_class="stated",
        metadata={EXTRACTED_FROM: [f"m{number}"]},
        event_time=(LONG_AGO if faded else RECENT) + timedelta(minutes=number),
    )


async def _contradict(folder: Path, records: Sequence[NewRecord]) -> None:
    async with Database.open(folder / "ledger.sqlite3") as database:
        ledger = Ledger(database, DEFAULT_TENANT)
        for n in range(OTHER + 1, FACTS, 100):
            await ledger.facts.relate(records[n].id, "contradicts", records[n - 1].id)


def main() -> None:
    run(__doc__, measure)
