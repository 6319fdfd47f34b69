"""Assembles one tenant's ledger from its parts. Writes return once they are on disk.

The module also checks whether the whole ledger is sound (its pages, its full-text index, the number
of its records).
"""

from local2.errors import StorageError
from local2.ledger.records import UNLIMITED, Counts, Quota
from local2.ledger.sqlite.audit import LedgerAudit
from local2.ledger.sqlite.backlog import TaskQueue
from local2.ledger.sqlite.browsing import Browsing
from local2.ledger.sqlite.conversations import Conversations
from local2.ledger.sqlite.database import Database
from local2.ledger.sqlite.documents import LedgerDocuments
from local2.ledger.sqlite.erasures import Erasures
from local2.ledger.sqlite.exports import Exports
from local2.ledger.sqlite.extraction import Extractions
from local2.ledger.sqlite.facts import LedgerFacts, RecentTopics
from local2.ledger.sqlite.imports import Imports
from local2.ledger.sqlite.index import IndexedRecords
from local2.ledger.sqlite.items import LedgerItems
from local2.ledger.sqlite.records import Records
from local2.ledger.sqlite.relations import Knowledge, LedgerRelations
from local2.ledger.sqlite.rows import SQL, TenantRows
from local2.ledger.sqlite.searches import Searches
from local2.ledger.sqlite.sessions import LedgerSessions, Notes, Outputs
from local2.ledger.sqlite.turns import Turns
from local2.ledger.sqlite.unreported import Unreported
from local2.ledger.sqlite.upkeep import Upkeep
from local2.ledger.sqlite.working_sets import budgets_of

COUNTED = "record"
"""The table whose rows the tally counts: records are superseded or reduced to a shell, but never
deleted."""


class Ledger:
    """One tenant's ledger, part by part."""

    def __init__(self, database: Database, tenant: str, quota: Quota = UNLIMITED) -> None:
        self._database = database
        self._rows = rows = TenantRows(database, tenant, quota)
        self.tenant = tenant
        self.records = Records(rows)
        budgets = budgets_of(database)
        topics = RecentTopics(budgets.topics)
        self.facts = LedgerFacts(rows, topics)
        self.extraction = Extractions(rows, topics)
        self.knowledge = Knowledge(rows)
        self.relations = LedgerRelations(rows)
        self.unreported = Unreported(rows)
        self.turns = Turns(rows)
        self.conversations = Conversations(rows)
        self.documents = LedgerDocuments(rows)
        self.items = LedgerItems(rows)
        self.sessions = LedgerSessions(rows)
        self.notes = Notes(rows)
        self.outputs = Outputs(rows)
        self.index = IndexedRecords(rows)
        self.backlog = TaskQueue(rows)
        self.upkeep = Upkeep(rows, topics)
        self.audit = LedgerAudit(rows, topics)
        self.searches = Searches(rows, budgets)
        self.browsing = Browsing(rows)
        self.exports = Exports(rows)
        after_import = topics.forget_all, self.knowledge.forget_held
        self.imports = Imports(rows, after_import)
        after_erasure = topics.forget_all, self.searches.forget_held
        self.erasures = Erasures(database, rows, after_erasure)

    async def counts(self) -> Counts:
        """Return the numbers of all records, of indexed ones and of those waiting for it."""
        return await self.records.counts()

    async def problems(self) -> list[str]:
        """Return the problems of the whole ledger, of all tenants; an empty list if it is sound."""
        return await find_problems(self._database)


async def find_problems(database: Database) -> list[str]:
    """Read all of the ledger; return its problems, an empty list if it is sound."""
    found = await database.damages()
    try:
        await database.write(lambda c: c.execute(SQL["check_full_text"]).rowcount)
    except StorageError as error:
        found.append(f"The full-text index does not match the records: {error.message}")
    if not found:  # counting needs sound pages
        count = await database.read(lambda c: c.execute(SQL["count_rows"]).fetchone())
        if missing := count["last"] - count["there"]:
            found.append(f"{missing} of {count['last']} records are missing.")
    return found
