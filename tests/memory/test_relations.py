"""Stated relations: stored once, between visible records, audited, and followed by recall."""

from collections.abc import Iterable
from typing import Any

import pytest

from calling import RICHARD, answer, ask, call, caller_named
from local2.bus.connection import Connection
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.operations import relations
from local2.memory.recall.recaller import RecallRequest
from local2.memory.recall.results import RecallItem
from local2.memory.recall.tuning import STATED
from local2.memory.service import MemoryService
from local2.protocol.memories import RelationType
from local2.protocol.memory_tools import ItemRelation
from recalling import chat_message, recall, remember
from stored import select

EVE = caller_named("eve", agent="robot", session_id="s9")
TYPES: tuple[RelationType, ...] = (
    "contradicts",
    "supports",
    "supersedes",
    "caused_by",
    "depends_on",
    "part_of",
    "implements",
)


async def audit_rows(database: Database) -> list[tuple[str, ...]]:
    return await select(database, "SELECT action, record_id, user, agent, detail FROM audit")


async def found(service: MemoryService, query: str) -> dict[str, RecallItem]:
    recalled = await service.recall(RecallRequest(query=query, top_k=20))
    return {item.record.content: item for item in recalled.items}


async def store_two(service: MemoryService, **fields: Any) -> tuple[str, str]:
    """Store a memory to be found by words, and one to be found by a relation; return their ids."""
    first = await remember(service, "Ann collects osmium.", **fields)
    return first, await remember(service, "The lab is cold.", **fields)


@pytest.mark.usefixtures("tools")
async def test_a_relation_is_stored_once_listed_from_both_sides_and_removed(
    bus: Connection, richard: MemoryService, database: Database
) -> None:
    ann, lab = await store_two(richard)
    edge = {"source": ann, "type": "depends_on", "target": lab}

    assert [(await call(bus, "relate", edge))["changed"] for _ in range(2)] == [True, False]
    theirs, ours = [(await call(bus, "relations", {"id": one}))["relations"] for one in (lab, ann)]
    (one,) = ours
    assert (one["type"], one["id"], one["incoming"]) == ("depends_on", lab, False)
    assert (one["content"], one["source_class"], one["active"]) == (
        "The lab is cold.",
        "asserted",
        True,
    )
    assert [(one["id"], one["incoming"]) for one in theirs] == [(ann, True)]

    undone = [await call(bus, "relate", {**edge, "remove": True}) for _ in range(2)]
    assert [one["changed"] for one in undone] == [True, False]
    to_itself = await ask(bus, "relate", {**edge, "target": ann})
    assert to_itself.error
    assert to_itself.error.code == "invalid_arguments"
    assert (await answer(bus, "relations", {"id": ann})).content == "No relations."
    detail = f'{{"type":"depends_on","target":"{lab}"}}'
    assert await audit_rows(database) == [
        ("related", ann, "richard", "shell", detail),
        ("unrelated", ann, "richard", "shell", detail),
    ]


@pytest.mark.usefixtures("tools")
async def test_messages_and_documents_are_related_like_facts(
    bus: Connection, richard: MemoryService
) -> None:
    stored = await richard.intake.store_conversation([chat_message("The pump broke.")], "s1")
    await call(bus, "add_document", {"content": "The pump needs oil.", "title": "Manual"})
    (chunk,) = (await found(richard, "oil")).values()

    edge = {"source": stored.ids[0], "type": "caused_by", "target": chunk.record.id}
    assert (await call(bus, "relate", edge))["changed"]
    (listed,) = (await call(bus, "relations", {"id": chunk.record.id}))["relations"]
    assert (listed["content"], listed["source_class"]) == ("The pump broke.", "stated")


@pytest.mark.usefixtures("tools")
@pytest.mark.parametrize("end", ["source", "target"])
async def test_another_users_record_looks_like_one_that_does_not_exist(
    bus: Connection, richard: MemoryService, eve: MemoryService, end: str
) -> None:
    own, _ = await store_two(richard)
    theirs = await remember(eve, "The safe is open.")

    refusals = []
    for other in (theirs, "never"):
        edge = {"source": own, "type": "supports", "target": own, end: other}
        refusals.append(await ask(bus, "relate", edge))
        refusals.append(await ask(bus, "relations", {"id": other}))

    assert {one.error.code for one in refusals if one.error} == {"invalid_arguments"}
    assert [one.content for one in refusals[:2]] == [one.content for one in refusals[2:]]
    assert "safe" not in str(refusals)
    assert await eve.relations.of(theirs) == []


@pytest.mark.usefixtures("tools")
async def test_a_private_memory_is_not_revealed_by_a_shared_one(
    bus: Connection, richard: MemoryService, eve: MemoryService
) -> None:
    shared = await remember(eve, "Osmium is for everybody.", scope="tenant")
    private = await remember(eve, "The safe is open.")
    await eve.relations.add(private, "contradicts", shared)

    assert (await call(bus, "relations", {"id": shared}))["relations"] == []
    assert list(await found(richard, "osmium")) == ["Osmium is for everybody."]
    assert (await found(richard, "osmium"))["Osmium is for everybody."].relations == ()
    assert len(await eve.relations.of(shared)) == 1


@pytest.mark.usefixtures("tools")
async def test_a_record_of_another_user_or_a_stronger_source_cannot_be_superseded(
    bus: Connection, richard: MemoryService, eve: MemoryService
) -> None:
    stored = await richard.intake.store_conversation(
        [chat_message("I moved to Rome."), chat_message("You live in Oslo.", role="assistant")],
        "s1",
    )
    user, assistant = stored.ids
    theirs = await remember(eve, "Tea is at four.", scope="tenant")
    newer = await remember(eve, "Tea is at five.", scope="tenant")
    mine = await remember(richard, "Tea is at six.", scope="tenant")

    for source, target in ((assistant, user), (mine, theirs), (newer, theirs)):
        edge = {"source": source, "type": "supersedes", "target": target}
        refused = await ask(bus, "relate", edge)
        assert refused.error
        assert refused.error.code == "invalid_arguments"
        assert "Use contradicts" in refused.content
        assert (await call(bus, "relate", {**edge, "type": "contradicts"}))["changed"]

    assert await richard.relations.add(user, "supersedes", assistant)
    assert await eve.relations.add(newer, "supersedes", theirs)
    taken_back = {"source": newer, "type": "supersedes", "target": theirs, "remove": True}
    assert not (await ask(bus, "relate", taken_back)).ok, "nor is it taken back by another"


@pytest.mark.usefixtures("tools")
async def test_a_memory_has_a_bounded_number_of_relations(
    bus: Connection,
    richard: MemoryService,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert relations.MAX_RELATIONS == 100
    monkeypatch.setattr(relations, "MAX_RELATIONS", 2)
    ids = [await remember(richard, f"Part {n}.") for n in range(4)]
    edges = [{"source": id_, "type": "part_of", "target": ids[0]} for id_ in ids[1:]]

    results = [await ask(bus, "relate", edge) for edge in edges]

    assert [one.ok for one in results] == [True, True, False]
    assert "has 2 relations, the maximum" in results[-1].content
    assert (await ask(bus, "relate", edges[0])).ok, "what is known stays so"
    await call(bus, "relate", {**edges[0], "remove": True})
    assert (await ask(bus, "relate", edges[2])).ok


@pytest.mark.usefixtures("either_size")
@pytest.mark.parametrize("type_", TYPES)
async def test_recall_follows_each_type_by_one_step_at_a_discount(
    richard: MemoryService, type_: RelationType
) -> None:
    ann, lab = await store_two(richard)
    further = await remember(richard, "The door is green.")
    # The newer record is the relation's source; the record it replaced or denied leads to it.
    newer = type_ in {"contradicts", "supersedes"}
    await richard.relations.add(*((lab, type_, ann) if newer else (ann, type_, lab)))
    await richard.relations.add(further, "part_of", lab)

    items = await found(richard, "osmium")

    assert list(items) == ["Ann collects osmium.", "The lab is cold."]
    leading, led = items.values()
    own = leading.shares.meaning + leading.shares.words + leading.shares.coverage
    assert led.shares.related == pytest.approx(STATED * own, abs=1e-3)


@pytest.mark.usefixtures("either_size")
@pytest.mark.parametrize("type_", ["contradicts", "supersedes"])
async def test_a_newer_record_does_not_lift_what_it_replaced_or_denied(
    richard: MemoryService, type_: RelationType
) -> None:
    ann, lab = await store_two(richard)
    await richard.relations.add(ann, type_, lab)

    assert await recall(richard, "osmium") == ["Ann collects osmium."]


@pytest.mark.usefixtures("either_size")
async def test_a_record_that_several_memories_lead_to_is_found_once(
    richard: MemoryService,
) -> None:
    talk = [
        chat_message(f"{word}.") for word in ("Hello", "Look", "Aluminium", "Indeed", "Goodbye")
    ]
    ids = (await richard.intake.store_conversation(talk)).ids
    for name in ("Ann", "Bob"):
        leading = await remember(richard, f"{name} collects osmium.")
        await richard.relations.add(leading, "supports", ids[2])

    assert (await recall(richard, "osmium")).count("Aluminium.") == 1


def edges(items: Iterable[RecallItem]) -> list[tuple[ItemRelation, ...]]:
    return [item.relations for item in items]


@pytest.mark.usefixtures("tools", "either_size")
async def test_every_item_lists_a_few_relations_those_to_other_items_first(
    bus: Connection, richard: MemoryService
) -> None:
    ann, lab = await store_two(richard)
    await remember(richard, "Bob sleeps.")
    # The contradicting records are not found, since the relation does not lead to them.
    for number in range(6):
        other = await remember(richard, f"Nothing of the kind {number}.")
        await richard.relations.add(ann, "contradicts", other)
    await richard.relations.add(lab, "supports", ann)

    first, second = edges((await found(richard, "osmium")).values())
    assert first[0] == ItemRelation(type="supports", id=lab, incoming=True)
    assert [one.type for one in first[1:]] == ["contradicts"] * 4
    assert second == (ItemRelation(type="supports", id=ann),)

    result = await call(bus, "recall", {"query": "osmium"}, RICHARD)
    assert result["items"][1]["relations"] == [{"type": "supports", "id": ann}]
    assert result["items"][0]["relations"][0]["incoming"]
    (single,) = (await call(bus, "recall", {"query": "cold", "top_k": 1}))["items"]
    assert single["relations"] == [{"type": "supports", "id": ann}], "and to what is not returned"
    assert "relations" not in (await call(bus, "recall", {"query": "Bob"}))["items"][0]


@pytest.mark.usefixtures("tools")
async def test_the_text_for_a_model_states_relations_between_items(
    bus: Connection, richard: MemoryService
) -> None:
    ann, lab = await store_two(richard)
    await richard.relations.add(lab, "contradicts", ann)
    await richard.relations.add(ann, "contradicts", await remember(richard, "Bob sleeps."))

    text = (await answer(bus, "recall", {"query": "osmium"})).content.splitlines()
    assert ") fact of the user, contradicted by 2, 20" in text[1]
    assert ") fact of the user, contradicts 1, 20" in text[3]
    listed = (await answer(bus, "relations", {"id": ann})).content.splitlines()
    assert f"contradicted by: The lab is cold. [{lab}]" in listed
    assert listed[0].startswith("contradicts: Bob sleeps. [")


async def test_a_retired_record_is_listed_among_relations_but_not_in_recall(
    richard: MemoryService,
) -> None:
    ann = await remember(richard, "Ann collects osmium.")
    old = await remember(richard, "The lab is cold.", topic="user.lab")
    await richard.relations.add(ann, "part_of", old)
    await remember(richard, "The lab is warm.", topic="user.lab")

    (item,) = (await found(richard, "osmium")).values()
    assert item.relations == ()
    (listed,) = await richard.relations.of(ann)
    assert (listed.record.id, listed.record.superseded_by is None) == (old, False)
