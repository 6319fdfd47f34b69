"""Finds what a consolidation would change of one place, by reading it a page at a time."""

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec
import structlog

from local.errors import ModelError
from local.ledger.door import Ledger
from local.ledger.search import Place
from local.ledger.upkeep import ActiveFact, Change
from local.memory.upkeep import decisions
from local.memory.upkeep.decisions import Limits, Survey
from local.memory.upkeep.supersession import Judge
from local.protocol.answers import LeftAlone
from local.protocol.envelope import Clock

PAGE = 200
"""Facts that are read, and compared, at once: 3 ms of each."""
REST = 2.0
"""The pause after a step, as a multiple of its time."""
PAIRS = 1_000
"""The most contradictions that are examined, the newest ones."""
JUDGED = 20
"""The most of these that a model is asked about, the newest ones."""

log = structlog.get_logger()

Pair = tuple[ActiveFact, ActiveFact]


async def rest(begun: float) -> None:
    """Pause longer than the work took, to leave the ledger to others."""
    await asyncio.sleep(REST * (time.monotonic() - begun))


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """A plan; `left` are contradictions that stay."""

    changes: list[Change]
    left: list[LeftAlone]


class Planner:
    """Plans for one tenant. It changes nothing."""

    def __init__(self, ledger: Ledger, share: float, clock: Clock, judge: Judge | None) -> None:
        self._ledger = ledger
        self._share = share
        self._clock = clock
        self._judge = judge

    async def plan(self, place: Place, room: int, watch: Callable[[int], None]) -> Plan:
        """Return all changes that a run makes in a place; `watch` gets the number of facts so far.

        Args:
            place: The owner of the facts.
            room: How many facts may be retired, whatever their share.
            watch: Called for every page.
        """
        now = self._clock()
        count = await self._ledger.upkeep.count(place)
        limits = Limits.of(count, self._share, room)
        survey = Survey(limits, now)
        pairs: list[Pair] = []
        after = 0
        while page := await self._ledger.upkeep.facts(place, after, PAGE):
            begun = time.monotonic()
            after = page[-1].row
            survey.add(page)
            watch(len(page))
            pairs = [*pairs, *await self._ledger.upkeep.contradictions(page)][-PAIRS:]
            await rest(begun)
        left: list[LeftAlone] = []
        replaced = await self._contradicted(pairs[::-1], left)
        replaced += await self._merged(survey, limits.retired)
        return Plan(changes=decisions.changes_of(survey, replaced, limits, now), left=left)

    async def _contradicted(self, pairs: Sequence[Pair], left: list[LeftAlone]) -> list[Change]:
        """Return the older one of contradicting facts, where there is no doubt."""
        replaced, judged = [], 0
        for one, other in pairs:
            newer, older = decisions.ordered(one, other)
            reason = decisions.obstacle(newer, older)
            if reason is None and not decisions.is_certain(newer, older):
                judged += 1
                reason = (
                    await self._doubt(newer, older) if judged <= JUDGED else "it was not judged"
                )
            if reason is None:
                replaced.append(decisions.contradicted(older, newer))
            else:
                left.append(LeftAlone(id=newer.id, contradicts=older.id, reason=reason))
        return replaced

    async def _doubt(self, newer: ActiveFact, older: ActiveFact) -> str | None:
        """Return why a model does not let the older fact go; None if it does."""
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
        """Return facts that are equal to another one."""
        changes: list[Change] = []
        for rows in survey.alike(PAGE):
            if len(changes) >= most:
                break
            begun = time.monotonic()
            for group in decisions.by_meaning(await self._ledger.upkeep.facts_at(rows)):
                best, *others = decisions.best_first(group)
                changes += [
                    decisions.merged(other, best)
                    for other in others
                    if await self._are_equal(other, best)
                ]
            await rest(begun)
        return changes

    async def _are_equal(self, one: ActiveFact, other: ActiveFact) -> bool:
        if decisions.same_words(one, other):
            return True
        cosine = await self._ledger.upkeep.cosine(one.row, other.row)
        return cosine is not None and cosine >= decisions.ALIKE
