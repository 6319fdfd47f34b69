"""How recall slows in a PostgreSQL of a million memories, and how much room they take.

One database holds 10,000 messages of one user; the other a million of 1,000 users, of whom one has
a tenth. A stack answers from each. `--records N` sets another number.
"""

import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import psycopg

from harness.chat import messages
from harness.client import USER, Asker, alternating, asking, latency, seconds
from harness.fill import EMBEDDED, store_records, vectors_around
from harness.processes import running_stack
from harness.report import Figure, milliseconds, ratio, run
from local2.ledger.engines.postgres.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.records import NewRecord
from local2.protocol.envelope import DEFAULT_TENANT, content_id
from local2.vectors.minilm import MODEL, MiniLM
from postgres_server import postgres_server
from suite.recall import conversation, recall

RECORDS = 1_000_000
FEW = 10_000
USERS = 1_000
SHARE_OF_LARGEST = 0.1
ASKING = 50
"""Number of users with few memories who ask in turn."""
BLOCKS = 5
REQUESTS = 60


async def measure(records: int = 0) -> list[Figure]:
    """Measure; `records` is the number of memories in the large database."""
    records = records or RECORDS
    with tempfile.TemporaryDirectory() as name, postgres_server() as server:
        server.look_after_itself()
        with server.new_database() as few, server.new_database() as many:
            await fill(few, {USER: FEW})
            empty = size_of(many)
            filled = await seconds(fill(many, users(records)))
            indexed = await seconds(index_largest(many))
            return [
                *await growth(Path(name), few, many),
                Figure(
                    key="bytes_per_record",
                    about="PostgreSQL: bytes of a message",
                    blocks=[(size_of(many) - empty) / records],
                    unit="B",
                ),
                Figure(key="fill_s", about="writing them", blocks=[filled], unit="s"),
                Figure(
                    key="index_s",
                    about="indexing the largest user's vectors",
                    blocks=[indexed],
                    unit="s",
                ),
            ]


def users(records: int) -> dict[str, int]:
    """Return how many memories each user has: one a tenth, the others the same of the rest."""
    largest = int(records * SHARE_OF_LARGEST)
    each = (records - largest) // (USERS - 1)
    return {USER: largest} | {f"user{number}": each for number in range(1, USERS)}


async def fill(url: str, sizes: dict[str, int]) -> None:
    """Write as many messages of each user, with vectors."""
    real = MiniLM.load(Path("models")).embed_queries(messages(EMBEDDED, seed=0))
    async with Database.open(url) as database:
        ledger = Ledger(database, DEFAULT_TENANT)
        for number, (user, size) in enumerate(sizes.items()):
            texts = messages(size, seed=number)
            told = [of_user(user, record) for record in conversation(texts)]
            await store_records(ledger, told, vectors_around(real, size, seed=number))


def of_user(user: str, record: NewRecord) -> NewRecord:
    return msgspec.structs.replace(record, id=content_id(user, record.id), owner=user)


async def index_largest(url: str) -> None:
    """Build the index of neighbours as the stack does, which would otherwise do so meanwhile."""
    async with Database.open(url) as database:
        await database.index_vectors(DEFAULT_TENANT, MODEL)


def size_of(url: str) -> int:
    """Return the size of a database in bytes."""
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT pg_database_size(current_database())").fetchone()
        assert row is not None
        return int(row[0])


async def growth(folder: Path, few: str, many: str) -> list[Figure]:
    """Ask in both databases, and in the large one as the user with most and as those with few."""
    async with asking_in(folder / "few", few) as small, asking_in(folder / "many", many) as large:
        others = [f"user{number}" for number in range(1, ASKING + 1)]
        asks = recall(small, [USER]), recall(large, others), recall(large, [USER])
        shares = 0.5, 0.95
        values = await alternating(
            BLOCKS, *(partial(latency, ask, REQUESTS, share) for ask in asks for share in shares)
        )
    few_p50, few_p95, users_p50, users_p95, largest_p50, largest_p95 = values
    return [
        ratio("users_p50_ratio", "p50: a user with few / 10,000", users_p50, few_p50, at_most=2),
        ratio("users_p95_ratio", "p95", users_p95, few_p95, at_most=2),
        ratio("largest_p50_ratio", "p50: the largest / 10,000", largest_p50, few_p50, at_most=2),
        ratio("largest_p95_ratio", "p95", largest_p95, few_p95, at_most=2),
        *(
            milliseconds(key, about, measured)
            for key, about, measured in (
                ("few_p50_ms", "p50 in 10,000", few_p50),
                ("few_p95_ms", "p95", few_p95),
                ("users_p50_ms", "p50 of a user with few", users_p50),
                ("users_p95_ms", "p95", users_p95),
                ("largest_p50_ms", "p50 of the largest", largest_p50),
                ("largest_p95_ms", "p95", largest_p95),
            )
        ),
    ]


@asynccontextmanager
async def asking_in(folder: Path, ledger: str) -> AsyncIterator[Asker]:
    """Run a stack on a database."""
    environment = {"LOCAL2_MEMORY__LEDGER": ledger}
    async with running_stack(folder, environment=environment) as url, asking(url) as asker:
        await asker.all_indexed()
        yield asker


def main() -> None:
    """Measure and print."""
    run(__doc__, measure, "records")
