"""Retires facts that newer ones contradict, after the newer ones have been acknowledged.

Facts wait in the ledger until they are judged, so a restart forgets none. While the model or the
vectors are missing they wait on; nothing is retired on a guess.
"""

import asyncio
from contextlib import suppress

import structlog

from local.errors import Local2Error, ModelError, ModelRefusedError
from local.ledger.door import Ledger
from local.ledger.records import Record
from local.ledger.search import Place, Search
from local.memory.changes import Changes
from local.memory.judge import Judge
from local.memory.recall.query import analyse
from local.memory.recall.retrieval import Closeness, Retrieval

AGENT = "contradiction_judge"
TOGETHER = 20
FIRST_RETRY = 0.2
LAST_RETRY = 60.0

log = structlog.get_logger()


class Supersession:
    """Judges new facts while `run` runs; `wake` it after each."""

    def __init__(
        self,
        ledger: Ledger,
        retrieval: Retrieval,
        changes: Changes,
        judge: Judge,
        closeness: Closeness,
    ) -> None:
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
        while facts := await self._ledger.facts.unjudged(TOGETHER, after=after):
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
        await self._ledger.facts.judged(fact.id)
        return True

    async def _compare(self, fact: Record, older: list[Record]) -> None:
        try:
            verdicts = await self._judge.verdicts(fact, older) if older else []
        except ModelRefusedError as error:
            log.warning("fact_not_judged", id=fact.id, reason=str(error))
            return
        for record, verdict in zip(older, verdicts, strict=True):
            if verdict == "supports":
                await self._ledger.facts.relate(fact.id, "supports", record.id)
            elif verdict == "replaces" and await self._ledger.facts.retire(
                record, fact, agent=AGENT
            ):
                log.info("fact_superseded", id=record.id, superseded_by=fact.id)
                await self._changes.replaced(record.id, fact)

    async def _nearest(self, fact: Record) -> list[Record] | None:
        """The older facts of the same owner that are closest; None while some have no vector."""
        query = analyse(fact.content, fact.event_time)
        search = Search(
            text=query.text,
            terms=query.terms,
            phrases=query.phrases,
            topics=query.topics,
            places=(Place(fact.scope, fact.owner, "fact"),),
        )
        return await self._retrieval.nearest(search, self._closeness, before=fact.row)
