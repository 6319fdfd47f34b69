"""The decisions of consolidation: which facts are stale, which are equal, which of two is valid.

Pure: nothing is read or written here. In doubt everything stays as it is.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from heapq import nlargest, nsmallest

import msgspec

from local.ledger.records import STRENGTH
from local.ledger.upkeep import ActiveFact, Change
from local.memory.recall.ranking import FADING
from local.text.words import bare_words

LOW = 0.5
"""Only facts of at most this importance are archived,"""
FAINT = 0.1
"""once less of it is left: it halves with every half-life since the fact was stated or recalled."""
LASTING = frozenset({"instruction", "preference"})
"""They are valid until they are replaced, however long ago they were stated."""
ACCUMULATING = frozenset({"event", "interaction", "user_request", "summary"})
"""The same words on another day are another memory, and neither contradicts the other."""
FILLERS = frozenset({"a", "an", "the", "that", "also", "just", "really", "please", "do", "does"})
"""Words that add nothing; every other word may."""
ALIKE = 0.97
"""The cosine of two equal texts, if their words differ in fillers only."""
FRAME = 2
"""The least words that two texts must have in common at the beginning, if one value differs."""
VALUE = 4
"""The most words of that value."""
STEP, STEPS = 0.02, 5
"""How much a recall adds to an importance, and how often in one run at most."""
HIGHEST = 0.75
"""The limit: being recalled does not make a fact one that agents are given unasked."""
DAY = 86_400.0


def vividness(fact: ActiveFact, now: datetime) -> float:
    """Return what is left of its importance; a core fact never fades."""
    if fact.durability not in FADING:
        return 1.0
    _, half_life = FADING[fact.durability]
    since = max(fact.event_time, fact.recalled_at or fact.event_time)
    days = max((now - since).total_seconds() / DAY, 0.0)
    return fact.importance * math.exp2(-days / half_life)


def is_stale(fact: ActiveFact, now: datetime) -> bool:
    """Return whether it was read somewhere or meant to be short-lived, and has faded.

    What somebody stored under a key stays, and so do instructions and preferences.
    """
    short_lived = fact.extracted or (fact.durability == "ephemeral" and fact.topic is None)
    return (
        short_lived
        and fact.memory_type not in LASTING
        and fact.importance <= LOW
        and vividness(fact, now) < FAINT
    )


def raised(fact: ActiveFact) -> float | None:
    """Return the importance of a fact that was recalled; None if it stays the same."""
    if fact.durability == "core" or not fact.recalls or fact.importance >= HIGHEST:
        return None
    return min(round(fact.importance + STEP * min(fact.recalls, STEPS), 4), HIGHEST)


def principal(fact: ActiveFact) -> tuple[str, str] | None:
    """Return who stated it: a user through any agent, else the agent; None if not known."""
    if fact.stated_by is None:
        return None
    return fact.stated_by, "" if fact.stated_by else fact.agent or ""


Meaning = tuple[object, ...]


def meaning(fact: ActiveFact) -> Meaning | None:
    """Return a key, equal for facts that may be merged: of one place, principal and wording.

    Filler words are ignored. Return None for facts that may not be merged: core facts, those that
    accumulate, and those that are too long to compare.
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
    """Return the one that stays, and those that may be merged into it."""
    best, *others = sorted(
        facts, key=lambda f: (f.topic is not None, STRENGTH[f.source_class], f.row), reverse=True
    )
    return [best, *(other for other in others if _may_give_way(other, best))]


def _may_give_way(fact: ActiveFact, to: ActiveFact) -> bool:
    return fact.topic is None and STRENGTH[fact.source_class] <= STRENGTH[to.source_class]


def ordered(one: ActiveFact, other: ActiveFact) -> tuple[ActiveFact, ActiveFact]:
    """Return the newer and the older one, by when they were stated."""
    newer, older = sorted((one, other), key=lambda f: (f.event_time, f.row), reverse=True)
    return newer, older


def obstacle(newer: ActiveFact, older: ActiveFact) -> str | None:
    """Return why a fact must not retire one that it contradicts, if there is a reason."""
    reasons = {
        "they belong to different scopes": newer.place != older.place
        or (newer.scope == "session" and newer.session_id != older.session_id),
        "it is core": older.durability == "core",
        "they were not stated by the same user": principal(newer) is None
        or principal(newer) != principal(older),
        "the newer one comes from a weaker source": STRENGTH[newer.source_class]
        < STRENGTH[older.source_class],
        "neither is clearly the newer one": newer.event_time <= older.event_time
        or newer.row <= older.row,
        "what happened does not cease to be true": {newer.memory_type, older.memory_type}
        & ACCUMULATING,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)


def is_certain(newer: ActiveFact, older: ActiveFact) -> bool:
    """Return whether the contradiction is certain: one key, or one sentence with another value."""
    if newer.topic is not None and newer.topic == older.topic:
        return True
    return _differ_in_one_value(bare_words(newer.content), bare_words(older.content))


def _differ_in_one_value(one: Sequence[str], other: Sequence[str]) -> bool:
    shorter = min(len(one), len(other))
    begin = next((n for n in range(shorter) if one[n] != other[n]), shorter)
    end = next((n for n in range(shorter - begin) if one[-1 - n] != other[-1 - n]), shorter - begin)
    lengths = [len(words) - begin - end for words in (one, other)]
    return begin >= FRAME and min(lengths) >= 1 and max(lengths) <= VALUE


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one run's changes to a place's facts.

    Archiving leaves nothing in a fact's place, so small places are spared; one fact may always be
    merged or replaced. As many importances may change as facts may be retired.
    """

    retired: int
    archived: int

    @classmethod
    def of(cls, facts: int, share: float, room: int) -> "Limits":
        """Return the limits; `room` is how many changes the run may still make."""
        allowed = int(facts * share)
        least = 1 if share else 0
        return cls(retired=min(max(allowed, least), room), archived=min(allowed, room))


class Survey:
    """The findings of one pass over a place's facts, with little memory for each."""

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
        recalled = [fact for fact in page if raised(fact) is not None]
        self.recalled = nlargest(
            self._limits.retired, [*self.recalled, *recalled], key=lambda f: f.recalls
        )
        for fact in page:
            if (key := meaning(fact)) is not None:
                self._count(hash(key), fact.row)

    def _count(self, key: int, row: int) -> None:
        """Count a fact; most are alone, which takes less memory without a list."""
        known = self._rows_of.setdefault(key, row)
        if isinstance(known, list):
            known.append(row)
        elif known != row:
            self._rows_of[key] = [known, row]

    def alike(self, together: int) -> Iterator[list[int]]:
        """Yield rows of facts that may be equal, the newest of them, in lists of about so many."""
        some: list[int] = []
        for rows in self._rows_of.values():
            if isinstance(rows, list):
                some += rows[-together:]
            if len(some) >= together:
                yield some
                some = []
        if some:
            yield some


def by_meaning(facts: Iterable[ActiveFact]) -> list[list[ActiveFact]]:
    """Return those that may be merged with each other, together."""
    groups: dict[Meaning | None, list[ActiveFact]] = {}
    for fact in facts:
        groups.setdefault(meaning(fact), []).append(fact)
    return [group for key, group in groups.items() if key is not None and len(group) > 1]


def merged(fact: ActiveFact, into: ActiveFact) -> Change:
    return Change(
        action="merged",
        fact=fact,
        reason="it says the same as the one that stays",
        superseded_by=into.id,
    )


def contradicted(older: ActiveFact, newer: ActiveFact) -> Change:
    return Change(
        action="contradicted",
        fact=older,
        reason="the same user stated another value later",
        superseded_by=newer.id,
    )


class Choice:
    """The changes of one run: each fact once; no fact is retired that another gives way to."""

    def __init__(self) -> None:
        self.changes: list[Change] = []
        self._changed: set[str] = set()
        self._stays: set[str] = set()

    def take(self, changes: Iterable[Change], most: int) -> None:
        for change in changes:
            if most <= 0:
                return
            if self._may(change):
                self.changes.append(change)
                self._changed.add(change.fact.id)
                self._stays.add(change.superseded_by)
                most -= 1

    def _may(self, change: Change) -> bool:
        stays = change.action != "importance" and change.fact.id in self._stays
        return not stays and not {change.fact.id, change.superseded_by} & self._changed


def changes_of(
    survey: Survey, replaced: Sequence[Change], limits: Limits, now: datetime
) -> list[Change]:
    """Return the changes of one run: replaced facts first, then stale ones, then importances."""
    choice = Choice()
    choice.take(replaced, limits.retired)
    room = min(limits.archived, limits.retired - len(choice.changes))
    choice.take((_archived(fact, now) for fact in survey.stale), room)
    choice.take(map(_weighed, survey.recalled), limits.retired)
    return choice.changes


def _archived(fact: ActiveFact, now: datetime) -> Change:
    since = max(fact.event_time, fact.recalled_at or fact.event_time)
    days = (now - since).days
    what = "recalled" if fact.recalled_at == since else "stated"
    return Change(
        action="archived",
        fact=fact,
        reason=f"its importance is {fact.importance:.2f}, and it was last {what} {days} days ago",
    )


def _weighed(fact: ActiveFact) -> Change:
    times = "once" if fact.recalls == 1 else f"{fact.recalls} times"
    return Change(
        action="importance",
        fact=fact,
        reason=f"it was recalled {times} since",
        importance=raised(fact),
    )
