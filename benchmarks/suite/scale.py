"""How recall slows with size, and how long it takes to refill a lost index from the ledger.

Each size is compared with 10,000 messages in sessions of 25. The refill is compared with Chroma
alone, which gets the same vectors in the same batches in a separate process.
"""

import asyncio
import itertools
import multiprocessing
import shutil
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

from harness.baselines import plain_chroma
from harness.chat import messages
from harness.client import USER, Ask, Asker, alternating, asking, latency, request_of, seconds
from harness.fill import EVENT_TIME, made_up_vectors, write_records
from harness.processes import chroma_dir, data_dir, running_stack
from harness.report import Figure, milliseconds, ratio, run
from local2.ledger.records import NewRecord
from local2.memory.indexing import BATCH_RECORDS
from local2.protocol.envelope import content_id
from local2.vectors.embedder import FloatMatrix
from local2.vectors.minilm import MiniLM
from suite.recall import conversation, fill, recall

FEW = 10_000
IN_SESSION = 100_000
FACTS = 20_000
LOST = 200_000
BLOCKS = 5
REQUESTS = 50
KEY = "project.part_{:05}"


async def measure(lost: int = 0) -> list[Figure]:
    """Measure; `lost` is the number of vectors in the index to refill."""
    lost = lost or LOST
    embedder = MiniLM.load(Path("models"))
    texts = messages(max(IN_SESSION, lost), seed=1)
    vectors = made_up_vectors(embedder, texts)
    return [*await growth(texts, vectors), *await refill(texts[:lost], vectors[:lost])]


async def growth(texts: Sequence[str], vectors: FloatMatrix) -> list[Figure]:
    memories = {
        "few": conversation(texts[:FEW]),
        "session": conversation(texts[:IN_SESSION], session=IN_SESSION),
        "facts": facts(texts[:FACTS]),
    }
    with tempfile.TemporaryDirectory() as name:
        folders = [Path(name) / memory for memory in memories]
        for folder, records in zip(folders, memories.values(), strict=True):
            await fill(folder, records, vectors[: len(records)])
        async with (
            running_stack(folders[0]) as few,
            running_stack(folders[1]) as session,
            running_stack(folders[2]) as keyed,
            asking(few) as asker,
            asking(session) as asker_of_session,
            asking(keyed) as asker_of_facts,
        ):
            await asyncio.gather(
                *(each.all_indexed() for each in (asker, asker_of_session, asker_of_facts))
            )
            asked = (recall(asker), recall(asker_of_session), by_key(asker_of_facts))
            base, one_session, by_keys = await alternating(
                BLOCKS, *(partial(latency, ask, REQUESTS) for ask in asked)
            )
    return [
        milliseconds("recall_p50_ms", f"p50: recall in {FEW:,} messages", base),
        ratio(
            "session_ratio", f"{IN_SESSION:,} in one session / that", one_session, base, at_most=2
        ),
        ratio("facts_ratio", f"by key in {FACTS:,} of one prefix / that", by_keys, base, at_most=2),
    ]


def facts(texts: Sequence[str]) -> list[NewRecord]:
    """Return a fact for each text, all under keys with the same prefix."""
    return [
        NewRecord(
            id=content_id("fact", USER, n),
            kind="fact",
            scope="user",
            owner=USER,
            topic=KEY.format(n),
            content=text,
            event_time=EVENT_TIME,
        )
        for n, text in enumerate(texts)
    ]


def by_key(asker: Asker) -> Ask:
    """Recall one fact by its key; the answer must have it first."""
    keys = itertools.cycle(KEY.format(n) for n in range(0, FACTS, 97))

    async def ask() -> None:
        key = next(keys)
        answer = await asker.tool("recall", request_of(query=f"What do we know of {key}?"))
        assert b'"items":[{' in answer, answer.decode()
        assert key.encode() in answer, answer.decode()

    return ask


async def refill(texts: Sequence[str], vectors: FloatMatrix) -> list[Figure]:
    """Delete the index between two starts of a stack, and poll the stack for its progress.

    Polling takes a tenth of the time at most: a status counts all that waits, on the same cores.
    """
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        await write_records(data_dir(folder), conversation(texts), vectors)
        shutil.rmtree(chroma_dir(folder), ignore_errors=True)
        async with running_stack(folder) as url, asking(url) as asker:
            ours = await seconds(asker.all_indexed())
        ids = [str(n) for n in range(len(texts))]
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as other:
            running = asyncio.get_running_loop()
            alone = await running.run_in_executor(other, filled, folder / "raw", ids, vectors)
    about = f"a lost index of {len(texts):,} filled again: Chroma alone / ours"
    return [
        ratio("refill_ratio", about, [alone], [ours], at_least=0.8),
        Figure(key="refill_s", about="ours", blocks=[ours], unit="s"),
    ]


def filled(folder: Path, ids: Sequence[str], vectors: FloatMatrix) -> float:
    """Return the seconds that Chroma takes for batches like those of the indexer."""
    with plain_chroma(folder) as chroma:
        begun = time.perf_counter()
        chroma.add(ids, vectors, together=BATCH_RECORDS)
        return time.perf_counter() - begun


def main() -> None:
    run(__doc__, measure, "lost")
