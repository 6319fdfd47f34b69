"""Assembles one tenant's ledger from its parts. Writes return once they are on disk."""

from local2.ledger.engines import Database
from local2.ledger.operations.audit import LedgerAudit
from local2.ledger.operations.backlog import TaskQueue
from local2.ledger.operations.browsing import LedgerBrowsing
from local2.ledger.operations.conversations import Conversations
from local2.ledger.operations.documents import LedgerDocuments
from local2.ledger.operations.erasures import Erasures
from local2.ledger.operations.exports import Exports
from local2.ledger.operations.extraction import Extractions
from local2.ledger.operations.facts import LedgerFacts, RecentTopics
from local2.ledger.operations.imports import Imports
from local2.ledger.operations.index import IndexedRecords
from local2.ledger.operations.items import LedgerItems
from local2.ledger.operations.records import Records
from local2.ledger.operations.relations import Knowledge, LedgerRelations
from local2.ledger.operations.searches import Searches
from local2.ledger.operations.sessions import LedgerSessions, Notes, Outputs
from local2.ledger.operations.showings import Showings
from local2.ledger.operations.transactions import TenantRows
from local2.ledger.operations.turns import Turns
from local2.ledger.operations.unreported import Unreported
from local2.ledger.operations.upkeep import Upkeep
from local2.ledger.operations.vectors import KeptVectors
from local2.ledger.operations.working_sets import budgets_of
from local2.ledger.records import UNLIMITED, Counts, Quota
from local2.protocol.maintenance import LiveStack


class Ledger:
    """One tenant's ledger, part by part."""

    def __init__(self, database: Database, tenant: str, quota: Quota = UNLIMITED) -> None:
        self._database = database
        self._rows = rows = TenantRows(database, tenant, quota)
        self.tenant = tenant
        self.records = Records(rows)
        budgets = budgets_of(database)
        topics = RecentTopics(budgets.topics, is_shared=database.is_shared)
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
        self.showings = Showings(rows)
        self.outputs = Outputs(rows)
        self.index = IndexedRecords(rows)
        self.vectors = KeptVectors(rows) if database.searches_vectors else None
        """None where the vector worker keeps and searches vectors."""
        self.backlog = TaskQueue(rows)
        self.upkeep = Upkeep(rows, topics)
        self.audit = LedgerAudit(rows, topics)
        self.searches = Searches(database, rows, budgets)
        self.browsing = LedgerBrowsing(rows)
        self.exports = Exports(rows)
        after_import = topics.forget_all, self.knowledge.forget_held
        self.imports = Imports(rows, after_import)
        after_erasure = topics.forget_all, self.searches.forget_held
        self.erasures = Erasures(database, rows, after_erasure)

    async def counts(self) -> Counts:
        """The numbers of all records, of indexed ones and of those waiting for it."""
        row = await self._rows.one("counts")
        assert row is not None  # noqa: S101 - a row of counts is always there
        return Counts(records=row["records"], indexed=row["indexed"], waiting=row["waiting"])

    async def index_vectors(self, embedder: str) -> bool:
        """Build what the database needs to search large places by this embedder's vectors.

        False: another stack is building at the moment; ask again later.
        """
        return await self._database.index_vectors(self.tenant, embedder)

    async def live_stacks(self) -> list[LiveStack]:
        """The stacks that share the ledger, the oldest first; none if only one can."""
        return await self._database.live_stacks()

    async def server_bytes(self) -> int | None:
        """How much room the ledger takes on a database server; None if it is in files here."""
        return await self._database.server_bytes()

    async def problems(self) -> list[str]:
        """The problems of the whole ledger, of all tenants; an empty list if it is sound."""
        return await self._database.problems()
