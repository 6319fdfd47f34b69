"""One tenant's ledger: every memory as a row of SQL. Writes return once they are on disk."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from local.ledger.records import Counts
from local.ledger.sqlite.backfill import backfill
from local.ledger.sqlite.conversations import Conversations
from local.ledger.sqlite.database import Database
from local.ledger.sqlite.documents import Documents
from local.ledger.sqlite.facts import Facts
from local.ledger.sqlite.index import IndexQueue
from local.ledger.sqlite.integrity import unsound
from local.ledger.sqlite.notes import Notes
from local.ledger.sqlite.outputs import Outputs
from local.ledger.sqlite.received import Received
from local.ledger.sqlite.record_rows import RecordRows
from local.ledger.sqlite.records import Records
from local.ledger.sqlite.rows import TenantRows
from local.ledger.sqlite.searches import Searches
from local.ledger.sqlite.sessions import Sessions
from local.ledger.sqlite.sql import migrations
from local.ledger.sqlite.turns import Turns

DEFAULT_TENANT = "default"
COUNTED = "record"
"""Records are superseded, and never deleted."""


class Ledger:
    """What the memory stores and finds, part by part."""

    def __init__(self, database: Database, tenant: str = DEFAULT_TENANT) -> None:
        self._database = database
        self._rows = rows = TenantRows(database, tenant)
        self.tenant = tenant
        written = RecordRows(rows)
        self.records = Records(rows, written)
        self.facts = Facts(rows, written)
        self.turns = Turns(rows, written)
        self.conversations = Conversations(rows, written)
        self.received = Received(rows, written)
        self.documents = Documents(rows, written)
        self.sessions = Sessions(rows)
        self.notes = Notes(rows)
        self.outputs = Outputs(rows)
        self.index = IndexQueue(rows)
        self.searches = Searches(rows)

    @classmethod
    @asynccontextmanager
    async def open(cls, path: Path, tenant: str = DEFAULT_TENANT) -> AsyncIterator["Ledger"]:
        """Open the file of a ledger, or make one.

        Raises:
            DamagedError: It is missing, empty or damaged, or lacks acknowledged writes.
            StorageError: It cannot be opened.
        """
        async with Database.open(path, migrations(), counted=COUNTED) as database:
            yield cls(database, tenant)

    async def counts(self) -> Counts:
        """How many records there are, and how many of them the index has."""
        return await self.records.counts()

    async def unsound(self) -> list[str]:
        """What is wrong with the whole ledger, whoever its tenants are; nothing if it is sound."""
        return await unsound(self._database)

    async def backfill(self) -> None:
        """Bring what an older local2 stored up to date; until then it is read as it is."""
        await backfill(self._rows)
