"""Browsing shows every record that passes a filter exactly once, the newest first."""

from datetime import timedelta
from itertools import product
from typing import Any, get_args

import pytest

from ledgers import DAY, OWNER, erase, fact, message, record
from local2.ledger.erasing import Selection
from local2.ledger.ledger import Ledger
from local2.ledger.operations import browsing
from local2.ledger.operations.browsing import BrowseCursor, BrowseFilter
from local2.ledger.operations.upkeep import Access
from local2.ledger.records import Actor
from local2.ledger.search import Place
from local2.protocol.browsing import DayCount, RecordState, SessionCount
from local2.protocol.memories import Kind, OwnerScope

ALL_STATES: frozenset[RecordState] = frozenset(get_args(RecordState))
PLACES = tuple(Place("session", OWNER, kind) for kind in get_args(Kind)) + tuple(
    Place("user", OWNER, kind) for kind in get_args(Kind)
)
ACTOR = Actor(agent="cli", user=OWNER)


async def browse(ledger: Ledger, limit: int = 99, **filters: Any) -> list[str]:
    """Return the ids on all pages."""
    wanted = BrowseFilter(**{"states": frozenset({"active"}), "places": PLACES, **filters})
    found: list[str] = []
    after = None
    while True:
        page = await ledger.browsing.page(wanted, limit, after)
        assert len(page.records) <= limit
        found += [browsed.record.id for browsed in page.records]
        after = page.next
        if after is None:
            return found


@pytest.fixture
async def stored(ledger: Ledger) -> Ledger:
    """A ledger with records of two owners, some of which were replaced or retired."""
    await ledger.records.store(
        [
            message("Osmium is dense.", 1, id="m1", agent="shell"),
            message("Which metal?", 1, id="m2", session_id="s2", role="assistant"),
            record("Osmium.", 2, id="e1"),
            message("Osmium, too.", 3, id="eve1", owner="eve"),
            fact("Likes tea and osmium.", 9, id="f9", memory_type="preference"),
            fact("The tenant's metal is gold.", 4, id="t1", scope="tenant", owner=""),
        ]
    )
    for number, metal in enumerate(("lead", "gold")):
        await ledger.facts.store(fact(metal, 5 + number, id=f"f{number}", topic="user.metal"))
    await ledger.records.store([fact("Lives in Rome.", 7, id="gone")])
    gone = (await ledger.records.by_id(["gone"]))["gone"]
    await ledger.facts.withdraw([gone], "moved", ACTOR, DAY)
    return ledger


FILTERS: list[tuple[dict[str, Any], list[str]]] = [
    ({}, ["f9", "f1", "e1", "m2", "m1"]),
    ({"states": ALL_STATES}, ["f9", "gone", "f1", "f0", "e1", "m2", "m1"]),
    ({"states": frozenset({"replaced"})}, ["f0"]),
    ({"states": frozenset({"retired"})}, ["gone"]),
    ({"places": None}, ["f9", "f1", "t1", "eve1", "e1", "m2", "m1"]),
    ({"places": None, "scopes": ("tenant",)}, ["t1"]),
    ({"places": None, "kinds": ("episode",)}, ["e1"]),
    ({"agent": "shell"}, ["m1"]),
    ({"session_id": "s2"}, ["m2"]),
    ({"types": ("preference",)}, ["f9"]),
    ({"sources": ("answered",)}, ["m2"]),
    ({"topic": "User.M"}, ["f1"]),
    ({"since": DAY + timedelta(minutes=2)}, ["f9", "f1", "e1"]),
    ({"until": DAY + timedelta(minutes=2)}, ["e1", "m2", "m1"]),
    ({"terms": ("osmium",)}, ["f9", "e1", "m1"]),
    ({"terms": ("osmium", "tea")}, ["f9"]),
    ({"terms": ("osmium",), "until": DAY + timedelta(minutes=2)}, ["e1", "m1"]),
    ({"terms": ("rome",), "states": ALL_STATES}, ["gone"]),
    ({"terms": ("osmium",), "places": None}, ["f9", "eve1", "e1", "m1"]),
    ({"terms": ("iridium",)}, []),
    ({"places": ()}, []),
]
"""What is asked for, and the ids of what is shown."""


@pytest.mark.parametrize("limit", [1, 2, 99])
async def test_a_filter_shows_what_passes_it_on_pages_of_any_size(
    stored: Ledger, limit: int
) -> None:
    for filters, ids in FILTERS:
        assert await browse(stored, limit, **filters) == ids, filters


@pytest.mark.parametrize(
    "filters", [{"session_id": "s2"}, {"terms": ("osmium",), "kinds": ("episode",)}]
)
async def test_a_page_that_would_read_too_much_says_where_to_continue(
    stored: Ledger, monkeypatch: pytest.MonkeyPatch, filters: dict[str, Any]
) -> None:
    wanted = BrowseFilter(states=ALL_STATES, places=PLACES, **filters)
    whole = await stored.browsing.page(wanted, 99, None)
    monkeypatch.setattr(browsing, "MAX_READ", 2)

    first = await stored.browsing.page(wanted, 99, None)

    assert first.next is not None
    ids = await browse(stored, 99, states=ALL_STATES, **filters)
    assert ids == [browsed.record.id for browsed in whole.records]


async def test_records_of_one_moment_are_shown_once_each(ledger: Ledger) -> None:
    records = [message(f"Metal {number}.", 1, id=f"m{number}") for number in range(20)]
    await ledger.records.store(records)

    for limit in (1, 3, 19, 20):
        assert await browse(ledger, limit) == [record.id for record in reversed(records)]


async def test_a_record_is_shown_with_its_state_and_its_recalls(stored: Ledger) -> None:
    record = (await stored.records.by_id(["f0"]))["f0"]
    await stored.upkeep.add_access([Access(row=record.row, times=3, last=DAY)])

    wanted = BrowseFilter(states=ALL_STATES, places=PLACES, topic="user.metal")
    newer, older = (await stored.browsing.page(wanted, 9, None)).records

    assert (newer.state, newer.recalls, newer.recalled_at) == ("active", 0, None)
    assert (older.state, older.recalls, older.recalled_at) == ("replaced", 3, DAY)


async def test_what_was_erased_is_not_shown_and_what_was_anonymised_only_when_asked_for(
    stored: Ledger,
) -> None:
    await erase(stored, Selection(owner=OWNER, id="m1"))
    later = DAY + timedelta(days=999_999)
    await stored.erasures.anonymise(before=later, limit=99, agent="cli", at=later)

    everything = await browse(stored, places=None, states=ALL_STATES)
    anonymised = await browse(stored, places=None, states=frozenset({"anonymised"}))

    assert "m1" not in everything
    assert anonymised == ["gone", "f0"]
    assert await browse(stored, states=frozenset({"replaced", "retired"})) == []


async def test_each_scope_owner_and_kind_is_a_place_of_its_own(ledger: Ledger) -> None:
    owners = ("al", "alice", "Älice", "fa", "\U0001f600 x y", "")
    places = {
        Place(scope, owner, kind)
        for scope in get_args(OwnerScope)
        for owner in owners
        for kind in get_args(Kind)
    }
    await ledger.records.store(
        [
            record(
                "Osmium.", 1, id=str(place), scope=place.scope, owner=place.owner, kind=place.kind
            )
            for place in places
        ]
    )

    assert {(count.place, count.active) for count in await ledger.browsing.counts(None)} == {
        (place, 1) for place in places
    }
    assert sorted(await ledger.records.users(100)) == sorted(owners)


async def test_places_are_counted_with_what_no_longer_stands(stored: Ledger) -> None:
    counts = {count.place: count for count in await stored.browsing.counts(None)}
    own = await stored.browsing.counts(PLACES)

    facts = counts[Place("user", OWNER, "fact")]
    assert (facts.active, facts.past, facts.last) == (2, 2, DAY + timedelta(minutes=9))
    assert counts[Place("session", "eve", "chat_message")].active == 1
    assert {count.place: count for count in own} == {
        place: count for place, count in counts.items() if place in PLACES
    }


async def listed_sessions(
    ledger: Ledger, owners: list[str] | None, limit: int = 9
) -> list[SessionCount]:
    """Return the sessions on all pages."""
    found: list[SessionCount] = []
    after = None
    while True:
        page = await ledger.browsing.sessions(owners, limit, after)
        assert len(page.sessions) <= limit
        found += page.sessions
        after = BrowseCursor.of(page.next)
        if after is None:
            return found


async def test_sessions_are_listed_once_by_their_last_use(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = [
        *((1, "a", OWNER), (1, "b", OWNER), (2, "a", OWNER), (3, "a", "eve"), (4, None, OWNER)),
        *((0, "c", OWNER), (0, "b", OWNER), (2, "a", OWNER)),  # others at the same time
    ]
    for number, (minute, session, owner) in enumerate(said):
        spoken = message("Osmium.", minute, id=f"s{number}", session_id=session, owner=owner)
        await ledger.records.store([spoken])

    for limit, most in product([1, 2, 9], [1, 2, 20_000]):
        monkeypatch.setattr(browsing, "MAX_READ", most)
        monkeypatch.setattr(browsing, "MAX_MESSAGES_READ", most)
        own = await listed_sessions(ledger, [OWNER], limit)
        assert [(use.session_id, use.messages) for use in own] == [("a", 3), ("b", 2), ("c", 1)]
        assert (own[0].first, own[0].last) == (
            DAY + timedelta(minutes=1),
            DAY + timedelta(minutes=2),
        )
        everybody = await listed_sessions(ledger, None, limit)
        assert [(use.user, use.session_id) for use in everybody] == [
            ("eve", "a"),
            *((OWNER, session) for session in ("a", "b", "c")),
        ]


async def test_records_are_counted_by_their_days_and_kinds(stored: Ledger) -> None:
    yesterday = fact("Drank wine.", id="y1", event_time=DAY - timedelta(days=1))
    await stored.records.store([yesterday])

    def listed(counts: list[DayCount]) -> list[tuple[str, str, int]]:
        return [(count.day.isoformat(), count.kind, count.added) for count in counts]

    today = [
        ("2026-05-01", "chat_message", 2),
        ("2026-05-01", "episode", 1),
        ("2026-05-01", "fact", 4),
    ]
    own = await stored.browsing.growth(PLACES, DAY - timedelta(days=3))
    assert listed(own) == [("2026-04-30", "fact", 1), *today]
    assert listed(await stored.browsing.growth(PLACES, DAY)) == today
    everything = listed(await stored.browsing.growth(None, DAY))
    assert everything == [
        ("2026-05-01", "chat_message", 3),
        ("2026-05-01", "episode", 1),
        ("2026-05-01", "fact", 5),
    ]
