"""Plan the changes of a consolidation in one place, reading its facts page by page."""

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec
import structlog

from local2.errors import ModelError
from local2.ledger.door import Ledger
from local2.ledger.search import Place
from local2.ledger.upkeep import ActiveFact, Change
from local2.memory.upkeep import decisions
from local2.memory.upkeep.decisions import Limits, Survey
from local2.memory.upkeep.supersession import Judge
from local2.protocol.envelope import Clock
from local2.protocol.memory_tools import LeftAlone

PAGE = 200
"""Number of facts that are read and compared in one step. Reading and comparing take about 3 ms
each."""
PAUSE_FACTOR = 2.0
"""Length of the pause after a step, as a multiple of the step's duration."""
MAX_PAIRS = 1_000
"""Maximum number of contradictions that are examined, the newest ones."""
MAX_JUDGED = 20
"""Maximum number of contradictions that a model judges, the newest ones."""

log = structlog.get_logger()

Pair = tuple[ActiveFact, ActiveFact]


async def rest(begun: float) -> None:
    """Pause longer than the work since `begun` took, so that others can use the ledger."""
    await asyncio.sleep(PAUSE_FACTOR * (time.monotonic() - begun))


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """The planned changes, and `left`: contradictions that stay."""

    changes: list[Change]
    left: list[LeftAlone]


class Planner:
    """Plans the changes to one tenant's facts. It changes nothing itself."""

    def __init__(self, ledger: Ledger, share: float, clock: Clock, judge: Judge | None) -> None:
        self._ledger = ledger
        self._share = share
        self._clock = clock
        self._judge = judge

    async def plan(self, place: Place, room: int, watch: Callable[[int], None]) -> Plan:
        """Return all changes that a run makes in a place.

        Args:
            place: The place of the facts.
            room: The number of facts that the run may still retire.
            watch: Called with the number of facts of each page.
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
            pairs = [*pairs, *await self._ledger.upkeep.contradictions(page)][-MAX_PAIRS:]
            await rest(begun)
        left: list[LeftAlone] = []
        replaced = await self._resolve_contradictions(pairs[::-1], left)
        replaced += await self._merge_duplicates(survey, limits.retired)
        return Plan(changes=decisions.changes_of(survey, replaced, limits, now), left=left)

    async def _resolve_contradictions(
        self, pairs: Sequence[Pair], left: list[LeftAlone]
    ) -> list[Change]:
        """Retire the older fact of each contradiction, unless there is a doubt; see `left`."""
        replaced, judged = [], 0
        for one, other in pairs:
            newer, older = decisions.newer_first(one, other)
            reason = decisions.reason_to_keep(newer, older)
            if reason is None and not decisions.is_certain(newer, older):
                judged += 1
                reason = (
                    await self._doubt(newer, older) if judged <= MAX_JUDGED else "it was not judged"
                )
            if reason is None:
                replaced.append(decisions.contradiction_change(older, newer))
            else:
                left.append(LeftAlone(id=newer.id, contradicts=older.id, reason=reason))
        return replaced

    async def _doubt(self, newer: ActiveFact, older: ActiveFact) -> str | None:
        """Return the reason why a model does not retire the older fact, or None if it does."""
        if self._judge is None:
            return "it is not certain, and no model is configured to judge"
        records = {one.row: one for one in await self._ledger.records.at([newer.row, older.row])}
        try:
            verdicts = await self._judge.verdicts(records[newer.row], [records[older.row]])
        except ModelError as error:
            log.warning("contradiction_not_judged", id=newer.id, reason=error.logged)
            return "no model could judge"
        return None if verdicts == ["replaces"] else "a model judged that both may hold"

    async def _merge_duplicates(self, survey: Survey, limit: int) -> list[Change]:
        """Merge facts that are equal to another one."""
        changes: list[Change] = []
        for rows in survey.equal_groups(PAGE):
            if len(changes) >= limit:
                break
            begun = time.monotonic()
            for group in decisions.merge_groups(await self._ledger.upkeep.facts_at(rows)):
                best, *others = decisions.best_first(group)
                changes += [
                    decisions.merge_change(other, best)
                    for other in others
                    if await self._are_equal(other, best)
                ]
            await rest(begun)
        return changes

    async def _are_equal(self, one: ActiveFact, other: ActiveFact) -> bool:
        if decisions.same_words(one, other):
            return True
        cosine = await self._ledger.upkeep.cosine(one.row, other.row)
        return cosine is not None and cosine >= decisions.EQUAL_COSINE
