"""Retires facts that newer ones contradict, after the newer ones have been acknowledged.

Facts wait in the ledger until they are judged, so a restart forgets none. While the model or the
vectors are missing they wait on; nothing is retired on a guess.
"""

import asyncio
from contextlib import suppress
from functools import partial

import msgspec
import structlog

from local.errors import Local2Error, ModelError, ModelRefusedError
from local.ledger.found import Found
from local.ledger.records import Record
from local.ledger.sqlite.candidates import Filter
from local.ledger.sqlite.database import Connection
from local.ledger.sqlite.facts import Ledger
from local.ledger.sqlite.rows import TenantRows, record_of
from local.memory.changes import Changes
from local.memory.judge import Judge
from local.memory.places import ALIKE, Reach, place
from local.memory.recall.query import analyse
from local.memory.recall.retrieval import Retrieval
from local.protocol.caller import Caller

AGENT = "contradiction_judge"
TOGETHER = 20
FIRST_RETRY = 0.2
LAST_RETRY = 60.0

log = structlog.get_logger()


class Closeness(msgspec.Struct, frozen=True, kw_only=True):
    """Which older facts a new one is compared with: the nearest few, within a cosine distance."""

    top_k: int
    distance: float


class Supersession:
    """Judges new facts while `run` runs; `wake` it after each."""

    def __init__(  # noqa: PLR0913, PLR0917 - what judging takes
        self,
        rows: TenantRows,
        ledger: Ledger,
        retrieval: Retrieval,
        changes: Changes,
        judge: Judge,
        closeness: Closeness,
    ) -> None:
        self._rows = rows
        self._ledger = ledger
        self._retrieval = retrieval
        self._changes = changes
        self._judge = judge
        self._closeness = closeness
        self._work = asyncio.Event()

    def wake(self) -> None:
        """A fact has been written."""
        self._work.set()

    async def run(self) -> None:
        """Judge until cancelled."""
        delay = FIRST_RETRY
        self._work.set()
        while True:
            await self._work.wait()
            self._work.clear()
            try:
                done = await self._catch_up()
            except Local2Error as error:
                log.warning("judging_delayed", reason=str(error))
                done = False
            if done:
                delay = FIRST_RETRY
                continue
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._work.wait()
            delay = min(delay * 2, LAST_RETRY)
            self._work.set()

    async def _catch_up(self) -> bool:
        """Judge whatever can be judged now; False if some of it has to be tried again."""
        after, whole = 0, True
        while facts := await self._ledger.unjudged(TOGETHER, after=after):
            judged = [await self._judged(fact) for fact in facts]
            whole = whole and all(judged)
            if not any(judged):
                break
            after = facts[-1].row
        return whole

    async def _judged(self, fact: Record) -> bool:
        """False where its vectors are missing, or the model does not answer; others may go on."""
        older = await self._nearest(fact)
        if older is None:
            return False
        try:
            await self._compare(fact, older)
        except ModelError as error:
            log.warning("judging_delayed", id=fact.id, reason=str(error))
            return False
        await self._ledger.judged(fact.id)
        return True

    async def _compare(self, fact: Record, older: list[Record]) -> None:
        try:
            verdicts = await self._judge.verdicts(fact, older) if older else []
        except ModelRefusedError as error:
            log.warning("fact_not_judged", id=fact.id, reason=str(error))
            return
        for record, verdict in zip(older, verdicts, strict=True):
            if verdict == "supports":
                await self._ledger.relate(fact.id, "supports", record.id)
            elif verdict == "replaces" and await self._ledger.retire(record, fact, agent=AGENT):
                log.info("fact_superseded", id=record.id, superseded_by=fact.id)
                await self._changes.replaced(record.id, fact)

    async def _nearest(self, fact: Record) -> list[Record] | None:
        """The older facts of the same owner that are closest; None while some have no vector."""
        same_place = Reach(
            caller=Caller(tenant=self._rows.tenant),
            weights=ALIKE,
            places=(place(self._rows.tenant, fact.scope, fact.owner, "fact"),),
        )
        return await self._retrieval.find(
            analyse(fact.content, fact.event_time),
            same_place,
            Filter.of(same_place, None, None),
            lambda _: None,
            partial(self._close, fact),
        )

    def _close(
        self, fact: Record, connection: Connection, found: Found, _: None
    ) -> list[Record] | None:
        if found.problem is not None or found.waiting:
            return None
        near = [
            (cosine, row)
            for row, cosine in zip(found.view.rows, found.cosines().tolist(), strict=True)
            if row < fact.row and cosine >= 1 - self._closeness.distance
        ]
        rows = [row for _, row in sorted(near, reverse=True)[: self._closeness.top_k]]
        asked = msgspec.json.encode(rows).decode()
        return list(map(record_of, self._rows.execute(connection, "records", rows=asked)))
