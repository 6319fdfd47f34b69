"""A person edits, retires and hides memories; each change is audited, and undone by its run."""

from typing import Any

import msgspec
import pytest

from calling import RICHARD, answer, ask, call, caller_named, ingest
from local2.bus.connection import Connection
from local2.errors import ForbiddenError
from local2.memory.tenant import Memory
from local2.protocol.envelope import Caller
from local2.protocol.payloads import Json, MemoryChange

EVE = caller_named("eve", agent="shell")
GREEN = "Richard's favourite colour is green."
BLUE = "Richard's favourite colour is blue."

pytestmark = pytest.mark.usefixtures("tools")


async def remember(bus: Connection, content: str = GREEN, **args: Any) -> str:
    saved = await call(bus, "remember_fact", {"content": content, **args})
    return str(saved["id"])


async def recalled(bus: Connection, query: str = "favourite colour", **args: Any) -> list[str]:
    found = await call(bus, "recall", {"query": query, **args})
    return [item["content"] for item in found["items"]]


async def refusal(
    bus: Connection, tool: str, args: Json, caller: Caller = RICHARD
) -> tuple[str, str]:
    refused = await ask(bus, tool, args, caller)
    assert refused.error is not None
    return refused.error.code, refused.error.message


def edit(id_: str, content: str = BLUE) -> Json:
    return {"id": id_, "content": content, "reason": "A mistake."}


def ids(*wanted: str) -> Json:
    return {"ids": list(wanted), "reason": "A mistake."}


async def test_an_edited_fact_keeps_its_key_and_importance_and_its_history(
    bus: Connection, announced: list[tuple[str, MemoryChange]]
) -> None:
    older = await remember(bus, topic="user.colour", importance=0.9, memory_type="preference")

    edited = await call(bus, "edit_memory", edit(older))

    assert edited["was_new"]
    assert await recalled(bus) == [BLUE]
    (top,) = (await call(bus, "top_memories", {}))["memories"]
    assert (top["id"], top["topic"], top["importance"]) == (edited["id"], "user.colour", 0.9)
    newer, former = (await call(bus, "memory_history", {"topic_or_id": older}))["versions"]
    assert (newer["content"], former["content"]) == (BLUE, GREEN)
    assert (former["retired_why"], former["reason"]) == ("edited", "A mistake.")
    (entry,) = (await call(bus, "audit", {"run": edited["run"]}))["entries"]
    assert (entry["action"], entry["id"], entry["by"], entry["reason"]) == (
        "edited",
        older,
        "self",
        "A mistake.",
    )
    assert {subject for subject, change in announced if change.id == older} == {
        "memory.saved",
        "memory.superseded",
    }


async def test_an_undone_edit_gives_way_to_the_former_version(bus: Connection) -> None:
    older = await remember(bus, topic="user.colour")
    edited = await call(bus, "edit_memory", edit(older))

    undone = await call(bus, "undo", {"run": edited["run"]})
    again = await call(bus, "undo", {"run": edited["run"]})

    assert undone["undone"] == [older]
    assert again["undone"] == []
    assert await recalled(bus) == [GREEN]
    assert (await call(bus, "recall_topic", {"topic": "user.colour"}))["content"] == GREEN
    versions = (await call(bus, "memory_history", {"topic_or_id": older}))["versions"]
    assert [version["content"] for version in versions] == [GREEN, BLUE]


async def test_an_edited_facts_relations_go_with_its_version_until_that_is_undone(
    bus: Connection,
) -> None:
    older = await remember(bus)
    other = await remember(bus, "Ada painted her door green.")
    cause = await remember(bus, "Ada grew up in a forest.")
    await call(bus, "relate", {"source": other, "type": "supports", "target": older})
    await call(bus, "relate", {"source": older, "type": "caused_by", "target": cause})

    async def related(id_: str) -> set[tuple[str, str]]:
        found = (await call(bus, "relations", {"id": id_}))["relations"]
        return {(one["type"], one["id"]) for one in found}

    both = {("supports", other), ("caused_by", cause)}
    edited = await call(bus, "edit_memory", edit(older))
    assert (await related(edited["id"]), await related(older)) == (both, set())
    assert await related(other) == {("supports", edited["id"])}

    await call(bus, "undo", {"run": edited["run"]})
    assert (await related(edited["id"]), await related(older)) == (set(), both)
    assert await related(other) == {("supports", older)}


async def test_an_edit_is_not_undone_after_a_later_one(bus: Connection) -> None:
    older = await remember(bus)
    first = await call(bus, "edit_memory", edit(older))
    await call(bus, "edit_memory", edit(first["id"], "It is red, his favourite colour."))

    undone = await answer(bus, "undo", {"run": first["run"]})

    assert "1 change could not be undone" in undone.content
    assert undone.data["undone"] == []
    assert [one["id"] for one in undone.data["not_done"]] == [older]
    assert await recalled(bus) == ["It is red, his favourite colour."]


async def test_an_edit_that_is_sent_again_changes_nothing(bus: Connection) -> None:
    older = await remember(bus)

    first = await call(bus, "edit_memory", edit(older))
    second = await call(bus, "edit_memory", edit(older))
    same = await call(bus, "edit_memory", edit(first["id"]))

    for repeated in (second, same):
        assert repeated == {"id": first["id"], "was_new": False, "run": None}


async def test_a_saved_note_is_edited_and_retired(bus: Connection) -> None:
    saved = await call(bus, "save_memory", {"content": GREEN, "metadata": {"source": "talk"}})

    edited = await call(bus, "edit_memory", edit(saved["id"]))

    (hit,) = (await call(bus, "search_memory", {"query": "favourite colour"}))["hits"]
    assert (hit["content"], hit["metadata"]["source"]) == (BLUE, "talk")
    retired = await call(bus, "retire_fact", ids(edited["id"]))
    assert retired["retired"] == [edited["id"]]
    assert (await call(bus, "search_memory", {"query": "favourite colour"}))["hits"] == []


async def test_retired_facts_stand_again_when_the_run_is_undone(bus: Connection) -> None:
    facts = [await remember(bus), await remember(bus, "Richard's favourite colour was red.")]
    retired = await call(bus, "retire_fact", ids(*facts))
    assert await recalled(bus) == []

    undone = await call(bus, "undo", {"run": retired["run"]})

    assert sorted(undone["undone"]) == sorted(facts)
    assert len(await recalled(bus)) == 2


async def top(bus: Connection) -> list[str]:
    return [one["content"] for one in (await call(bus, "top_memories", {}))["memories"]]


async def test_a_pinned_fact_comes_first_whatever_its_importance_and_type(bus: Connection) -> None:
    for number in range(30):
        await remember(bus, f"Important matter {number}.", importance=1.0, durability="core")
    fact = await remember(bus, importance=0.1, memory_type="event")
    shared = await remember(bus, "The office is in Rome.", scope="tenant", importance=0.1)
    assert GREEN not in await top(bus)

    pinned = await call(bus, "pin_memories", ids(fact, shared))
    again = await call(bus, "pin_memories", ids(fact, shared))

    assert (pinned["changed"], again) == ([fact, shared], {"changed": [], "run": None})
    shown = await top(bus)
    assert shown[0] == GREEN
    assert shown[-1] == "The office is in Rome."
    assert len(set(shown)) == len(shown)
    await call(bus, "undo", {"run": pinned["run"]})
    assert GREEN not in await top(bus)


async def test_a_newer_version_of_a_pinned_fact_is_pinned(bus: Connection) -> None:
    fact = await remember(bus, topic="user.colour", importance=0.1)
    await call(bus, "pin_memories", ids(fact))
    await call(bus, "save_topic", {"topic": "user.colour", "content": "red"})
    (first,) = (await call(bus, "top_memories", {}))["memories"]
    edited = await call(bus, "edit_memory", edit(first["id"]))

    (memory,) = (await call(bus, "top_memories", {}))["memories"]

    assert (memory["id"], memory["pinned"]) == (edited["id"], True)
    unpinned = await call(bus, "pin_memories", {**ids(edited["id"]), "unpin": True})
    assert unpinned["changed"] == [edited["id"]]
    (memory,) = (await call(bus, "top_memories", {}))["memories"]
    assert "pinned" not in memory
    actions = [one["action"] for one in (await call(bus, "audit", {}))["entries"]]
    assert actions == ["unpinned", "edited", "superseded", "pinned"]


async def test_consolidation_leaves_a_pinned_fact_alone(bus: Connection) -> None:
    twins = [await remember(bus), await remember(bus, "richard's favourite colour is green")]
    await call(bus, "pin_memories", ids(twins[0]))

    assert (await call(bus, "consolidate", {}))["changes"] == []


async def test_a_hidden_message_is_found_no_more_even_as_of_earlier_until_it_is_undone(
    bus: Connection,
) -> None:
    message = {"id": "m1", "role": "user", "content": "Osmium is the densest metal."}
    await ingest(bus, message)
    (item,) = (await call(bus, "recall", {"query": "densest metal"}))["items"]

    hidden = await call(bus, "hide_memories", ids(item["id"]))

    assert hidden["hidden"] == [item["id"]]
    assert await recalled(bus, "densest metal") == []
    assert await recalled(bus, "densest metal", as_of="2999-01-01") == []
    await ingest(bus, message)
    assert await recalled(bus, "densest metal") == []
    (version,) = (await call(bus, "memory_history", {"topic_or_id": item["id"]}))["versions"]
    assert (version["retired_why"], version["reason"]) == ("hidden", "A mistake.")

    await call(bus, "undo", {"run": hidden["run"]})
    assert await recalled(bus, "densest metal") == [message["content"]]


async def test_a_hidden_fact_is_not_found_as_of_the_time_before(
    bus: Connection, memory: Memory
) -> None:
    fact = await remember(bus)
    before = memory.clock().isoformat()
    assert await recalled(bus, as_of=before) == [GREEN]

    await call(bus, "hide_memories", ids(fact))

    assert await recalled(bus, as_of=before) == []


async def test_a_hidden_part_of_a_document_is_not_restored_beside_a_newer_one(
    bus: Connection,
) -> None:
    document = {"title": "Metals", "content": "Osmium is dense.", "source": "metals.md"}
    await call(bus, "add_document", document)
    (item,) = (await call(bus, "recall", {"query": "osmium"}))["items"]
    hidden = await call(bus, "hide_memories", ids(item["id"]))
    await call(bus, "add_document", {**document, "content": "Osmium is the densest."})

    report = await call(bus, "undo", {"run": hidden["run"]})

    assert [one["id"] for one in report["not_done"]] == [item["id"]]
    assert await recalled(bus, "osmium") == ["Osmium is the densest."]


@pytest.mark.parametrize("tool", ["edit_memory", "retire_fact", "hide_memories"])
async def test_what_somebody_else_stated_stays(bus: Connection, tool: str) -> None:
    own = await remember(bus)
    shared = await remember(bus, "The office is in Rome.", scope="tenant")

    for fact, said in ((own, "there is no"), (shared, "stated by another user")):
        args = edit(fact) if tool == "edit_memory" else ids(fact)
        code, message = await refusal(bus, tool, args, EVE)
        assert code == "invalid_arguments"
        assert said in message


async def test_a_message_is_neither_edited_nor_retired(bus: Connection) -> None:
    await ingest(bus, {"id": "m1", "role": "user", "content": "Osmium is the densest metal."})
    (item,) = (await call(bus, "recall", {"query": "densest metal"}))["items"]

    for tool, args in (("edit_memory", edit(item["id"])), ("retire_fact", ids(item["id"]))):
        code, message = await refusal(bus, tool, args)
        assert code == "invalid_arguments"
        assert "fact or note" in message


async def test_a_memory_that_no_longer_stands_is_not_edited(bus: Connection) -> None:
    older = await remember(bus)
    await call(bus, "retire_fact", ids(older))

    code, message = await refusal(bus, "edit_memory", edit(older))

    assert code == "invalid_arguments"
    assert "no longer stands" in message


async def test_a_role_that_may_not_write_to_a_scope_may_not_hide_there(
    bus: Connection, memory: Memory
) -> None:
    shared = await remember(bus, "The office is in Rome.", scope="tenant")
    reader = msgspec.structs.replace(RICHARD, writes=frozenset({"user"}), role="writer")

    with pytest.raises(ForbiddenError):
        await memory.of(reader).facts.hide([shared], "No.")


async def test_a_writer_undoes_changes_in_the_scopes_that_it_may_write_to(
    bus: Connection, memory: Memory
) -> None:
    own = await call(bus, "edit_memory", edit(await remember(bus)))
    shared = await remember(bus, "The office is in Rome.", scope="tenant")
    for_everybody = await call(bus, "hide_memories", ids(shared))
    writes = frozenset({"session", "user", "agent"})
    writer = memory.of(msgspec.structs.replace(RICHARD, writes=writes, role="writer"))

    undone = await writer.audit.undo(own["run"])
    refused = await writer.audit.undo(for_everybody["run"])

    assert await recalled(bus) == [GREEN]
    assert len(undone.undone) == 1
    assert (refused.undone, refused.not_done, refused.others) == ([], [], 1)


async def test_the_history_of_a_blank_key_is_refused_rather_than_not_found(
    bus: Connection,
) -> None:
    refused = await ask(bus, "memory_history", {"topic_or_id": " "})

    assert (refused.ok, refused.content) == (
        False,
        "Error (invalid_arguments): topic_or_id: the text is blank. Write something in it.",
    )
