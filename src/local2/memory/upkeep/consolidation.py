"""Consolidate facts: archive stale ones, merge those that say the same, resolve contradictions.

It also raises the importance of facts that are recalled. Pure functions decide on every change; in
doubt, a fact stays as it is. Each change is made in one transaction with its row of the audit
trail, and a run can be undone. Reads and writes are small, with pauses between them, so that others
can use the ledger meanwhile.
"""

import asyncio
import math
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from heapq import nlargest, nsmallest

import msgspec
import numpy as np
import structlog

from local2.errors import Local2Error, ModelError, OverloadedError, StorageError
from local2.language.paraphrases import are_paraphrases, paraphrase_key
from local2.language.statements import differ_in_one_value
from local2.language.words import bare_words
from local2.ledger.ledger import Ledger
from local2.ledger.operations.upkeep import ActiveFact, Change, VectorsByEmbedder
from local2.ledger.records import SOURCE_STRENGTH, Actor
from local2.ledger.search import Place
from local2.memory.access_log import AccessLog
from local2.memory.changes import Changes
from local2.memory.recall.tuning import FADING
from local2.memory.upkeep.supersession import Judge
from local2.protocol.envelope import Clock, new_id
from local2.protocol.maintenance import ConsolidationStatus
from local2.protocol.memories import ACCUMULATING
from local2.protocol.memory_tools import LeftAlone, NotDone
from local2.protocol.tool import report
from local2.settings import MemorySettings
from local2.vectors.embedder import known

NAME = "consolidation"
"""The agent in the audit trail."""

MAX_STALE_IMPORTANCE = 0.5
"""Maximum importance of a fact that may be archived."""
STALE_VIVIDNESS = 0.1
"""Vividness below which a fact is stale."""
LASTING = frozenset({"instruction", "preference"})
"""Types of facts that stay valid until they are replaced, regardless of their age."""
MIN_COSINE = 0.75
"""Minimum cosine of two texts that say the same in other words, rescaled from the embedder's floor.
Antonyms reach .95: words decide, and vectors confirm."""
MAX_KEPT = 5
"""Maximum number of facts with one merge key that others are compared with."""
MIN_RETIRED = 2
"""Number of facts that a run may retire in favour of others in any place: three ways to say
something become one."""
RECALL_GAIN, MAX_RECALLS = 0.02, 5
"""What each recall adds to the importance, and how many recalls count per run."""
MAX_RAISED = 0.75
"""Maximum importance through recalls, so that no fact becomes a top memory by being recalled."""
DAY = 86_400.0

PAGE = 200
"""Number of facts that are read and compared in one step. Reading and comparing take about 3 ms
each."""
PAUSE_FACTOR = 2.0
"""Length of the pause after a step, as a multiple of the step's duration."""
MAX_PAIRS = 1_000
"""Maximum number of contradictions that are examined, the newest ones."""
MAX_JUDGED = 20
"""Maximum number of contradictions that a model judges, the newest ones."""
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
UNDER_WAY, RETRY_AFTER = "Facts are already being consolidated; nothing was done.", 10.0
"""What a request is told meanwhile, and the seconds after which it may try again: a run of a few
facts takes less, one of all facts minutes."""

log = structlog.get_logger()

Pair = tuple[ActiveFact, ActiveFact]


def vividness(fact: ActiveFact, now: datetime) -> float:
    """The importance, halved per half-life since the fact was stated or last recalled."""
    if fact.durability not in FADING:
        return 1.0
    _, half_life = FADING[fact.durability]
    since = max(fact.event_time, fact.recalled_at or fact.event_time)
    days = max((now - since).total_seconds() / DAY, 0.0)
    return fact.importance * math.exp2(-days / half_life)


def is_stale(fact: ActiveFact, now: datetime) -> bool:
    """Whether a fact was extracted or meant to be short-lived, and has faded.

    Instructions and preferences are never stale, nor are facts that somebody stored with a key.
    """
    short_lived = fact.extracted or (fact.durability == "ephemeral" and fact.topic is None)
    return (
        short_lived
        and fact.memory_type not in LASTING
        and fact.importance <= MAX_STALE_IMPORTANCE
        and vividness(fact, now) < STALE_VIVIDNESS
    )


def raised_importance(fact: ActiveFact) -> float | None:
    """The importance of a fact after its recalls, or None if it does not change."""
    if fact.durability == "core" or not fact.recalls or fact.importance >= MAX_RAISED:
        return None
    return min(round(fact.importance + RECALL_GAIN * min(fact.recalls, MAX_RECALLS), 4), MAX_RAISED)


def principal(fact: ActiveFact) -> tuple[str, str] | None:
    """Who stated a fact: the user if there is one, else the agent; None if unknown."""
    if fact.stated_by is None:
        return None
    return fact.stated_by, "" if fact.stated_by else fact.agent or ""


MergeKey = tuple[object, ...]


def merge_key(fact: ActiveFact) -> MergeKey | None:
    """A key that is equal for facts of one place, principal and type that may say the same.

    None for facts that are never merged: core facts, those that accumulate, and those without words
    or a known principal.
    """
    who = principal(fact)
    words = paraphrase_key(fact.content, fact.stated_by)
    if who is None or not words or fact.durability == "core" or fact.memory_type in ACCUMULATING:
        return None
    session = fact.session_id if fact.scope == "session" else None
    asks = fact.content.rstrip().endswith("?")
    return (fact.place, who, fact.memory_type, session, asks, words)


def best_first(facts: Iterable[ActiveFact]) -> list[ActiveFact]:
    """Order facts that may say the same: the one that stays, then those that may be merged into it.

    It has a key, if one does; else it is of the strongest source, and the newest.
    """
    best, *others = sorted(
        facts,
        key=lambda f: (f.topic is not None, SOURCE_STRENGTH[f.source_class], f.event_time, f.row),
        reverse=True,
    )
    strength = SOURCE_STRENGTH[best.source_class]
    return [
        best,
        *(
            fact
            for fact in others
            if fact.topic is None and SOURCE_STRENGTH[fact.source_class] <= strength
        ),
    ]


def reason_to_merge(fact: ActiveFact, best: ActiveFact, cosine: float | None) -> str | None:
    """Say why a fact may be merged into one that stays; None if it says something else.

    `cosine`: of both, rescaled from the embedder's floor; None if their vectors cannot be compared.
    """
    if bare_words(fact.content) == bare_words(best.content):
        return "it says the same as the fact that stays"
    if (
        cosine is not None
        and cosine >= MIN_COSINE
        and fact.source_class == best.source_class
        and fact.importance <= max(best.importance, MAX_RAISED)  # a top memory stays one
        and are_paraphrases(fact.content, best.content, best.stated_by)
    ):
        return "it is another wording of the fact that stays"
    return None


def merges(
    group: Sequence[ActiveFact], vectors: Mapping[int, VectorsByEmbedder], floor: float | None
) -> Iterator[Change]:
    """Yield the merges of facts that may say the same; those that do not stay side by side.

    `floor`: of cosines; None means the embedder's.
    """

    def cosine(fact: ActiveFact, best: ActiveFact) -> float | None:
        one, other = vectors.get(fact.row, {}), vectors.get(best.row, {})
        for embedder in one.keys() & other.keys():
            least = known(embedder).floor if floor is None else floor
            return (float(np.dot(one[embedder], other[embedder])) - least) / (1 - least)
        return None

    left = group
    for _ in range(MAX_KEPT):
        if len(left) < 2:  # noqa: PLR2004 - a pair
            return
        best, *others = best_first(left)
        gone = {best.row}
        for fact in others:
            if reason := reason_to_merge(fact, best, cosine(fact, best)):
                gone.add(fact.row)
                yield Change(action="merged", fact=fact, reason=reason, superseded_by=best.id)
        left = [fact for fact in left if fact.row not in gone]


def newer_first(one: ActiveFact, other: ActiveFact) -> tuple[ActiveFact, ActiveFact]:
    """Order two facts by when they were stated: the newer, the older."""
    newer, older = sorted((one, other), key=lambda f: (f.event_time, f.row), reverse=True)
    return newer, older


def reason_to_keep(newer: ActiveFact, older: ActiveFact) -> str | None:
    """Say why a fact must not retire one that it contradicts; None if it may."""
    reasons = {
        "they belong to different scopes": newer.place != older.place
        or (newer.scope == "session" and newer.session_id != older.session_id),
        "it is core": older.durability == "core",
        "they were not stated by the same user": principal(newer) is None
        or principal(newer) != principal(older),
        "the newer one comes from a weaker source": SOURCE_STRENGTH[newer.source_class]
        < SOURCE_STRENGTH[older.source_class],
        "neither is clearly the newer one": newer.event_time <= older.event_time
        or newer.row <= older.row,
        "what happened remains true": {newer.memory_type, older.memory_type} & ACCUMULATING,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def is_certain(newer: ActiveFact, older: ActiveFact) -> bool:
    """Whether two facts have the same key, or are one sentence with different values."""
    if newer.topic is not None and newer.topic == older.topic:
        return True
    return differ_in_one_value(newer.content, older.content)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The maximum number of facts in a place that a run may retire, and archive.

    Archiving leaves nothing behind, so in small places nothing is archived; `MIN_RETIRED` facts may
    always be merged or replaced. The number of changed importances has the same limit as `retired`.
    """

    retired: int
    archived: int

    @classmethod
    def for_facts(cls, facts: int, share: float, room: int) -> "Limits":
        """Compute the limits for a fraction of the facts. `room`: the run's remaining changes."""
        allowed = int(facts * share)
        minimum = MIN_RETIRED if share else 0
        return cls(retired=min(max(allowed, minimum), room), archived=min(allowed, room))


class Survey:
    """Collects what may change in a place, in one pass and with little memory per fact."""

    def __init__(self, limits: Limits, now: datetime) -> None:
        self._limits = limits
        self._now = now
        self._rows_by_key: dict[int, int | list[int]] = {}
        """The rows of possibly equal facts. Most are alone, which needs no list and less memory."""
        self._stale: list[ActiveFact] = []
        self._recalled: list[ActiveFact] = []

    def add_page(self, page: Sequence[ActiveFact]) -> None:
        self._stale += [fact for fact in page if is_stale(fact, self._now)]
        if len(self._stale) > 2 * self._limits.archived:  # not after each page: it would take most
            self._stale = self.most_faded()
        self._recalled += [fact for fact in page if raised_importance(fact) is not None]
        if len(self._recalled) > 2 * self._limits.retired:
            self._recalled = self.most_recalled()
        for fact in page:
            if (merging := merge_key(fact)) is not None:
                key = hash(merging)
                known = self._rows_by_key.setdefault(key, fact.row)
                if isinstance(known, list):
                    known.append(fact.row)
                elif known != fact.row:
                    self._rows_by_key[key] = [known, fact.row]

    def most_faded(self) -> list[ActiveFact]:
        """The stale facts that may be archived, the most faded first."""
        return nsmallest(
            self._limits.archived, self._stale, key=lambda fact: vividness(fact, self._now)
        )

    def most_recalled(self) -> list[ActiveFact]:
        """The facts whose importance may rise, the most recalled first."""
        return nlargest(self._limits.retired, self._recalled, key=lambda fact: fact.recalls)

    def equal_groups(self, together: int) -> Iterator[list[int]]:
        """Yield the newest rows of groups of possibly equal facts, about `together` at a time."""
        batch: list[int] = []
        for rows in self._rows_by_key.values():
            if isinstance(rows, list):
                batch += rows[-together:]
            if len(batch) >= together:
                yield batch
                batch = []
        if batch:
            yield batch


def select_changes(
    survey: Survey, replaced: Sequence[Change], limits: Limits, now: datetime
) -> list[Change]:
    """Select the changes of one run: replaced facts first, then archived ones, then importances.

    A fact is changed once at most, and never retired if another one was merged into it or replaced
    by it.
    """
    selected: list[Change] = []
    changed: set[str] = set()
    stays: set[str] = set()

    def select(changes: Iterable[Change], limit: int) -> None:
        for change in changes:
            if limit <= 0:
                return
            must_stay = change.action != "importance" and change.fact.id in stays
            if not must_stay and not {change.fact.id, change.superseded_by} & changed:
                selected.append(change)
                changed.add(change.fact.id)
                stays.add(change.superseded_by)
                limit -= 1

    def archive(fact: ActiveFact) -> Change:
        since = max(fact.event_time, fact.recalled_at or fact.event_time)
        event = "recalled" if fact.recalled_at == since else "stated"
        reason = (
            f"its importance is {fact.importance:.2f}, and it was last {event} "
            f"{(now - since).days} days ago"
        )
        return Change(action="archived", fact=fact, reason=reason)

    def raise_importance(fact: ActiveFact) -> Change:
        times = "once" if fact.recalls == 1 else f"{fact.recalls} times"
        return Change(
            action="importance",
            fact=fact,
            reason=f"it was recalled {times} since",
            importance=raised_importance(fact),
        )

    select(replaced, limits.retired)
    select(map(archive, survey.most_faded()), min(limits.archived, limits.retired - len(selected)))
    select(map(raise_importance, survey.most_recalled()), limits.retired)
    return selected


class Consolidated:
    """The changes that a run made or planned. `run`: None if it only plans.

    `is_daily`: it is of all facts, and nobody waits for a report: changes are counted only.
    """

    def __init__(self, run: str | None, *, is_daily: bool = False) -> None:
        self.run = run
        self.facts = 0
        self.changes: list[Change] = []
        self.changed = 0
        self.failed = 0
        self.left: list[LeftAlone] = []
        self.not_done: list[NotDone] = []
        self._is_daily = is_daily
        self._refused = 0

    @property
    def room(self) -> int:
        """The number of facts that the run may retire in the next place."""
        if self._is_daily:
            return MAX_RETIRED
        return MAX_RETIRED - sum(change.action != "importance" for change in self.changes)

    def add_changes(self, changes: Sequence[Change]) -> None:
        self._refused = 0 if changes else self._refused
        self.changed += len(changes)
        if not self._is_daily:
            self.changes += changes

    def count_refusal(self, error: StorageError) -> None:
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

    def __init__(
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
        self.hours = settings.consolidation_hours
        """How often one begins by itself; 0: never."""
        self._share = settings.consolidation_share
        self._floor = settings.cosine_floor
        self._clock = clock
        self._judge = judge
        self._one_at_a_time = asyncio.Lock()
        self._current = Consolidated(None)
        """The run in progress, else the last one."""
        self._problem: str | None = None

    async def run(self) -> None:
        """Consolidate all facts in the configured interval until cancelled."""
        if not self.hours:
            return
        await asyncio.sleep(START_DELAY)
        while True:
            try:
                await self.run_once()
            except OverloadedError:
                log.info("consolidation_left_to_another_stack")
            except Local2Error as error:
                self._problem = str(error)
                log.warning("consolidation_delayed", reason=error.logged)
            except Exception as error:
                self._problem = type(error).__name__
                log.exception("consolidation_failed")
            await asyncio.sleep(CHECK_SECONDS)

    async def run_once(self) -> Consolidated | None:
        """Consolidate every place that has facts, if the last run is long enough ago.

        Raises:
            StorageError: The ledger cannot be read or written; changes made so far remain.
            OverloadedError: Another stack runs.
        """
        if not await self._is_due():
            return None
        async with self._alone():
            if not await self._is_due():  # another stack has just done it
                return None
            run = new_id()
            done = self._current = Consolidated(run, is_daily=True)
            await self._ledger.upkeep.begin(run, self._clock())
            await self._accesses.write()
            place = await self._ledger.upkeep.next_place(None)
            while place is not None:
                await self._consolidate_place(place, done, Actor(agent=NAME, run=run))
                place = await self._ledger.upkeep.next_place(place)
            await self._ledger.upkeep.end(
                run, self._clock(), changed=done.changed, failed=done.failed
            )
            self._problem = None
        log.info("consolidated", run=done.run, changed=done.changed, failed=done.failed)
        return done

    async def consolidate_places(
        self, places: Sequence[Place], actor: Actor, *, dry_run: bool
    ) -> Consolidated:
        """Consolidate the facts of some places, or only return the changes of a dry run.

        Raises:
            StorageError: The ledger cannot be read or written; changes made so far remain.
            OverloadedError: Another run is in progress, which may take minutes.
        """
        if self._one_at_a_time.locked():
            raise OverloadedError(UNDER_WAY, retry_after=RETRY_AFTER)
        async with self._alone():
            done = self._current = Consolidated(None if dry_run else actor.run)
            await self._accesses.write()
            for place in places:
                await self._consolidate_place(place, done, actor)
                await report(done.facts)
        return done

    async def status(self) -> ConsolidationStatus | None:
        """Tell the state of the last run and of one in progress; None if there was no run."""
        last = await self._ledger.upkeep.last_run(self._clock())
        under_way = self._one_at_a_time.locked()
        if last is None and not under_way and self._problem is None:
            return None
        return ConsolidationStatus(
            **(msgspec.structs.asdict(last) if last else {}),
            under_way=under_way,
            looked_at=self._current.facts if under_way else 0,
            problem=self._problem,
        )

    async def _is_due(self) -> bool:
        """Whether the last run is long enough ago; one that failed counts, for what it changed."""
        last = await self._ledger.upkeep.last_run(self._clock())
        if last is not None and last.ended_at is not None:
            self._problem = None
        return last is None or last.began_at + timedelta(hours=self.hours) <= self._clock()

    @asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        """Let no other run happen meanwhile, also none of another stack that shares the ledger.

        Raises:
            OverloadedError: Another stack runs.
        """
        async with (
            self._one_at_a_time,
            self._ledger.backlog.claimed_work(NAME) as may_run,
        ):
            if not may_run:
                raise OverloadedError(UNDER_WAY, retry_after=RETRY_AFTER)
            yield

    async def _consolidate_place(self, place: Place, done: Consolidated, actor: Actor) -> None:
        """Plan the changes of one place, and make them. A place that fails is skipped."""
        try:
            changes, left = await self._plan(place, done)
        except Exception as error:
            log.exception("place_not_consolidated", scope=place.scope)
            done.fail("", f"The facts of scope {place.scope} could not be looked at.")
            if isinstance(error, StorageError):
                done.count_refusal(error)
            return
        done.left = [*done.left, *left][:MAX_REPORTED]
        if done.run is None:
            done.add_changes(changes)
            return
        for start in range(0, len(changes), CHANGES_PER_TRANSACTION):
            batch = changes[start : start + CHANGES_PER_TRANSACTION]
            begun = time.monotonic()
            failures: list[Exception] = []
            made = await self._make_changes(batch, done, actor, failures)
            self._changes.retired([change for change in made if change.action != "importance"])
            if len(failures) == len(batch) and isinstance(failures[0], StorageError):
                done.count_refusal(failures[0])
            await rest(begun)
            done.add_changes(made)

    async def _plan(self, place: Place, done: Consolidated) -> tuple[list[Change], list[LeftAlone]]:
        """The changes to make in a place, and the contradictions that stay.

        Its facts are read page by page; nothing is changed yet.
        """
        now = self._clock()
        facts = await self._ledger.upkeep.count(place)
        limits = Limits.for_facts(facts, self._share, done.room)
        survey = Survey(limits, now)
        pairs: list[Pair] = []
        after = 0
        while page := await self._ledger.upkeep.facts(place, after, PAGE):
            begun = time.monotonic()
            after = page[-1].row
            await asyncio.to_thread(survey.add_page, page)  # it reads 200 texts
            done.facts += len(page)
            pairs = [*pairs, *await self._ledger.upkeep.contradictions(page)][-MAX_PAIRS:]
            await rest(begun)
        replaced, left = await self._resolve_contradictions(pairs[::-1])
        for rows in survey.equal_groups(PAGE):
            if sum(change.action == "merged" for change in replaced) >= limits.retired:
                break
            begun = time.monotonic()
            groups: dict[MergeKey | None, list[ActiveFact]] = {}
            for fact in await self._ledger.upkeep.facts_at(rows):
                groups.setdefault(merge_key(fact), []).append(fact)
            groups.pop(None, None)  # never merged
            vectors = await self._ledger.upkeep.vectors(rows)
            for group in groups.values():
                replaced += merges(group, vectors, self._floor)
            await rest(begun)
        return select_changes(survey, replaced, limits, now), left

    async def _resolve_contradictions(
        self, pairs: Sequence[Pair]
    ) -> tuple[list[Change], list[LeftAlone]]:
        """Retire the older fact of each contradiction, unless there is a doubt: then both stay."""
        replaced: list[Change] = []
        left: list[LeftAlone] = []
        judged = 0
        for pair in pairs:
            newer, older = newer_first(*pair)
            reason = reason_to_keep(newer, older)
            if reason is None and not is_certain(newer, older):
                judged += 1
                if judged > MAX_JUDGED:
                    reason = "it was not judged"
                elif self._judge is None:
                    reason = "it is not certain, and no model is configured to judge"
                else:
                    rows = [newer.row, older.row]
                    records = {record.row: record for record in await self._ledger.records.at(rows)}
                    try:
                        verdicts = await self._judge.verdicts(
                            records[newer.row], [records[older.row]]
                        )
                    except ModelError as error:
                        log.warning("contradiction_not_judged", id=newer.id, reason=error.logged)
                        reason = "no model could judge"
                    else:
                        if verdicts != ["replaces"]:
                            reason = "a model judged that both may hold"
            if reason is not None:
                left.append(LeftAlone(id=newer.id, contradicts=older.id, reason=reason))
                continue
            replaced.append(
                Change(
                    action="contradicted",
                    fact=older,
                    reason="the same user stated another value later",
                    superseded_by=newer.id,
                )
            )
        return replaced, left

    async def _make_changes(
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
                first = await self._make_changes(batch[:half], done, actor, failures)
                return first + await self._make_changes(batch[half:], done, actor, failures)
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


async def rest(begun: float) -> None:
    """Pause longer than the work since `begun` took, so that others can use the ledger."""
    await asyncio.sleep(PAUSE_FACTOR * (time.monotonic() - begun))
