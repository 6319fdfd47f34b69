"""The ledger implementations; each engine passes every test of this folder.

For another engine, add an opener to ENGINES; tests in a subfolder apply to one engine.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, ExitStack, asynccontextmanager
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from local2.content_key import ContentKey
from local2.ledger.engines.postgres.database import Database as PostgresDatabase
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.ledger import Ledger
from local2.ledger.operations import working_sets
from postgres_server import PostgresServer

KEY = ContentKey(bytes(range(32)))
OfTenant = Callable[[str], Ledger]


class OpenLedger(NamedTuple):
    """Opens one ledger, as often as a test needs, once at a time."""

    opener: Callable[[Any], AbstractAsyncContextManager[OfTenant]]
    place: Path | str
    """A folder, or the URL of a database."""

    def __call__(self) -> AbstractAsyncContextManager[OfTenant]:
        return self.opener(self.place)

    def after_a_kill(self) -> "OpenLedger":
        """Return what opens the ledger as a kill leaves it now: its files between two writes."""
        if isinstance(self.place, str):
            return self  # the files are the server's
        left = self.place.with_name(f"{self.place.name}+")
        return OpenLedger(self.opener, shutil.copytree(self.place, left))


NewLedger = Callable[[], OpenLedger]


@asynccontextmanager
async def sqlite(folder: Path) -> AsyncIterator[OfTenant]:
    async with Database.open(folder / "ledger.sqlite3") as database:
        yield partial(Ledger, database)


@asynccontextmanager
async def sqlite_of_candidates(folder: Path) -> AsyncIterator[OfTenant]:
    """Open a ledger that is searched by candidates, as large memories are."""
    with patch.object(working_sets, "MAX_RECORDS", -1):
        async with sqlite(folder) as opened:
            yield opened


@asynccontextmanager
async def encrypted(folder: Path) -> AsyncIterator[OfTenant]:
    file = folder / "encrypted.sqlite3"
    async with Database.open(file, key=KEY) as database:
        yield partial(Ledger, database)


@asynccontextmanager
async def postgres(url: str) -> AsyncIterator[OfTenant]:
    async with PostgresDatabase.open(url) as database:
        yield partial(Ledger, database)


ENGINES = [pytest.param(sqlite, id="sqlite"), pytest.param(postgres, id="postgres")]
LARGE = pytest.param(sqlite_of_candidates, id="sqlite of large memories")
"""It differs in how it searches only."""
ENCRYPTED = pytest.param(encrypted, id="encrypted")
"""It differs in how its pages are written only: every operation, in any order, shows that."""

every_ledger = pytest.mark.parametrize("new_ledger", [*ENGINES, LARGE, ENCRYPTED], indirect=True)
every_search = pytest.mark.parametrize("new_ledger", [*ENGINES, LARGE], indirect=True)


@pytest.fixture(scope="session")
def empty_ledgers(empty_ledger: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an empty ledger for each implementation."""
    folder = tmp_path_factory.mktemp("empty-ledgers")
    shutil.copytree(empty_ledger, folder, dirs_exist_ok=True)

    async def create() -> None:
        async with Database.open(folder / "encrypted.sqlite3", key=KEY):
            pass

    asyncio.run(create())
    return folder


@pytest.fixture(params=ENGINES)
def new_ledger(
    request: pytest.FixtureRequest, tmp_path: Path, empty_ledgers: Path
) -> Iterator[NewLedger]:
    """Make a new ledger, which is opened as often as a test needs, once at a time."""
    folders = (tmp_path / f"ledger{number}" for number in count())
    with ExitStack() as databases:

        def make() -> OpenLedger:
            if request.param.__name__ == postgres.__name__:
                server: PostgresServer = request.getfixturevalue("postgres_databases")
                return OpenLedger(postgres, databases.enter_context(server.empty_ledger()))
            folder = shutil.copytree(empty_ledgers, next(folders))
            return OpenLedger(request.param, folder)

        yield make


@pytest.fixture
def open_ledger(new_ledger: NewLedger) -> OpenLedger:
    """Open one ledger, as often as a test needs, one at a time."""
    return new_ledger()


@pytest.fixture
async def of_tenant(open_ledger: OpenLedger) -> AsyncIterator[OfTenant]:
    async with open_ledger() as opened:
        yield opened


@pytest.fixture
def ledger(of_tenant: OfTenant) -> Ledger:
    return of_tenant("default")


@pytest.fixture
def other(of_tenant: OfTenant) -> Ledger:
    """Another tenant's ledger in the same file."""
    return of_tenant("other")
