"""Writes show which facts stand beside what they store, and the calling model settles them."""

import asyncio
from typing import Any

import msgspec
import pytest

from calling import caller_named, run_tool
from ledgers import message
from local2.errors import ForbiddenError, InvalidArgumentsError
from local2.memory import facts as facts_module
from local2.memory.tenant import Memory
from local2.protocol.envelope import Caller
from local2.protocol.payloads import Json, MemoryChange
from local2.tools.sessions import FEW_MESSAGES
from recalling import recall

RICHARD = caller_named("richard", agent="shell")
EVE = caller_named("eve", agent="shell")
GREEN = "Richard's favourite colour is green."
BLUE = "Richard's favourite colour is blue."


async def call(memory: Memory, name: str, caller: Caller = RICHARD, **args: Any) -> Any:
    """Run a tool; return its ToolOutput."""
    return await run_tool(memory, name, args, caller)


async def remember(memory: Memory, content: str, caller: Caller = RICHARD, **args: Any) -> Json:
    """Remember a fact; return the data of the answer."""
    output = await call(memory, "remember_fact", caller, content=content, **args)
    data: Json = msgspec.to_builtins(output.data)
    return data


async def standing(memory: Memory, *ids: str) -> list[str]:
    """Return the contents of those of the records that still stand."""
    found = await memory.ledger.records.by_id(ids)
    return [found[id_].content for id_ in ids if found[id_].superseded_by is None]


async def test_remembering_shows_what_stands_about_the_same_thing(memory: Memory) -> None:
    green = await remember(memory, GREEN)
    await remember(memory, "The invoices are checked on Fridays.")

    output = await call(memory, "remember_fact", content=BLUE)

    (related,) = msgspec.to_builtins(output.data)["related"]
    assert (related["id"], related["content"]) == (green["id"], GREEN)
    assert related["event_time"]
    remembered, line = output.content.splitlines()
    assert remembered == "Fact remembered."
    assert green["id"] in line
    assert GREEN in line
    assert "replaces=" in line
    assert "retire_fact" in line


async def test_a_fact_that_stands_under_a_key_is_shown_with_it(memory: Memory) -> None:
    await call(memory, "save_topic", topic="user.city", content="Oslo")

    output = await call(memory, "save_topic", topic="user.second_city", content="Oslo")

    (related,) = msgspec.to_builtins(output.data)["related"]
    assert (related["topic"], related["content"]) == ("user.city", "Oslo")
    assert "user.city: Oslo" in output.content


async def test_a_fact_about_nothing_known_is_answered_in_one_line(memory: Memory) -> None:
    await remember(memory, GREEN)

    output = await call(memory, "remember_fact", content="The invoices are checked on Fridays.")

    data = msgspec.to_builtins(output.data)
    assert output.content == "Fact remembered."
    assert (data["related"], data["related_in_time"]) == ([], True)


async def test_at_most_three_related_facts_are_shown_the_most_alike_first(memory: Memory) -> None:
    for number in range(12):
        await remember(memory, f"Invoice {number} was paid late.")
    for colour in ("red", "black", "white", "green"):
        await remember(memory, f"The bicycle of Ada is {colour}.")
    await remember(memory, "The bicycle of Ada is blue and has a broken chain.")

    related = (await remember(memory, "The bicycle of Ada has a new chain."))["related"]

    assert len(related) == 3
    assert related[0]["content"] == "The bicycle of Ada is blue and has a broken chain."


async def test_a_fact_replaces_those_it_names_in_the_same_call(
    memory: Memory, announced: list[tuple[str, MemoryChange]]
) -> None:
    green = await remember(memory, GREEN)

    blue = await remember(memory, BLUE, replaces=[green["id"]])

    assert (blue["replaced"], blue["related"]) == ([green["id"]], [])
    assert await standing(memory, green["id"], blue["id"]) == [BLUE]
    versions = await memory.of(RICHARD).facts.history(green["id"])
    assert [version.content for version in versions] == [BLUE, GREEN]
    superseded = [change for subject, change in announced if subject == "memory.superseded"]
    assert [(change.id, change.superseded_by) for change in superseded] == [
        (green["id"], blue["id"])
    ]


async def test_the_same_call_with_replaces_settles_a_fact_that_is_already_stored(
    memory: Memory, announced: list[tuple[str, MemoryChange]]
) -> None:
    green, blue = await remember(memory, GREEN), await remember(memory, BLUE)
    (related,) = blue["related"]

    settled = await remember(memory, BLUE, replaces=[related["id"]])
    again = await remember(memory, BLUE, replaces=[related["id"]])

    assert (settled["id"], settled["was_new"]) == (blue["id"], False)
    assert (settled["replaced"], again["replaced"]) == ([green["id"]], [])
    assert await standing(memory, green["id"], blue["id"]) == [BLUE]
    superseded = [change for subject, change in announced if subject == "memory.superseded"]
    assert [(change.id, change.superseded_by) for change in superseded] == [
        (green["id"], blue["id"])
    ]


async def test_a_fact_does_not_replace_itself(memory: Memory) -> None:
    green = await remember(memory, GREEN)

    await remember(memory, GREEN, replaces=[green["id"]])

    assert await standing(memory, green["id"]) == [GREEN]


async def test_a_replaced_topic_is_no_longer_looked_up(memory: Memory) -> None:
    saved = await call(memory, "save_topic", topic="user.colour", content="green")
    assert (await call(memory, "recall_topic", topic="user.colour")).content.endswith("green")

    await remember(memory, BLUE, replaces=[saved.data.id])

    assert (await call(memory, "recall_topic", topic="user.colour")).content == "No memories found."


async def test_saving_a_topic_shows_what_stands_about_the_same_thing(memory: Memory) -> None:
    python = await remember(memory, "The preferred language is Python.")

    output = await call(memory, "save_topic", topic="user.language_preference", content="Elixir")

    assert [fact.id for fact in output.data.related] == [python["id"]]
    saved, line = output.content.splitlines()
    assert saved == "Memory saved: user.language_preference"
    assert python["id"] in line


async def test_adding_knowledge_shows_what_stands_about_the_same_things(memory: Memory) -> None:
    works = {"subject": "Ada", "predicate": "works for", "object": "Northwind"}
    lives = {"subject": "Zoltan", "predicate": "lives in", "object": "Berlin"}
    known = await call(memory, "add_knowledge", facts=[works, lives])
    assert known.data.related == []

    output = await call(memory, "add_knowledge", facts=[{**works, "object": "Contoso"}, lives])

    assert [fact.content for fact in output.data.related] == ["Ada works for Northwind."]
    stored, line = output.content.splitlines()
    assert stored == "Facts stored: 1 new, 1 already known."
    assert known.data.facts[0].id in line


async def test_ingesting_a_turn_shows_what_stands_about_what_the_user_said(memory: Memory) -> None:
    green = await remember(memory, GREEN)
    await remember(memory, "The invoices are checked on Fridays.")
    said = {"role": "user", "content": "My favourite colour is blue, by the way."}
    reply = {"role": "assistant", "content": "Invoices are not checked on Fridays."}

    output = await call(memory, "ingest", messages=[said, reply])
    again = await call(memory, "ingest", messages=[said, reply])
    eves = await call(memory, "ingest", EVE, messages=[said, reply])

    assert [fact.id for fact in output.data.related] == [green["id"]]
    assert output.data.related_in_time
    stored, line = output.content.splitlines()
    assert stored.startswith("2 stored")
    assert green["id"] in line
    assert again.data.related == eves.data.related == []


async def test_ingesting_a_whole_conversation_looks_for_no_related_facts(memory: Memory) -> None:
    await remember(memory, GREEN)
    talk = [
        {"role": "user", "content": f"My favourite colour is blue, for the {n}th time."}
        for n in range(FEW_MESSAGES + 1)
    ]

    whole = await call(memory, "ingest", messages=talk, session_id="whole")
    piece = await call(memory, "ingest", messages=talk[1:], session_id="piece")

    assert whole.data.related == []
    assert [fact.content for fact in piece.data.related] == [GREEN]


async def test_a_retired_fact_is_not_found_but_stays_in_history_with_the_reason(
    memory: Memory, announced: list[tuple[str, MemoryChange]]
) -> None:
    green = await remember(memory, GREEN)
    service = memory.of(RICHARD)
    assert await recall(service, "favourite colour")

    retired = await call(memory, "retire_fact", ids=[green["id"]], reason="He has none any more.")
    again = await call(memory, "retire_fact", ids=[green["id"]], reason="He never had one.")

    assert retired.content == "Facts retired: 1."
    assert again.content == "Facts retired: 0, 1 already retired."
    assert (retired.data.retired, again.data.retired) == ([green["id"]], [])
    assert not await recall(service, "favourite colour")
    history = await call(memory, "memory_history", topic_or_id=green["id"])
    (version,) = history.data.versions
    assert (version.retired_why, version.reason) == ("withdrawn", "He has none any more.")
    assert "He has none any more." in history.content
    (entry,) = (await service.audit.trail(10, record_id=green["id"])).entries
    assert (entry.action, entry.reason, entry.by) == ("withdrawn", "He has none any more.", "self")
    assert [change for subject, change in announced if subject == "memory.retired"] == [
        MemoryChange(id=green["id"], kind="fact", memory_type="fact", why="withdrawn")
    ]


async def test_a_retired_fact_can_be_remembered_again(memory: Memory) -> None:
    green = await remember(memory, GREEN)
    await call(memory, "retire_fact", ids=[green["id"]], reason="A mistake.")

    again = await remember(memory, GREEN)

    assert again["was_new"]
    assert again["id"] != green["id"]


@pytest.fixture(params=["replaces", "ids"])
def argument(request: pytest.FixtureRequest) -> str:
    """The argument that names the facts to settle."""
    return str(request.param)


async def settle(memory: Memory, argument: str, *ids: str, caller: Caller = RICHARD) -> None:
    """Replace or retire facts."""
    if argument == "replaces":
        await remember(memory, BLUE, caller, replaces=list(ids))
    else:
        await call(memory, "retire_fact", caller, ids=list(ids), reason="It is blue.")


async def test_other_users_facts_cannot_be_settled(memory: Memory, argument: str) -> None:
    green = await remember(memory, GREEN)

    with pytest.raises(InvalidArgumentsError, match=rf"{argument}\[0\]: there is no fact"):
        await settle(memory, argument, green["id"], caller=EVE)

    assert await standing(memory, green["id"]) == [GREEN]


async def test_what_another_user_stated_for_everybody_cannot_be_settled(
    memory: Memory, argument: str
) -> None:
    green = await remember(memory, GREEN, scope="tenant")

    with pytest.raises(InvalidArgumentsError, match=rf"{argument}\[0\]: .* by another user"):
        await settle(memory, argument, green["id"], caller=EVE)

    assert await standing(memory, green["id"]) == [GREEN]
    shown = await remember(memory, BLUE, EVE, scope="tenant")
    assert shown["related"] == []


async def test_all_facts_are_settled_or_none(memory: Memory, argument: str) -> None:
    green = await remember(memory, GREEN)

    with pytest.raises(InvalidArgumentsError, match=rf"{argument}\[1\]: there is no fact"):
        await settle(memory, argument, green["id"], "unknown")

    assert (await memory.ledger.counts()).records == 1
    assert await standing(memory, green["id"]) == [GREEN]


async def test_what_is_no_fact_cannot_be_settled(memory: Memory, argument: str) -> None:
    (said,) = await memory.ledger.records.store([message(GREEN, owner="richard")])

    with pytest.raises(InvalidArgumentsError, match="there is no fact"):
        await settle(memory, argument, said.id)


async def test_a_role_that_may_not_write_to_a_scope_settles_nothing_there(
    memory: Memory, argument: str
) -> None:
    green = await remember(memory, GREEN, scope="tenant")
    writer = msgspec.structs.replace(RICHARD, writes=frozenset({"user"}))

    with pytest.raises(ForbiddenError):
        await settle(memory, argument, green["id"], caller=writer)

    assert await standing(memory, green["id"]) == [GREEN]


async def test_a_write_whose_related_facts_take_too_long_says_so(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    await remember(memory, GREEN)
    monkeypatch.setattr(facts_module, "RELATED_SECONDS", 0.0)

    async def never(_: object) -> object:
        return await asyncio.Event().wait()

    monkeypatch.setattr(memory.ledger.extraction, "related", never)
    output = await call(memory, "remember_fact", content=BLUE)

    assert (output.data.related, output.data.related_in_time) == ([], False)
    assert output.content.startswith("Fact remembered.\n(There was no time")
    assert await standing(memory, output.data.id) == [BLUE]


async def test_a_mistyped_key_is_answered_with_the_callers_own_keys_like_it(
    memory: Memory,
) -> None:
    await call(memory, "save_topic", topic="user.language_preference", content="Elixir")
    await call(memory, "save_topic", topic="user.shoe_size", content="43")
    await call(memory, "save_topic", EVE, topic="user.languages_preference", content="Greek")
    await call(memory, "save_topic", EVE, topic="project.deadline", content="1 December")

    answers = [
        (await call(memory, "recall_topic", topic=topic)).content
        for topic in ("user.languge_preference", "project.dedline", "user.city")
    ]
    await call(memory, "save_topic", topic="user.language_preference", content="Gleam")
    again = await call(memory, "recall_topic", topic="user.Language_Preferences")

    assert answers == [
        "No memories found.\n(Did you mean user.language_preference?)",
        "No memories found.\n(Did you mean project.deadline?)",
        "No memories found.",
    ]
    assert again.content == answers[0]
