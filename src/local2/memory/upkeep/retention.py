"""Anonymise records that were retired long ago, and delete logged recalls that are too old.

Anonymised records lose content, identity and vector; the row and its references stay. By default,
only the number of due records is logged. Each batch is one transaction, so a kill leaves no record
half done, and the next run continues.
"""

import asyncio
from datetime import datetime, timedelta

import structlog

from local2.errors import StorageError
from local2.language.statements import forget_compared
from local2.ledger.ledger import Ledger
from local2.memory.changes import Announce
from local2.protocol import subjects
from local2.protocol.envelope import Clock
from local2.protocol.maintenance import DueRecord, RetentionReport
from local2.protocol.payloads import MemoryChange
from local2.settings import MemorySettings

AGENT = "retention"
"""The agent in the audit trail."""
RECORDS_PER_TRANSACTION = 200
"""Number of records per transaction; saves of all tenants wait for it."""
MAX_LISTED = 100
"""Maximum number of due records that are listed."""
LISTED_CHARACTERS = 200
"""Maximum characters of a listed record's content."""
RUN_SECONDS = 3600.0
"""Seconds between two runs. Retention is counted in days, so hourly is often enough."""

log = structlog.get_logger()


class Retention:
    """Anonymises one tenant's retired records, and deletes its old logs of recalls."""

    def __init__(
        self,
        ledger: Ledger,
        settings: MemorySettings,
        announce: Announce,
        clock: Clock,
    ) -> None:
        self._ledger = ledger
        self._settings = settings
        self._announce = announce
        self._clock = clock
        self._reported = 0

    async def run(self) -> None:
        """Anonymise and delete what is due every hour until cancelled."""
        while True:
            try:
                await self.drop_recalls()
                await self.run_once()
            except StorageError as error:
                log.warning("retention_delayed", reason=error.logged)
            except Exception:
                log.exception("retention_failed")
            await asyncio.sleep(RUN_SECONDS)

    async def drop_recalls(self) -> int:
        """Delete logged recalls older than `recall_log_days`; return how many."""
        before = self._clock() - timedelta(days=self._settings.recall_log_days)
        done = 0
        while dropped := await self._ledger.showings.drop_logged(
            before=before, limit=RECORDS_PER_TRANSACTION
        ):
            done += dropped
        return done

    async def run_once(self) -> int:
        """Anonymise due records and return their number; unless switched on, only log it."""
        if self._settings.anonymise != "on":
            due = await self.due()
            if due != self._reported:
                log.info("would_anonymise", records=due, remedy="set `anonymise: on` to do so")
            self._reported = due
            return 0
        done = 0
        async with self._ledger.backlog.claimed_work(AGENT) as may_run:
            while may_run and (
                changed := await self._ledger.erasures.anonymise(
                    before=self._due_before(),
                    limit=RECORDS_PER_TRANSACTION,
                    agent=AGENT,
                    at=self._clock(),
                )
            ):
                done += len(changed)
                for record in changed:
                    change = MemoryChange(id=record.id, kind=record.kind)
                    self._announce(subjects.MEMORY_ANONYMIZED, change)
        if done:
            forget_compared()
            log.info("anonymised", records=done)
        return done

    async def due(self) -> int:
        """Count the records that are due, also in a dry run."""
        if self._settings.anonymise == "off":
            return 0
        return await self._ledger.erasures.count_to_anonymise(self._due_before())

    async def report(self) -> RetentionReport:
        """Report which records are due, or would be if retention were on."""
        before = self._due_before()
        records = await self._ledger.erasures.to_anonymise(before, MAX_LISTED)
        return RetentionReport(
            anonymise=self._settings.anonymise,
            after_days=self._settings.anonymise_after_days,
            due=await self._ledger.erasures.count_to_anonymise(before),
            records=[
                DueRecord(
                    id=record.id,
                    kind=record.kind,
                    scope=record.scope,
                    content=record.content[:LISTED_CHARACTERS],
                    topic=record.topic,
                    retired_at=record.retired_at,
                    retired_why=record.retired_why,
                )
                for record in records
            ],
        )

    def _due_before(self) -> datetime:
        return self._clock() - timedelta(days=self._settings.anonymise_after_days)
