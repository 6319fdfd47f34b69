"""Opening the ledger where it and what lies beside it say that it is the right one."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from local.errors import DamagedError
from local.ledger.sqlite.database import Database, has_content
from local.ledger.sqlite.database.tally import Tally
from local.ledger.sqlite.ledger import COUNTED, Ledger
from local.ledger.sqlite.sql import migrations
from local.settings import MemorySettings
from local.vectors.config import count_vectors


def ledger_path(settings: MemorySettings) -> Path:
    return settings.data_dir / "ledger.sqlite3"


def has_ledger(settings: MemorySettings) -> bool:
    """Whether something is remembered there."""
    return has_content(ledger_path(settings))


class Ledgers:
    """Every tenant's ledger, over the file that they share."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @asynccontextmanager
    async def opened(self, tenant: str) -> AsyncIterator[Ledger]:
        """One tenant's, while the context lasts."""
        yield Ledger(self._database, tenant)


@asynccontextmanager
async def open_ledgers(settings: MemorySettings) -> AsyncIterator[Ledgers]:
    """Open the ledger's file, or make one where nothing says that there was one.

    Raises:
        DamagedError: It is missing beside what was made of it, damaged, or an older one.
        StorageError: It cannot be opened.
    """
    await asyncio.to_thread(refuse_a_missing_ledger, settings)
    path = ledger_path(settings)
    async with Database.open(path, migrations(), counted=COUNTED) as database:
        yield Ledgers(database)


@asynccontextmanager
async def open_ledger(settings: MemorySettings, tenant: str) -> AsyncIterator[Ledger]:
    """Open one tenant's ledger alone; raises what `open_ledgers` raises."""
    async with open_ledgers(settings) as ledgers, ledgers.opened(tenant) as ledger:
        yield ledger


def refuse_a_missing_ledger(settings: MemorySettings) -> None:
    """A ledger that is gone leaves its count and its vectors behind.

    Raises:
        DamagedError: One of these is there, and the ledger is not, or is empty.
    """
    path, index = ledger_path(settings), settings.chroma_path
    if has_content(path):
        return
    tally = Tally(path, COUNTED)
    if vectors := count_vectors(index, settings.collection):
        raise DamagedError(
            f"{path} is missing or empty, and {index} holds {vectors} vectors of its records.",
            remedy="Restore it from a backup. To begin anew, delete "
            f"{index} and {tally.path}, too.",
        )
    tally.refuse_a_missing_database()
