"""A new ledger in PostgreSQL, which any number of stacks may open."""

from collections.abc import AsyncIterator, Iterator

import pytest

from local2.ledger.engines.postgres.database import Database
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
