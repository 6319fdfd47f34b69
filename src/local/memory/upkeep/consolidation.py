"""Keeps facts in order: archives what is stale, merges duplicates, resolves contradictions.

And lets what is recalled matter more. Every change is decided by `decisions` before it is made, is
made with its row of the audit in one transaction, and can be undone with the rest of its run. Small
reads and writes with pauses leave the ledger to others meanwhile.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Sequence
from datetime import datetime, timedelta

import structlog

from local.errors import Local2Error, ModelError, StorageError
from local.ledger.door import Ledger
from local.ledger.search import Place
from local.ledger.upkeep import ActiveFact, Actor, Change
from local.memory.changes import Changes
from local.memory.upkeep import decisions
from local.memory.upkeep.access import AccessLog
from local.memory.upkeep.decisions import Limits, Survey
from local.memory.upkeep.supersession import Judge
from local.protocol.envelope import new_id
from local.protocol.upkeep import ConsolidationStatus, LeftAlone, NotDone
from local.settings import MemorySettings

NAME = "consolidation"
PAGE = 200
"""Facts that are read, and looked at, at once: 3 ms of each."""
TOGETHER = 100
"""Changes of one transaction."""
MOST = 1_000
"""Facts that one run retires at most, of a caller's scopes together or else of each place."""
JUDGED = 20
"""Contradictions of a place that a model is asked about."""
REFUSED = 3
"""Batches or places in a row that the ledger refuses: it is not their fault, and a run ends."""
SHOWN = 500
"""Of what was left alone or not done, so much is reported."""
SETTLING = 60.0
"""Seconds after a start that belong to those who wait for it."""
LOOK_AGAIN = 600.0
"""Seconds until the time is looked at again: a machine may sleep."""

log = structlog.get_logger()


class Consolidated:
    """What a run did, or would do."""

    def __init__(self, run: str | None) -> None:
        self.run = run
        self.facts = 0
        self.changes: list[Change] = []
        self.changed = 0
        self.failed = 0
        self.left: list[LeftAlone] = []
        self.not_done: list[NotDone] = []
        self._refused = 0

    def made(self, changes: Sequence[Change], *, reported: bool) -> None:
        self._refused = 0 if changes else self._refused
        self.changed += len(changes)
        if reported:
            self.changes += changes

    def refused(self, error: StorageError) -> None:
        """The ledger did not do what it was asked: again and again, and the run ends."""
        self._refused += 1
        if self._refused == REFUSED:
            raise error

    def fail(self, id_: str, reason: str) -> None:
        self.failed += 1
        self.skip(id_, reason)

    def skip(self, id_: str, reason: str) -> None:
        if len(self.not_done) < SHOWN:
            self.not_done.append(NotDone(id=id_, reason=reason))

    def leave(self, one: ActiveFact, other: ActiveFact, reason: str) -> None:
        if len(self.left) < SHOWN:
            self.left.append(LeftAlone(id=one.id, contradicts=other.id, reason=reason))


class Consolidation:
    """One tenant's."""

    def __init__(  # noqa: PLR0913 - what it works with
        self,
        ledger: Ledger,
        changes: Changes,
        accesses: AccessLog,
        *,
        settings: MemorySettings,
        clock: Callable[[], datetime],
        judge: Judge | None = None,
    ) -> None:
        self._ledger = ledger
        self._changes = changes
        self._accesses = accesses
        self._every = timedelta(hours=settings.consolidation_hours)
        self._share = settings.consolidation_share
        self._clock = clock
        self._judge = judge
        self._one_at_a_time = asyncio.Lock()
        self._looked_at = 0
        self._problem: str | None = None

    async def run(self) -> None:
        """Consolidate everything every so many hours, until cancelled."""
        if not self._every:
            return
        await asyncio.sleep(SETTLING)
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
            await asyncio.sleep(LOOK_AGAIN)

    async def _is_due(self) -> bool:
        last = await self._ledger.upkeep.last_run()
        return last is None or last.began_at + self._every <= self._clock()

    async def status(self) -> ConsolidationStatus | None:
        """The last run of everything, and whether one is under way; None if there was none."""
        last = await self._ledger.upkeep.last_run()
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
            StorageError: The ledger cannot be read or written; what was changed stays changed.
        """
        done = await self._consolidate(None, Actor(agent=NAME, run=new_id()), dry_run=False)
        log.info("consolidated", run=done.run, changed=done.changed, failed=done.failed)
        return done

    async def of_places(
        self, places: Sequence[Place], actor: Actor, *, dry_run: bool
    ) -> Consolidated:
        """Consolidate the facts of some places, or only say what would be changed.

        Raises:
            StorageError: The ledger cannot be read or written; what was changed stays changed.
        """
        return await self._consolidate(places, actor, dry_run=dry_run)

    async def _consolidate(
        self, places: Sequence[Place] | None, actor: Actor, *, dry_run: bool
    ) -> Consolidated:
        async with self._one_at_a_time:
            self._looked_at = 0
            await self._accesses.write()
            done = Consolidated(None if dry_run else actor.run)
            if done.run is not None:
                whole = places is None
                await self._ledger.upkeep.begin(done.run, self._clock(), whole=whole)
            async for place in self._every_place() if places is None else _each(places):
                await self._place(place, done, actor, reported=places is not None)
            if done.run is not None:
                await self._ledger.upkeep.end(
                    done.run, self._clock(), changed=done.changed, failed=done.failed
                )
            return done

    async def _every_place(self) -> AsyncIterator[Place]:
        place = await self._ledger.upkeep.next_place(None)
        while place is not None:
            yield place
            place = await self._ledger.upkeep.next_place(place)

    async def _place(
        self, place: Place, done: Consolidated, actor: Actor, *, reported: bool
    ) -> None:
        """Plan the changes of one place, and make them; a place that fails is set aside."""
        retired = sum(change.action != "importance" for change in done.changes)
        try:
            planned = await self._plan(place, done, MOST - retired)
        except Exception as error:
            log.exception("place_not_consolidated", scope=place.scope)
            done.fail("", f"The facts of scope {place.scope} could not be looked at.")
            if isinstance(error, StorageError):
                done.refused(error)
            return
        if done.run is None:
            done.made(planned, reported=reported)
            return
        for start in range(0, len(planned), TOGETHER):
            batch = planned[start : start + TOGETHER]
            done.made(await self._carry_out(batch, done, actor), reported=reported)

    async def _plan(self, place: Place, done: Consolidated, room: int) -> list[Change]:
        """What is to be changed in one place: the run does no less and no more."""
        now = self._clock()
        count = await self._ledger.upkeep.count(place)
        limits = Limits.of(count, self._share, room)
        survey = Survey(limits, now)
        contradicting: list[tuple[ActiveFact, ActiveFact]] = []
        after = 0
        while page := await self._ledger.upkeep.facts(place, after, PAGE):
            begun = time.monotonic()
            after = page[-1].row
            survey.add(page)
            self._looked_at += len(page)
            if len(contradicting) < MOST:
                contradicting += await self._ledger.upkeep.contradictions(page)
            await asyncio.sleep(time.monotonic() - begun)
        done.facts += survey.facts
        replaced = await self._contradicted(contradicting, done)
        replaced += await self._merged(survey, limits.retired)
        return decisions.changes_of(survey, replaced, limits, now)

    async def _contradicted(
        self, pairs: Sequence[tuple[ActiveFact, ActiveFact]], done: Consolidated
    ) -> list[Change]:
        """Of facts that contradict each other the older one, where there is no doubt."""
        replaced, judged = [], 0
        for one, other in pairs:
            newer, older = decisions.ordered(one, other)
            reason = decisions.obstacle(newer, older)
            if reason is None and not decisions.is_certain(newer, older):
                judged += 1
                reason = await self._doubt(newer, older) if judged <= JUDGED else "nobody judged it"
            if reason is None:
                replaced.append(decisions.contradicted(older, newer))
            else:
                done.leave(newer, older, reason)
        return replaced

    async def _doubt(self, newer: ActiveFact, older: ActiveFact) -> str | None:
        """Why a model does not let the older fact go; None if it does."""
        if self._judge is None:
            return "it is not certain, and no model is there to judge"
        records = {one.row: one for one in await self._ledger.records.at([newer.row, older.row])}
        try:
            verdicts = await self._judge.verdicts(records[newer.row], [records[older.row]])
        except ModelError as error:
            log.warning("contradiction_not_judged", id=newer.id, reason=error.logged)
            return "no model could judge"
        return None if verdicts == ["replaces"] else "a model judged that both may hold"

    async def _merged(self, survey: Survey, most: int) -> list[Change]:
        """Facts that say what another one says."""
        changes: list[Change] = []
        for rows in survey.alike():
            if len(changes) >= most:
                break
            for group in decisions.by_meaning(await self._ledger.upkeep.facts_at(rows)):
                best, *others = decisions.best_first(group)
                changes += [
                    decisions.merged(other, best)
                    for other in others
                    if await self._say_the_same(other, best)
                ]
        return changes

    async def _say_the_same(self, one: ActiveFact, other: ActiveFact) -> bool:
        if decisions.same_words(one, other):
            return True
        cosine = await self._ledger.upkeep.cosine(one.row, other.row)
        return cosine is not None and cosine >= decisions.ALIKE

    async def _carry_out(
        self, batch: Sequence[Change], done: Consolidated, actor: Actor
    ) -> list[Change]:
        """Make the changes of a batch, and tell of them; returns those that were made."""
        begun = time.monotonic()
        failures: list[Exception] = []
        made = await self._attempt(batch, done, actor, failures)
        await self._changes.retired([change for change in made if change.action != "importance"])
        if len(failures) == len(batch) and isinstance(failures[0], StorageError):
            done.refused(failures[0])
        await asyncio.sleep(time.monotonic() - begun)
        return made

    async def _attempt(
        self,
        batch: Sequence[Change],
        done: Consolidated,
        actor: Actor,
        failures: list[Exception],
    ) -> list[Change]:
        """Make changes together; those that fail are halved until the one at fault is set aside."""
        try:
            made = await self._ledger.upkeep.carry_out(batch, actor)
        except Exception as error:
            if len(batch) > 1:
                half = len(batch) // 2
                first = await self._attempt(batch[:half], done, actor, failures)
                return first + await self._attempt(batch[half:], done, actor, failures)
            failures.append(error)
            log.exception("change_set_aside", id=batch[0].fact.id, action=batch[0].action)
            done.fail(batch[0].fact.id, "it failed; the log says why")
            return []
        both = list(zip(batch, made, strict=True))
        for change in (change for change, was_made in both if not was_made):
            done.skip(change.fact.id, "it changed meanwhile")
        return [change for change, was_made in both if was_made]


async def _each(places: Sequence[Place]) -> AsyncIterator[Place]:
    for place in places:
        yield place
