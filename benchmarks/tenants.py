"""What tenants cost each other: a quiet one beside a flood, many beside one, and memory meanwhile.

Each tenant has a memory of its own over one ledger in this process, found by words alone, and takes
its turn as requests of the bus do. `--minutes N` prolongs the flood whose memory is measured.
"""

import asyncio
import itertools
import os
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from unittest.mock import AsyncMock

from chat import messages, questions
from client import alternating, latency
from fairness import said
from footprint import resident
from local.admission import Admission
from local.errors import OverloadedError, VectorError
from local.fair_slots import FairSlots
from local.ledger.door import Ledger
from local.ledger.sqlite.database import Database
from local.ledger.sqlite.sql import migrations
from local.memory.recall.recaller import SEARCHES, RecallRequest
from local.memory.tenant import Memory
from local.protocol.conversation import ConversationMessage
from local.protocol.envelope import Caller
from local.settings import MemorySettings
from report import Figure, milliseconds, percentile, ratio, run

TENANTS = 100
RECORDS = 1_000
CLIENTS = 200
USERS = 50
INGESTED = 20
BLOCKS = 5
RECALLS = 40
FLOOD_SECONDS = 15.0
POLL = 0.25
USER, FLOODING = "ada", "flooding"


class Tenants:
    """Memories over one ledger, behind one admission."""

    def __init__(self, database: Database) -> None:
        vectors = AsyncMock()
        vectors.search.side_effect = VectorError("Nobody embeds here.")
        searches = FairSlots(SEARCHES)
        self._admission = Admission()
        self.memories = [
            Memory(
                Ledger(database, name),
                vectors,
                MemorySettings(starting_timeout=0),
                announce=AsyncMock(),
                searches=searches,
            )
            for name in (FLOODING, *(f"tenant{n}" for n in range(TENANTS)))
        ]
        self.refused = 0

    async def recall(self, memory: Memory, query: str, user: str = USER) -> None:
        caller = Caller(tenant=memory.tenant, user=user, session_id="s9")
        data = query.encode()
        with self._admission.admitted(caller.principal, data):
            async with self._admission.slot(caller.principal, data):
                await memory.of(caller).recall(RecallRequest(query=query, top_k=5))

    async def ingest(self, memory: Memory, texts: list[str], user: str) -> None:
        caller = Caller(tenant=memory.tenant, user=user)
        told = [ConversationMessage(role="user", content=text) for text in texts]
        data = "".join(texts).encode()
        with self._admission.admitted(caller.principal, data):
            async with self._admission.slot(caller.principal, data):
                await memory.of(caller).intake.store_conversation(told, "s1")

    @asynccontextmanager
    async def flood(self) -> AsyncIterator[None]:
        """Half of the clients recall, the others ingest, without a pause, for one tenant."""
        ending, number = False, itertools.count()

        async def ask(client: int) -> None:
            user, asked = f"user{client % USERS}", asking(client)
            while not ending:
                try:
                    if client % 2:
                        await self.recall(self.memories[0], next(asked), user)
                    else:
                        texts = [f"Number {next(number)}: {next(asked)}" for _ in range(INGESTED)]
                        await self.ingest(self.memories[0], texts, user)
                except OverloadedError as error:
                    self.refused += 1
                    await asyncio.sleep(error.retry_after or POLL)

        clients = [asyncio.create_task(ask(n)) for n in range(CLIENTS)]
        try:
            yield
        finally:
            ending = True
            await asyncio.gather(*clients)


async def measure(minutes: int = 0) -> list[Figure]:
    with tempfile.TemporaryDirectory() as name:
        file = Path(name) / "ledger.sqlite3"
        async with Database.open(file, migrations(), counted="record") as database:
            tenants = Tenants(database)
            for seed, memory in enumerate(tenants.memories):
                await memory.ledger.records.store(said(USER, messages(RECORDS, seed=seed)))
            return [
                *await among_many(tenants),
                *await beside_a_flood(tenants),
                *await memory_held(tenants, 60.0 * minutes or FLOOD_SECONDS),
            ]


def asking(seed: int) -> Iterator[str]:
    return itertools.cycle(questions(100, seed=seed))


async def among_many(tenants: Tenants) -> list[Figure]:
    """One question after the other: of one tenant, and of all of them in turn."""
    asked, quiet = asking(1), tenants.memories[1]
    turns = itertools.cycle(tenants.memories[1:])
    for memory in tenants.memories[1:]:
        await tenants.recall(memory, next(asked))

    one = partial(latency, lambda: tenants.recall(quiet, next(asked)), TENANTS, 0.95)
    many = partial(latency, lambda: tenants.recall(next(turns), next(asked)), TENANTS, 0.95)
    alone, among = await alternating(BLOCKS, one, many)
    about = f"p95: recall of {TENANTS} tenants of {RECORDS:,} records in turn / of one"
    return [
        ratio("tenants_p95_ratio", about, among, alone, at_most=1.5),
        milliseconds("tenants_p95_ms", "of them in turn", among),
    ]


async def beside_a_flood(tenants: Tenants) -> list[Figure]:
    asked, quiet = asking(2), tenants.memories[1]
    ask = partial(latency, lambda: tenants.recall(quiet, next(asked)), RECALLS, 0.95)

    async def beside() -> float:
        async with tenants.flood():
            return await ask()

    alone, flooded = await alternating(BLOCKS, ask, beside)
    about = f"p95: recall beside {CLIENTS} clients of another tenant / alone"
    return [
        ratio("flood_p95_ratio", about, flooded, alone, at_most=3.0),
        milliseconds("flood_p95_ms", "beside them", flooded),
        milliseconds("quiet_p95_ms", "alone", alone),
    ]


async def memory_held(tenants: Tenants, seconds: float) -> list[Figure]:
    """The second half of a flood over its first: what grows with time would show."""
    held: list[float] = []
    async with tenants.flood():
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            held.append(float(resident(os.getpid())))
            await asyncio.sleep(POLL)
    half = len(held) // 2
    first, second = (percentile(part, 0.95) for part in (held[:half], held[half:]))
    about = f"memory in the second half of {seconds:g} s of flood / in the first"
    return [
        Figure(key="flood_memory_ratio", about=about, blocks=[second / first], at_most=1.2),
        Figure(key="flood_memory_mb", about="at most", blocks=[max(held) / 2**20], unit="MB"),
        Figure(key="flood_refused", about="requests refused", blocks=[float(tenants.refused)]),
    ]


if __name__ == "__main__":
    run(__doc__, measure, "minutes")
