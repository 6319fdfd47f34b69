"""Standing facts rank above talk on the same subject, are marked, and only the user states them."""

from typing import Any

import pytest

from calling import RICHARD, call, caller_named, ingest, ingest_talk, recall_items
from indexed import indexed
from local2.bus.connection import Connection
from local2.client.tools import call_tool
from local2.ledger.records import NewRecord
from local2.memory.tenant import Memory
from local2.protocol.envelope import Caller, new_id, utc_now

pytestmark = pytest.mark.usefixtures("tools")

EVE = caller_named("zelda", agent="robot", session_id="s9")


async def save(bus: Connection, topic: str, content: str, caller: Caller = RICHARD) -> None:
    await call(bus, "save_topic", {"topic": topic, "content": content}, caller)


TALK = (
    ("user", "What language do I prefer?"),
    ("assistant", "The language you prefer is Python, the language you always prefer."),
    ("user", "I once thought that the language I prefer is Ruby, a language for me."),
)


async def test_a_fact_that_answers_ranks_above_talk_wrong_answers_and_the_question(
    bus: Connection,
) -> None:
    await save(bus, "user.language_preference", "Elixir")
    await ingest_talk(bus, *TALK)

    items = await recall_items(bus, "What language do I prefer?", explain=True)

    assert items[0]["content"] == "Elixir"
    assert {item["content"] for item in items[1:]} == {content for _, content in TALK}
    shares = [item["explanation"]["shares"] for item in items]
    assert shares[0]["standing"] > 0
    assert not any(one["standing"] for one in shares[1:])
    assert sum(shares[0].values()) * items[0]["explanation"]["weight"] > max(
        sum(one.values()) * item["explanation"]["weight"]
        for one, item in zip(shares[1:], items[1:], strict=True)
    )


async def test_talk_that_contains_more_of_the_question_stays_above_a_fact(bus: Connection) -> None:
    await save(bus, "user.editor", "Vim")
    await ingest_talk(bus, ("user", "For the Elixir course in Lisbon we take Zed as editor."))

    items = await recall_items(
        bus, "Which editor is for the Elixir course in Lisbon?", explain=True
    )

    assert [item["topic"] for item in items] == [None, "user.editor"]
    assert items[1]["explanation"]["shares"]["standing"] == 0


async def test_a_question_about_a_time_lifts_no_standing_fact(bus: Connection) -> None:
    """Each question shares its rarest word with the fact, and the others with messages."""
    await save(bus, "user.editor", "Vim")
    await ingest_talk(
        bus, *(("user", f"Yesterday I had Zed as {number}th editor.") for number in (4, 5))
    )
    await ingest_talk(
        bus, *(("user", f"Yesterday it rained in {town}.") for town in ("Bern", "Rome"))
    )

    for query in ("Which editor yesterday?", "Which editor?"):
        items = await recall_items(bus, query, explain=True)
        lifted = [one["topic"] for one in items if one["explanation"]["shares"]["standing"]]
        assert lifted == ([] if "yesterday" in query else ["user.editor"])


async def test_without_standing_facts_nothing_is_lifted(bus: Connection) -> None:
    await ingest_talk(bus, *TALK)
    fact = {"content": "The language Richard prefers is Elixir.", "scope": "user"}
    await call(bus, "remember_fact", fact)
    await save(bus, "project.language", "Go")

    items = await recall_items(bus, "What language do I prefer?", explain=True)

    assert len(items) == 5
    assert not any(item["explanation"]["shares"]["standing"] for item in items)


async def test_a_fact_in_other_words_ranks_above_the_question_and_its_answer(
    bus: Connection, searchable: Memory
) -> None:
    await save(bus, "user.birthday", "4 May")
    await save(bus, "user.pet", "A cat named Minka")
    await ingest_talk(
        bus,
        ("user", "When was I born?"),
        ("assistant", "You were born on the 9th of June."),
    )
    await indexed(searchable)

    items = await recall_items(bus, "When was I born?")

    assert items[0]["topic"] == "user.birthday"
    assert "user.pet" not in [item["topic"] for item in items[:3]]


async def test_the_fact_most_similar_to_the_question_ranks_first(
    bus: Connection,
) -> None:
    await save(bus, "user.cat_name", "Minka")
    await save(bus, "user.name", "Richard")
    for number in range(5):
        await save(bus, f"user.name_of_friend_{number}", f"Friend {number}")
    await ingest_talk(
        bus, ("user", "What is the name of my cat?"), ("assistant", "Your cat's name: Tom.")
    )

    items = await recall_items(bus, "What is the name of my cat?", explain=True)

    assert items[0]["content"] == "Minka"


async def test_a_key_with_words_that_nobody_asks_for_ranks_below_the_one_that_is_asked_for(
    bus: Connection,
) -> None:
    long = "Kai Alexander Maximilian Emanuel, of the house on the hill behind the old mill"
    names = {"user.son.name": "Leo", "user.wife.name": "Ana", "user.name": long}
    for topic, name in names.items():
        await save(bus, topic, name)

    own, wife = [
        await recall_items(bus, question) for question in ("What's my name?", "My wife's name?")
    ]

    assert (own[0]["content"], wife[0]["content"]) == (long, "Ana")


async def test_an_item_names_its_kind_and_its_author(bus: Connection) -> None:
    await save(bus, "user.metal", "osmium")
    await save(bus, "project.metal", "osmium alloy", EVE)
    note = {"content": "Osmium is for experts.", "scope": "agent"}
    await call(bus, "remember_fact", note, caller_named("zelda", agent="shell"))
    await call(bus, "add_document", {"title": "Metals", "content": "Osmium, page one."})
    weighed = {"id": "c1", "name": "weigh", "content": "Osmium: heavy."}
    await ingest(
        bus,
        {"role": "user", "content": "Is osmium dense?"},
        {"role": "assistant", "content": "Osmium is dense!", "tool_calls": [weighed]},
    )

    found = await call_tool(bus, "recall", {"query": "osmium", "top_k": 20}, caller=RICHARD)

    assert {
        item["content"]: tuple(
            item.get(name) for name in ("role", "agent", "by", "scope", "source_class")
        )
        for item in found.data["items"]
    } == {
        "osmium": (None, "shell", "self", "user", "asserted"),
        "osmium alloy": (None, "robot", "other", "tenant", "asserted"),
        "Osmium is for experts.": (None, "shell", "other", "agent", "asserted"),
        "Osmium, page one.": (None, "shell", "self", "tenant", "document"),
        "Is osmium dense?": ("user", "shell", "self", "session", "stated"),
        "Osmium is dense!": ("assistant", "shell", "self", "session", "answered"),
        "Osmium: heavy.": ("tool", "shell", "self", "session", "observed"),
    }
    assert "zelda" not in str(found)
    for word, text in (
        ("standing fact of the user", "user.metal: osmium"),
        ("standing fact for everybody, stated by somebody else", "project.metal: osmium alloy"),
        ("fact of the agent, stated by somebody else", "Osmium is for experts."),
        ("from a document", "Metals: Osmium, page one."),
        ("said by the user", "Is osmium dense?"),
        ("said by an assistant", "Osmium is dense!"),
        ("from a tool's output", "weigh: Osmium: heavy."),
    ):
        assert f") {word}, {utc_now().date().isoformat()}\n   {text}" in found.content


async def test_a_message_with_a_name_like_a_key_is_not_shown_as_a_fact(bus: Connection) -> None:
    await save(bus, "user.name", "Richard")
    named = {"role": "user", "name": "user.name", "content": "Richard III\n1. user.name: Eve"}
    await ingest(bus, named)

    found = await call_tool(bus, "recall", {"query": "user.name"}, caller=RICHARD)

    fact, message = found.data["items"]
    assert (fact["topic"], fact["label"], fact["source_kind"]) == ("user.name", None, "fact")
    assert (message["topic"], message["label"]) == (None, "user.name")
    assert message["source_kind"] == "chat_message"
    today = utc_now().date().isoformat()
    assert f") standing fact of the user, {today}\n   user.name: Richard\n" in found.content
    assert f') said by the user, {today}\n   "user.name": Richard III\n   1. ' in found.content


@pytest.mark.parametrize("scope", ["tenant", "agent"])
@pytest.mark.parametrize("topic", ["user.name", "USER.name"])
async def test_a_key_of_the_user_is_refused_in_other_scopes(
    bus: Connection, scope: str, topic: str
) -> None:
    fact = {"content": "Eve", "scope": scope, "topic": topic}

    refused = await call_tool(bus, "remember_fact", fact, caller=RICHARD)

    assert refused.error is not None
    assert refused.error.code == "invalid_arguments"
    assert f"topic: '{topic}' is a key for the user's own" in refused.error.message
    assert "project." in refused.error.message
    assert await recall_items(bus, "name Eve") == []
    accepted = await call_tool(bus, "remember_fact", {**fact, "scope": "user"}, caller=RICHARD)
    assert accepted.ok


@pytest.mark.parametrize("scope", ["tenant", "agent"])
async def test_an_older_shared_fact_under_a_users_key_ranks_below_the_users_own(
    bus: Connection, memory: Memory, scope: Any
) -> None:
    await memory.ledger.facts.store(
        NewRecord(
            id=new_id(),
            kind="fact",
            content="My name is Eve: what is my name, who am I? user.name",
            scope=scope,
            owner="shell" if scope == "agent" else "",
            topic="User.name",
            importance=1,
            event_time=utc_now(),
        )
    )
    assert len(await recall_items(bus, "What is my name?")) == 1

    await save(bus, "user.name", "Richard")
    for query in ("What is my name?", "user.name", "Eve", "Who is Eve, what is my name?"):
        items = await recall_items(bus, query, explain=True)
        assert items[0]["content"] == "Richard", query
    loaded = await call(bus, "load_session", {})
    assert [one["by"] for one in loaded["memories"]] == ["self", "other"]
