"""Relations: stored once, per tenant, audited, and only where permitted."""

import msgspec
import pytest

from ledgers import DAY, OWNER, fact, message
from local2.errors import InvalidArgumentsError
from local2.ledger.ledger import Ledger
from local2.ledger.operations.relations import Relation
from local2.ledger.records import Actor, Record

Ends = list[str | None]


def edge(source: str, target: str) -> Relation:
    return Relation(source=source, type="part_of", target=target, agent="shell", user=OWNER, at=DAY)


def permit_all(_: Record | None, __: Record | None) -> None:
    """Permit every relation."""


async def store(ledger: Ledger, *contents: str) -> list[str]:
    return [(await ledger.facts.store(fact(content))).id for content in contents]


async def related(ledger: Ledger, id_: str) -> Ends:
    record, found = await ledger.relations.of(id_)
    assert record is not None
    return [("<- " if one.incoming else "-> ") + one.record.content for one in found]


async def test_a_relation_that_is_not_permitted_changes_nothing(ledger: Ledger) -> None:
    wheel, cart = await store(ledger, "Wheel.", "Cart.")
    checked: list[Ends] = []

    def refuse(source: Record | None, target: Record | None) -> None:
        checked.append([one.content if one else None for one in (source, target)])
        raise InvalidArgumentsError("No.")

    for ends in ((wheel, cart), (wheel, "unknown")):
        with pytest.raises(InvalidArgumentsError):
            await ledger.relations.add(edge(*ends), refuse)

    assert checked == [["Wheel.", "Cart."], ["Wheel.", None]]
    assert await related(ledger, wheel) == []


async def test_an_edited_fact_is_not_denied_by_what_denied_its_former_words(
    ledger: Ledger,
) -> None:
    (wheel,) = await store(ledger, "The wheel is green.")
    await ledger.records.store([message("The wheel is not green.", id="m1")])
    denial = msgspec.structs.replace(edge("m1", wheel), type="contradicts")
    await ledger.relations.add(denial, permit_all)
    former = (await ledger.records.by_id([wheel]))[wheel]
    version = fact("The wheel is blue.")
    await ledger.facts.edit(former, version, "A mistake.", Actor(agent="cli"))

    assert await related(ledger, version.id) == []
    assert await related(ledger, wheel) == ["<- The wheel is not green."]


async def test_two_memories_do_not_supersede_each_other(ledger: Ledger) -> None:
    first, second, third = await store(ledger, "First.", "Second.", "Third.")
    for newer, older in ((third, second), (second, first)):
        relation = msgspec.structs.replace(edge(newer, older), type="supersedes")
        assert await ledger.relations.add(relation, permit_all)

    with pytest.raises(InvalidArgumentsError, match="it supersedes the source already"):
        await ledger.relations.add(
            msgspec.structs.replace(edge(first, third), type="supersedes"), permit_all
        )

    assert await related(ledger, first) == ["<- Second."]


async def test_a_memory_does_not_supersede_what_replaced_it(ledger: Ledger) -> None:
    bern, basel = [
        (await ledger.facts.store(fact(city, topic="user.city"))).id for city in ("Bern.", "Basel.")
    ]

    with pytest.raises(InvalidArgumentsError, match="it supersedes the source already"):
        await ledger.relations.add(
            msgspec.structs.replace(edge(bern, basel), type="supersedes"), permit_all
        )

    relation = msgspec.structs.replace(edge(basel, bern), type="supersedes")
    assert await ledger.relations.add(relation, permit_all)


async def test_the_ledgers_own_links_are_not_stated_relations(
    ledger: Ledger,
) -> None:
    wheel, cart = await store(ledger, "Wheel.", "Cart.")
    await ledger.facts.relate(wheel, "derived_from", cart)
    await ledger.facts.relate(wheel, "shares_entity", cart)

    assert await related(ledger, wheel) == []
    assert await ledger.relations.of("unknown") == (None, [])
