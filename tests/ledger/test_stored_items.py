"""Items in the ledger: each has at most one record, which is replaced, retired and forgotten."""

from datetime import timedelta

import msgspec
import pytest

from ledgers import DAY, ITEMS, OWNER, erase, find, item, searching
from local2.errors import QuotaError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.erasing import Selection
from local2.ledger.ledger import Ledger
from local2.ledger.operations.items import ItemSelection, ItemWriter, NewItem
from local2.ledger.records import Quota
from local2.ledger.search import Place
from local2.protocol.items import ItemPut

OF_ITEMS = (Place("user", OWNER, "episode"),)
STORING = ItemWriter(at=DAY, agent="test", user=OWNER)


async def found(ledger: Ledger, *terms: str) -> list[str]:
    return sorted((await find(ledger, searching(*terms, places=OF_ITEMS))).contents)


async def test_an_unchanged_text_keeps_its_record_and_a_new_text_replaces_it(
    ledger: Ledger,
) -> None:
    same = [item("a", n, "Osmium.", id=f"i{n}", session_id=None) for n in range(2)]
    first = await ledger.items.put(ITEMS, same[:1], STORING)
    second = await ledger.items.put(ITEMS, same[1:], STORING)
    third = await ledger.items.put(ITEMS, [item("a", 2, "Dense osmium.", id="i2")], STORING)
    fourth = await ledger.items.put(ITEMS, [item("a", 3)], STORING)

    assert [one.id for one in first.written] == ["i0"]
    assert second.written == []
    assert [one.replaced for one in third.written] == [("i0",)]
    assert fourth.retired == ["i2"]
    assert await found(ledger, "osmium") == []


async def test_a_text_of_another_session_is_a_separate_record(ledger: Ledger) -> None:
    """A session's record is forgotten with that session, and not with the session before."""
    for session in ("s1", "s2"):
        new = item("a", session, "Osmium.", id=session, session_id=session)
        storing = msgspec.structs.replace(STORING, session_id=session)
        await ledger.items.put(ITEMS, [new], storing)

    selection = Selection(owner=OWNER, session_id="s1")
    selected = await ledger.erasures.select(selection)
    await erase(ledger, selection)

    assert selected.counts == {"episodes": 1}
    assert await found(ledger, "osmium") == ["Osmium."]
    assert [one.record for one in await ledger.items.keys(ITEMS, ItemSelection())] == ["s2"]


async def test_an_item_is_deleted_when_its_record_is_forgotten(ledger: Ledger) -> None:
    await ledger.items.put(ITEMS, [item("a", 1, "Osmium.", id="i1"), item("b", 2)], STORING)

    selection = Selection(owner=OWNER, id="i1")
    selected = await ledger.erasures.select(selection)
    await erase(ledger, selection)

    assert selected.counts == {"episodes": 1, "items": 1}
    assert [one.key for one in await ledger.items.keys(ITEMS, ItemSelection())] == ["b"]


async def test_an_item_put_with_keep_is_not_overwritten(ledger: Ledger) -> None:
    for value in (b"1", b"2"):
        put = ItemPut(namespace=("n",), key="k", value=msgspec.Raw(value), keep=True)
        await ledger.items.put(ITEMS, [NewItem(put=put)], STORING)

    (one,) = (await ledger.items.within(ITEMS, ItemSelection())).items
    assert bytes(one.value) == b"1"


async def test_pages_of_one_namespace_are_ordered_by_key_not_by_time(
    ledger: Ledger,
) -> None:
    for minutes, key in enumerate(("c", "a", "b")):
        storing = msgspec.structs.replace(STORING, at=DAY + timedelta(minutes=minutes))
        await ledger.items.put(ITEMS, [item(key, key)], storing)
    within = ItemPut(namespace=("metals", "noble"), key="z", value=msgspec.Raw(b"1"))
    await ledger.items.put(ITEMS, [NewItem(put=within)], STORING)

    exact = ItemSelection(namespace=("metals",), exact=True, before="c", limit=9)
    everything = ItemSelection(namespace=("metals",), limit=9)

    assert [one.key for one in await ledger.items.keys(ITEMS, exact)] == ["b", "a"]
    assert [one.key for one in await ledger.items.keys(ITEMS, everything)] == [
        "b",
        "a",
        "z",
        "c",
    ]


async def test_items_beyond_the_quota_are_refused_and_none_is_stored(
    database: Database,
) -> None:
    ledger = Ledger(database, "default", Quota(bytes=100))
    await ledger.items.put(ITEMS, [item("a", "x" * 50)], STORING)

    with pytest.raises(QuotaError, match="100 bytes"):
        await ledger.items.put(ITEMS, [item("b", 1), item("c", "x" * 60)], STORING)
    await ledger.items.put(ITEMS, [item("a")], STORING)
    await ledger.items.put(ITEMS, [item("c", "x" * 60)], STORING)

    assert [one.key for one in await ledger.items.keys(ITEMS, ItemSelection())] == ["c"]
