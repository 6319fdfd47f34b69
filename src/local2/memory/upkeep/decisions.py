"""Decide for consolidation which facts are stale, which are equal, and which of two is valid.

These are pure functions: nothing is read or written here. In doubt, a fact stays as it is.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from heapq import nlargest, nsmallest

import msgspec

from local2.language.statements import differ_in_one_value
from local2.language.words import bare_words
from local2.ledger.records import SOURCE_STRENGTH
from local2.ledger.upkeep import ActiveFact, Change
from local2.memory.recall.tuning import FADING
from local2.protocol.memories import ACCUMULATING

MAX_STALE_IMPORTANCE = 0.5
"""Maximum importance of a fact that may be archived."""
STALE_VIVIDNESS = 0.1
"""Vividness below which a fact is stale."""
LASTING = frozenset({"instruction", "preference"})
"""Types of facts that stay valid until they are replaced, regardless of their age."""
FILLERS = frozenset({"a", "an", "the", "that", "also", "just", "really", "please", "do", "does"})
"""Words that add no meaning."""
EQUAL_COSINE = 0.97
"""Minimum cosine of two equal texts whose words differ in fillers only."""
RECALL_GAIN, MAX_RECALLS = 0.02, 5
"""What each recall adds to the importance, and how many recalls count per run."""
MAX_RAISED = 0.75
"""Maximum importance through recalls, so that no fact becomes a top memory by being recalled."""
DAY = 86_400.0


def vividness(fact: ActiveFact, now: datetime) -> float:
    """Return the importance, halved per half-life since the fact was stated or last recalled."""
    if fact.durability not in FADING:
        return 1.0
    _, half_life = FADING[fact.durability]
    since = max(fact.event_time, fact.recalled_at or fact.event_time)
    days = max((now - since).total_seconds() / DAY, 0.0)
    return fact.importance * math.exp2(-days / half_life)


def is_stale(fact: ActiveFact, now: datetime) -> bool:
    """Return whether a fact was extracted or meant to be short-lived, and has faded.

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
    """Return the raised importance of a fact that was recalled, or None if it does not change."""
    if fact.durability == "core" or not fact.recalls or fact.importance >= MAX_RAISED:
        return None
    return min(round(fact.importance + RECALL_GAIN * min(fact.recalls, MAX_RECALLS), 4), MAX_RAISED)


def principal(fact: ActiveFact) -> tuple[str, str] | None:
    """Return who stated a fact: the user if there is one, else the agent; None if unknown."""
    if fact.stated_by is None:
        return None
    return fact.stated_by, "" if fact.stated_by else fact.agent or ""


MergeKey = tuple[object, ...]


def merge_key(fact: ActiveFact) -> MergeKey | None:
    """Return a key that is equal for facts of one place, principal, type and wording.

    Filler words are ignored. None for facts that are never merged: core facts, those that
    accumulate, and those without words or a known principal.
    """
    who = principal(fact)
    words = tuple(word for word in bare_words(fact.content) if word and word not in FILLERS)
    if who is None or not words or fact.durability == "core" or fact.memory_type in ACCUMULATING:
        return None
    session = fact.session_id if fact.scope == "session" else None
    asks = fact.content.rstrip().endswith("?")
    return (fact.place, who, fact.memory_type, session, asks, words)


def same_words(one: ActiveFact, other: ActiveFact) -> bool:
    return bare_words(one.content) == bare_words(other.content)


def best_first(facts: Iterable[ActiveFact]) -> list[ActiveFact]:
    """Return the fact that stays, followed by those that may be merged into it."""
    best, *others = sorted(
        facts,
        key=lambda f: (f.topic is not None, SOURCE_STRENGTH[f.source_class], f.row),
        reverse=True,
    )
    return [best, *(other for other in others if _may_merge(other, best))]


def _may_merge(fact: ActiveFact, into: ActiveFact) -> bool:
    is_stronger = SOURCE_STRENGTH[fact.source_class] > SOURCE_STRENGTH[into.source_class]
    return fact.topic is None and not is_stronger


def newer_first(one: ActiveFact, other: ActiveFact) -> tuple[ActiveFact, ActiveFact]:
    """Return the newer and the older of two facts, by when they were stated."""
    newer, older = sorted((one, other), key=lambda f: (f.event_time, f.row), reverse=True)
    return newer, older


def reason_to_keep(newer: ActiveFact, older: ActiveFact) -> str | None:
    """Return the reason why a fact must not retire one that it contradicts, or None."""
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
    """Return whether two facts have the same key, or are one sentence with different values."""
    if newer.topic is not None and newer.topic == older.topic:
        return True
    return differ_in_one_value(newer.content, older.content)


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The maximum number of facts in a place that a run may retire, and archive.

    Archiving leaves nothing behind, so in small places nothing is archived; one fact may always be
    merged or replaced. The number of changed importances has the same limit as `retired`.
    """

    retired: int
    archived: int

    @classmethod
    def of(cls, facts: int, share: float, room: int) -> "Limits":
        """Return the limits for a fraction of the facts. `room`: the run's remaining changes."""
        allowed = int(facts * share)
        minimum = 1 if share else 0
        return cls(retired=min(max(allowed, minimum), room), archived=min(allowed, room))


class Survey:
    """Collects what may change in a place, in one pass and with little memory per fact."""

    def __init__(self, limits: Limits, now: datetime) -> None:
        self._limits = limits
        self._now = now
        self._rows_of: dict[int, int | list[int]] = {}
        self.stale: list[ActiveFact] = []
        self.recalled: list[ActiveFact] = []

    def add(self, page: Sequence[ActiveFact]) -> None:
        stale = [fact for fact in page if is_stale(fact, self._now)]
        self.stale = nsmallest(
            self._limits.archived, [*self.stale, *stale], key=lambda f: vividness(f, self._now)
        )
        recalled = [fact for fact in page if raised_importance(fact) is not None]
        self.recalled = nlargest(
            self._limits.retired, [*self.recalled, *recalled], key=lambda f: f.recalls
        )
        for fact in page:
            if (key := merge_key(fact)) is not None:
                self._add_row(hash(key), fact.row)

    def _add_row(self, key: int, row: int) -> None:
        """Add a row to its group. Most groups have one row, which needs no list and less memory."""
        known = self._rows_of.setdefault(key, row)
        if isinstance(known, list):
            known.append(row)
        elif known != row:
            self._rows_of[key] = [known, row]

    def equal_groups(self, together: int) -> Iterator[list[int]]:
        """Yield the newest rows of groups of possibly equal facts, about `together` at a time."""
        batch: list[int] = []
        for rows in self._rows_of.values():
            if isinstance(rows, list):
                batch += rows[-together:]
            if len(batch) >= together:
                yield batch
                batch = []
        if batch:
            yield batch


def merge_groups(facts: Iterable[ActiveFact]) -> list[list[ActiveFact]]:
    """Return the groups of facts that may be merged with each other."""
    groups: dict[MergeKey | None, list[ActiveFact]] = {}
    for fact in facts:
        groups.setdefault(merge_key(fact), []).append(fact)
    return [group for key, group in groups.items() if key is not None and len(group) > 1]


def merge_change(fact: ActiveFact, into: ActiveFact) -> Change:
    return Change(
        action="merged",
        fact=fact,
        reason="it says the same as the fact that stays",
        superseded_by=into.id,
    )


def contradiction_change(older: ActiveFact, newer: ActiveFact) -> Change:
    return Change(
        action="contradicted",
        fact=older,
        reason="the same user stated another value later",
        superseded_by=newer.id,
    )


class ChangeSelection:
    """The changes of one run.

    A fact is changed once at most, and never retired if another one was merged into it or replaced
    by it.
    """

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._changed: set[str] = set()
        self._stays: set[str] = set()

    def take(self, changes: Iterable[Change], limit: int) -> None:
        for change in changes:
            if limit <= 0:
                return
            if self._is_allowed(change):
                self.changes.append(change)
                self._changed.add(change.fact.id)
                self._stays.add(change.superseded_by)
                limit -= 1

    def _is_allowed(self, change: Change) -> bool:
        must_stay = change.action != "importance" and change.fact.id in self._stays
        return not must_stay and not {change.fact.id, change.superseded_by} & self._changed


def changes_of(
    survey: Survey, replaced: Sequence[Change], limits: Limits, now: datetime
) -> list[Change]:
    """Return the changes of one run: replaced facts first, then archived ones, then importances."""
    choice = ChangeSelection()
    choice.take(replaced, limits.retired)
    room = min(limits.archived, limits.retired - len(choice.changes))
    choice.take((_archive_change(fact, now) for fact in survey.stale), room)
    choice.take(map(_importance_change, survey.recalled), limits.retired)
    return choice.changes


def _archive_change(fact: ActiveFact, now: datetime) -> Change:
    since = max(fact.event_time, fact.recalled_at or fact.event_time)
    days = (now - since).days
    event = "recalled" if fact.recalled_at == since else "stated"
    return Change(
        action="archived",
        fact=fact,
        reason=f"its importance is {fact.importance:.2f}, and it was last {event} {days} days ago",
    )


def _importance_change(fact: ActiveFact) -> Change:
    times = "once" if fact.recalls == 1 else f"{fact.recalls} times"
    return Change(
        action="importance",
        fact=fact,
        reason=f"it was recalled {times} since",
        importance=raised_importance(fact),
    )
