"""Kill the vector worker fifty times while it indexes: recall keeps working, and nothing is lost.

`--records 200000` fills in that many records first, and kills it five times while it indexes more.
"""

import asyncio
import os
import signal
import tempfile
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from unittest.mock import patch

import msgspec

from harness.chat import messages
from harness.fill import made_up_vectors
from harness.processes import environment_of
from harness.report import Figure, percentile, run
from local2.config_files import load_settings
from local2.errors import BusError
from local2.logs import logging_to
from local2.memory.service import MemoryService
from local2.protocol.envelope import Caller, decode
from local2.protocol.maintenance import MemoryStatus
from local2.protocol.services import STATUS
from local2.stack import supervisor
from local2.stack.app import Stack, open_stack
from local2.vectors.minilm import MiniLM
from suite.recall import conversation, fill

KILLS = 50
KILLS_IN_MANY = 5
BATCH = 100
PATIENCE = 600.0
"""Seconds to wait; rebuilding an index of 200,000 records takes minutes."""
POLL = 0.01
SEARCH_PAUSE = 0.02


class Outcome(msgspec.Struct, kw_only=True):
    """Effects of the kills; `restarts` are seconds from a kill to the new worker's first batch."""

    restarts: list[float] = []
    searches: list[float] = []
    """Seconds of every search meanwhile; each was answered, since an error would have raised."""
    lost: int = 0
    """Records that a search for their own text does not find afterwards."""


async def kill_worker(folder: Path, kills: int) -> Outcome:
    """Repeatedly save a batch and kill the worker while it indexes; then search for every record.

    Records already in the folder's memory stay.
    """
    outcome = Outcome()
    settings = load_settings(environment=environment_of(folder))
    at_once = patch.object(supervisor, "LAST_DELAY", supervisor.FIRST_DELAY)
    with at_once, logging_to(folder / "stack.log"):
        async with open_stack(settings, log_folder=folder, with_generator=False) as stack:
            memory = stack.memories.of(Caller(tenant="default", user="ada"))
            searching = asyncio.create_task(_search_on(memory, outcome))
            texts: list[str] = []
            for kill in range(kills):
                batch = [f"Note {n} of batch {kill}: word{kill}x{n}." for n in range(BATCH)]
                await asyncio.gather(*(memory.write_episodic(text) for text in batch))
                texts += batch
                await _kill_while_indexing(stack, outcome)
            await _until(lambda: _nothing_waits(stack))
            searching.cancel()
            with suppress(asyncio.CancelledError):
                await searching
            outcome.lost = await _lost(memory, texts)
    return outcome


async def _kill_while_indexing(stack: Stack, outcome: Outcome) -> None:
    begun = time.perf_counter()
    await _until(lambda: _is_indexing(stack))
    outcome.restarts.append(time.perf_counter() - begun)
    pid = stack.vector_worker.pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    await _until(lambda: _replaced(stack, pid))


async def _search_on(memory: MemoryService, outcome: Outcome) -> None:
    while True:
        begun = time.perf_counter()
        await memory.search_episodic("note of a batch")
        outcome.searches.append(time.perf_counter() - begun)
        await asyncio.sleep(SEARCH_PAUSE)


async def _lost(memory: MemoryService, texts: list[str]) -> int:
    waiting = iter(texts)
    lost = 0

    async def look() -> None:
        nonlocal lost
        for text in waiting:
            result = await memory.search_episodic(text, top_k=1)
            lost += result.degraded or [hit.content for hit in result.hits] != [text]

    await asyncio.gather(*(look() for _ in range(16)))
    return lost


async def _status(stack: Stack) -> MemoryStatus | None:
    try:
        answer = await stack.bus.request(STATUS.subject, b"")
    except BusError:
        return None
    return decode(answer.data, MemoryStatus).payload


async def _is_indexing(stack: Stack) -> bool:
    now = await _status(stack)
    return now is not None and now.vectors_available and now.waiting > 0


async def _nothing_waits(stack: Stack) -> bool:
    now = await _status(stack)
    return now is not None and now.waiting == 0 and now.in_index == now.records


async def _replaced(stack: Stack, pid: int) -> bool:
    return stack.vector_worker.pid not in {None, pid}


async def _until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition():  # noqa: ASYNC110 - another process brings it about
            await asyncio.sleep(POLL)


async def measure(records: int) -> list[Figure]:
    kills = KILLS_IN_MANY if records else KILLS
    with tempfile.TemporaryDirectory() as folder:
        if records:
            texts = messages(records, seed=1)
            vectors = made_up_vectors(MiniLM.load(Path("models")), texts)
            await fill(Path(folder), conversation(texts), vectors)
        outcome = await kill_worker(Path(folder), kills)
    milliseconds = [seconds * 1e3 for seconds in outcome.searches]
    lost = Figure(
        key="lost", about=f"records lost in {kills} kills", blocks=[outcome.lost], at_most=0
    )
    return [
        lost,
        Figure(key="restart", about="kill to next batch", blocks=outcome.restarts, unit="s"),
        Figure(key="searches", about="searches meanwhile", blocks=[len(milliseconds)]),
        _figure("search_p50", "half of them within", milliseconds, 0.5),
        _figure("search_p99", "99 of 100 within", milliseconds, 0.99),
    ]


def _figure(key: str, about: str, milliseconds: list[float], share: float) -> Figure:
    return Figure(key=key, about=about, blocks=[percentile(milliseconds, share)], unit="ms")


def main() -> None:
    run(__doc__, measure, "records")
