"""One tenant's ledger: every memory as a row of SQL. Writes return once they are on disk.

Beside its parts: whether the whole ledger is sound (its pages, its full text, no record missing),
and the features of records that an older local2 stored; until they are stored, ranking computes
them itself.
"""

import asyncio
from collections.abc import Iterator
from functools import partial

import structlog

from local.errors import StorageError
from local.ledger.records import UNLIMITED, Counts, Quota
from local.ledger.sqlite.audit import Audit
from local.ledger.sqlite.backlog import TaskQueue
from local.ledger.sqlite.conversations import Conversations
from local.ledger.sqlite.database import Database, Row, SqlConnection
from local.ledger.sqlite.erasures import Erasures
from local.ledger.sqlite.exports import Exports
from local.ledger.sqlite.extraction import Extractions
from local.ledger.sqlite.imports import Imports
from local.ledger.sqlite.items import Items
from local.ledger.sqlite.records import Documents, Facts, RecentTopics, Records
from local.ledger.sqlite.relations import Knowledge, Relations
from local.ledger.sqlite.rows import SQL, Parameters, RecordRows, TenantRows
from local.ledger.sqlite.searches import Searches
from local.ledger.sqlite.sessions import Notes, Outputs, Sessions
from local.ledger.sqlite.tombstones import Tombstones
from local.ledger.sqlite.turns import Received, Turns
from local.ledger.sqlite.upkeep import IndexedRecords, Upkeep
from local.ledger.sqlite.working_sets import held_of
from local.text.features import features_of, pairs_of

COUNTED = "record"
"""Records are superseded or erased to a shell, and never deleted."""
PAGE = 100

log = structlog.get_logger()


class Ledger:
    """One tenant's ledger, part by part."""

    def __init__(self, database: Database, tenant: str, quota: Quota = UNLIMITED) -> None:
        self._database = database
        self._rows = rows = TenantRows(database, tenant, quota)
        self.tenant = tenant
        tombstones = Tombstones(rows)
        written = RecordRows(rows, tombstones.stand_for)
        self.records = Records(rows, written)
        held = held_of(database)
        topics = RecentTopics(held.topics)
        self.facts = Facts(rows, written, topics)
        self.extraction = Extractions(rows, written, topics)
        self.knowledge = Knowledge(rows, written)
        self.relations = Relations(rows, written)
        self.turns = Turns(rows, written)
        self.conversations = Conversations(rows, written)
        self.received = Received(rows, written)
        self.documents = Documents(rows, written)
        self.items = Items(rows, written)
        self.sessions = Sessions(rows)
        self.notes = Notes(rows)
        self.outputs = Outputs(rows)
        self.index = IndexedRecords(rows)
        self.backlog = TaskQueue(rows)
        self.upkeep = Upkeep(rows, written, topics)
        self.audit = Audit(rows, written, topics)
        self.searches = Searches(rows, held)
        self.exports = Exports(rows)
        reading = topics.forget_all, self.knowledge.forget_held
        self.imports = Imports(rows, written, tombstones, reading)
        forgetting = topics.forget_all, self.searches.forget_held
        self.erasures = Erasures(database, rows, written, tombstones, forgetting)

    async def counts(self) -> Counts:
        """Return how many records there are, and how many of them the index has."""
        return await self.records.counts()

    async def unsound(self) -> list[str]:
        """Return what is wrong with the whole ledger, of all tenants; nothing if it is sound."""
        return await unsound(self._database)

    async def backfill(self) -> None:
        """Bring the records of an older local2 up to date; until then they are read as they are."""
        await backfill(self._rows)


async def backfill(rows: TenantRows) -> None:
    """Store the features of every record that has none."""
    try:
        lacking = await rows.one("lacks_features")
        if lacking is None or not lacking["lacking"]:
            return
        after = done = 0
        while page := await rows.all("without_features", after=after, limit=PAGE):
            read = await asyncio.to_thread(_read, page)
            await rows.write(partial(_store_features, rows, read))
            after, done = page[-1]["row"], done + len(page)
    except StorageError as error:  # the next start tries again
        log.warning("features_delayed", reason=str(error))
    else:
        log.info("features_read", records=done)


def _read(page: list[Row]) -> list[Parameters]:
    """Return their features, beside what they were read from."""
    return [
        {
            "record": row["row"],
            "content": row["content"],
            **features_of(
                row["content"], topic=row["topic"], label=row["label"], event_time=row["event_time"]
            )._asdict(),
        }
        for row in page
    ]


def _store_features(rows: TenantRows, read: list[Parameters], connection: SqlConnection) -> None:
    rows.execute_each(connection, "keep_features", read)
    paired = ({**each, "pairs": pairs_of(each["stems"])} for each in read)
    rows.execute_each(connection, "keep_pairs", (each for each in paired if each["pairs"]))


async def unsound(database: Database) -> list[str]:
    """Read all of the ledger; return what is wrong with it, or nothing."""
    found = await database.damages()
    try:
        await database.write(_check_full_text)
    except StorageError as error:
        found.append(f"The full-text index does not say what the records say: {error.message}")
    if not found:  # counting needs sound pages
        found += await database.read(lambda c: list(_missing(c)))
    return found


def _check_full_text(connection: SqlConnection) -> None:
    connection.execute(SQL["check_full_text"])


def _missing(connection: SqlConnection) -> Iterator[str]:
    row = connection.execute(SQL["count_rows"]).fetchone()
    if row["there"] != row["last"]:
        yield f"{row['last'] - row['there']} of {row['last']} records are missing."
