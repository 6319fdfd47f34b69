"""A new ledger in PostgreSQL, which any number of stacks may open."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager

import pytest

from ledgers import OWNER
from local2.ledger.engines.postgres.connections import connect
from local2.ledger.engines.postgres.database import Database
from local2.ledger.ledger import Ledger
from postgres_server import PostgresServer


@pytest.fixture
def url(postgres_databases: PostgresServer) -> Iterator[str]:
    with postgres_databases.new_database() as created:
        yield created


@pytest.fixture
async def here(url: str) -> AsyncIterator[Database]:
    """The ledger, as one stack has it open."""
    async with Database.open(url) as opened:
        yield opened


@pytest.fixture
async def there(url: str) -> AsyncIterator[Database]:
    """The same ledger, as another stack has it open."""
    async with Database.open(url) as opened:
        yield opened


@pytest.fixture
def ledger(here: Database) -> Ledger:
    """A tenant's ledger, as one stack has it open."""
    return Ledger(here, "default")


@pytest.fixture
def theirs(there: Database) -> Ledger:
    """The same tenant's ledger, as another stack has it open."""
    return Ledger(there, "default")


@asynccontextmanager
async def another_stack_writes(
    url: str, database: Database, lock: str = "lock_parts"
) -> AsyncIterator[None]:
    """Hold up all writes of the owner, or with `lock_tenant` all, while the context lasts."""
    with connect(url).raw as raw:
        raw.execute("BEGIN")
        locked = {"tenant": "default", "locked": f'["{OWNER}"]'}
        raw.execute(database.statements[lock], locked)
        yield
        raw.execute("COMMIT")
