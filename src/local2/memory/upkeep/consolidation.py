"""Consolidate facts: archive stale ones, merge duplicates, resolve contradictions.

It also raises the importance of facts that are recalled. `decisions` decides on every change. Each
is made in one transaction with its row of the audit trail, and a run can be undone. Reads and
writes are small, with pauses between them, so that others can use the ledger meanwhile.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from datetime import timedelta

import structlog

from local2.errors import Local2Error, OverloadedError, StorageError
from local2.ledger.door import Ledger
from local2.ledger.search import Place
from local2.ledger.upkeep import Actor, Change
from local2.memory.changes import Changes
from local2.memory.shown import AccessLog
from local2.memory.upkeep.planning import Planner, rest
from local2.memory.upkeep.supersession import Judge
from local2.protocol.envelope import Clock, new_id
from local2.protocol.maintenance import ConsolidationStatus
from local2.protocol.memory_tools import LeftAlone, NotDone
from local2.protocol.tool import report
from local2.settings import MemorySettings

NAME = "consolidation"
"""The agent in the audit trail."""
CHANGES_PER_TRANSACTION = 100
"""Number of changes per transaction."""
MAX_RETIRED = 1_000
"""Maximum number of facts that a run retires: in all places of a caller's request, or in each place
of a daily run."""
MAX_REFUSALS = 3
"""Number of batches or places refused by the ledger in a row that end a run: the ledger is at
fault, not the batches."""
MAX_REPORTED = 500
"""Maximum number of contradictions left alone, and of failed changes, that are reported."""
START_DELAY = 60.0
"""Seconds after a start in which no run begins, in favour of waiting users."""
CHECK_SECONDS = 600.0
"""Seconds between two checks whether a run is due. A machine may sleep, so no longer timer is
used."""

log = structlog.get_logger()


class Consolidated:
    """The changes that a run made or planned."""

    def __init__(self, run: str | None) -> None:
        self.run = run
        self.facts = 0
        self.changes: list[Change] = []
        self.changed = 0
        self.failed = 0
        self.left: list[LeftAlone] = []
        self.not_done: list[NotDone] = []
        self._refused = 0

    def add(self, changes: Sequence[Change], *, reported: bool) -> None:
        self._refused = 0 if changes else self._refused
        self.changed += len(changes)
        if reported:
            self.changes += changes

    def refused(self, error: StorageError) -> None:
        """Record a refusal of the ledger; raise it if there were several in a row."""
        self._refused += 1
        if self._refused == MAX_REFUSALS:
            raise error

    def fail(self, id_: str, reason: str) -> None:
        self.failed += 1
        self.skip(id_, reason)

    def skip(self, id_: str, reason: str) -> None:
        if len(self.not_done) < MAX_REPORTED:
            self.not_done.append(NotDone(id=id_, reason=reason))


class Consolidation:
    """Consolidates one tenant's facts."""

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        ledger: Ledger,
        changes: Changes,
        accesses: AccessLog,
        *,
        settings: MemorySettings,
        clock: Clock,
        judge: Judge | None = None,
    ) -> None:
        self._ledger = ledger
        self._changes = changes
        self._accesses = accesses
        self._every = timedelta(hours=settings.consolidation_hours)
        self._clock = clock
        self._planner = Planner(ledger, settings.consolidation_share, clock, judge)
        self._one_at_a_time = asyncio.Lock()
        self._looked_at = 0
        self._problem: str | None = None

    async def run(self) -> None:
        """Consolidate all facts in the configured interval until cancelled."""
        if not self._every:
            return
        await asyncio.sleep(START_DELAY)
        while True:
            try:
                if await self._is_due():
                    await self.everything()
                    self._problem = None
            except Local2Error as error:
                self._problem = str(error)
                log.warning("consolidation_delayed", reason=error.logged)
            except Exception as error:
                self._problem = type(error).__name__
                log.exception("consolidation_failed")
            await asyncio.sleep(CHECK_SECONDS)

    async def _is_due(self) -> bool:
        """Return whether a run is due. Failed runs count, since they may have made changes."""
        last = await self._ledger.upkeep.last_run(self._clock())
        if last is not None and last.ended_at is not None:
            self._problem = None
        return last is None or last.began_at + self._every <= self._clock()

    async def status(self) -> ConsolidationStatus | None:
        """Return the state of the last run and of one in progress; None if there was no run."""
        last = await self._ledger.upkeep.last_run(self._clock())
        under_way = self._one_at_a_time.locked()
        if last is None and not under_way and self._problem is None:
            return None
        return ConsolidationStatus(
            run=last.run if last else None,
            began_at=last.began_at if last else None,
            ended_at=last.ended_at if last else None,
            changed=last.changed if last else 0,
            failed=last.failed if last else 0,
            under_way=under_way,
            looked_at=self._looked_at if under_way else 0,
            problem=self._problem,
        )

    async def everything(self) -> Consolidated:
        """Consolidate every place that has facts.

        Raises:
            StorageError: The ledger cannot be read or written; changes made so far remain.
        """
        actor = Actor(agent=NAME, run=new_id())
        async with self._one_at_a_time:
            await self._ledger.upkeep.begin(str(actor.run), self._clock())
            done = Consolidated(actor.run)
            await self._consolidate(self._every_place(), done, actor, reported=False)
            await self._ledger.upkeep.end(
                str(actor.run), self._clock(), changed=done.changed, failed=done.failed
            )
        log.info("consolidated", run=done.run, changed=done.changed, failed=done.failed)
        return done

    async def of_places(
        self, places: Sequence[Place], actor: Actor, *, dry_run: bool
    ) -> Consolidated:
        """Consolidate the facts of some places, or only return the changes of a dry run.

        Raises:
            StorageError: The ledger cannot be read or written; changes made so far remain.
            OverloadedError: Another run is in progress, which may take minutes.
        """
        if self._one_at_a_time.locked():
            raise OverloadedError
        async with self._one_at_a_time:
            done = Consolidated(None if dry_run else actor.run)
            await self._consolidate(_each(places), done, actor, reported=True)
        return done

    async def _consolidate(
        self, places: AsyncIterator[Place], done: Consolidated, actor: Actor, *, reported: bool
    ) -> None:
        self._looked_at = 0
        await self._accesses.write()
        async for place in places:
            await self._place(place, done, actor, reported=reported)
            await report(self._looked_at)
        done.facts = self._looked_at

    def _count_facts(self, facts: int) -> None:
        self._looked_at += facts

    async def _every_place(self) -> AsyncIterator[Place]:
        place = await self._ledger.upkeep.next_place(None)
        while place is not None:
            yield place
            place = await self._ledger.upkeep.next_place(place)

    async def _place(
        self, place: Place, done: Consolidated, actor: Actor, *, reported: bool
    ) -> None:
        """Plan the changes of one place, and make them. A place that fails is skipped."""
        retired = sum(change.action != "importance" for change in done.changes)
        try:
            plan = await self._planner.plan(place, MAX_RETIRED - retired, self._count_facts)
        except Exception as error:
            log.exception("place_not_consolidated", scope=place.scope)
            done.fail("", f"The facts of scope {place.scope} could not be looked at.")
            if isinstance(error, StorageError):
                done.refused(error)
            return
        done.left = [*done.left, *plan.left][:MAX_REPORTED]
        if done.run is None:
            done.add(plan.changes, reported=reported)
            return
        for start in range(0, len(plan.changes), CHANGES_PER_TRANSACTION):
            batch = plan.changes[start : start + CHANGES_PER_TRANSACTION]
            done.add(await self._carry_out(batch, done, actor), reported=reported)

    async def _carry_out(
        self, batch: Sequence[Change], done: Consolidated, actor: Actor
    ) -> list[Change]:
        """Make and announce the changes of a batch; return those that were made."""
        begun = time.monotonic()
        failures: list[Exception] = []
        made = await self._attempt(batch, done, actor, failures)
        self._changes.retired([change for change in made if change.action != "importance"])
        if len(failures) == len(batch) and isinstance(failures[0], StorageError):
            done.refused(failures[0])
        await rest(begun)
        return made

    async def _attempt(
        self,
        batch: Sequence[Change],
        done: Consolidated,
        actor: Actor,
        failures: list[Exception],
    ) -> list[Change]:
        """Make changes in one transaction. If it fails, halve it until the faulty one is found."""
        try:
            made = await self._ledger.upkeep.carry_out(batch, actor)
        except Exception as error:
            if len(batch) > 1:
                half = len(batch) // 2
                first = await self._attempt(batch[:half], done, actor, failures)
                return first + await self._attempt(batch[half:], done, actor, failures)
            failures.append(error)
            trace = None if isinstance(error, Local2Error) else error
            reason = error.logged if isinstance(error, Local2Error) else type(error).__name__
            log.warning("change_set_aside", id=batch[0].fact.id, reason=reason, exc_info=trace)
            done.fail(batch[0].fact.id, "it failed; the log says why")
            return []
        outcomes = list(zip(batch, made, strict=True))
        for change in (change for change, was_made in outcomes if not was_made):
            done.skip(change.fact.id, "it changed meanwhile")
        return [change for change, was_made in outcomes if was_made]


async def _each(places: Sequence[Place]) -> AsyncIterator[Place]:
    for place in places:
        yield place
