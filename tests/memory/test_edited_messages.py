"""An edited message is a newer version: the newest is found, and the older ones are history."""

from typing import Any

import pytest

from calling import call, caller_named, ingest
from local2.bus.connection import Connection
from local2.client.tools import call_tool
from local2.protocol.payloads import Json, MemoryChange

pytestmark = pytest.mark.usefixtures("tools")

TALK: list[Json] = [
    {"role": "user", "id": "m1", "content": "Ship it to Basel."},
    {"role": "assistant", "id": "m2", "content": "It goes out today."},
    {"role": "tool", "id": "m3", "name": "stock", "content": "4 in stock"},
]


def edited(number: int, text: str) -> Json:
    return {**TALK[number], "content": text}


def counts(ingested: dict[str, Any]) -> tuple[int, int, int]:
    return ingested["added"], ingested["changed"], ingested["known"]


async def load_contents(bus: Connection) -> list[str]:
    loaded = await call(bus, "load_session", {})
    return [message["content"] for message in loaded["messages"] if message["content"]]


async def found(bus: Connection, query: str) -> list[str]:
    recalled = await call(bus, "recall", {"query": query})
    return [item["content"] for item in recalled["items"]]


@pytest.mark.parametrize(
    ("number", "text"), [(0, "Ship it to Bern."), (1, "It goes out on Monday."), (2, "3 in stock")]
)
async def test_the_newest_version_is_found_and_loaded_in_place_of_the_older_one(
    bus: Connection, number: int, text: str
) -> None:
    first = await ingest(bus, *TALK)
    second = await ingest(bus, edited(number, text))

    assert (counts(first), counts(second)) == ((3, 0, 0), (0, 1, 0))
    old = TALK[number]["content"]
    assert (await found(bus, f"{text} {old}")).count(text) == 1
    assert old not in await found(bus, old)
    expected = [message["content"] for message in TALK]
    expected[number] = text
    assert await load_contents(bus) == expected


async def test_the_id_of_a_message_may_be_its_message_id(bus: Connection) -> None:
    message = {"role": "user", "message_id": "m1", "content": "Ship it to Basel."}
    first = await ingest(bus, message)
    second = await ingest(bus, {**message, "content": "Ship it to Bern."})

    assert (counts(first), counts(second)) == ((1, 0, 0), (0, 1, 0))


async def test_the_history_lists_every_version_newest_first(
    bus: Connection, announced: list[tuple[str, MemoryChange]]
) -> None:
    (first,) = (await ingest(bus, TALK[0]))["ids"]
    (second,) = (await ingest(bus, edited(0, "To Bern.")))["ids"]
    (third,) = (await ingest(bus, edited(0, "To Chur.")))["ids"]

    for id_ in (first, second, third):
        history = await call(bus, "memory_history", {"topic_or_id": id_})
        versions = [
            (one["id"], one["content"], one["superseded_by"]) for one in history["versions"]
        ]
        assert versions == [
            (third, "To Chur.", None),
            (second, "To Bern.", third),
            (first, "Ship it to Basel.", second),
        ]
    replaced = [change for subject, change in announced if subject == "memory.superseded"]
    assert [(one.id, one.superseded_by) for one in replaced] == [(first, second), (second, third)]


async def test_the_last_text_sent_is_active_even_if_it_is_an_old_one(bus: Connection) -> None:
    await ingest(bus, *TALK)
    await ingest(bus, edited(0, "To Bern."))
    same = await ingest(bus, edited(0, "To Bern."))
    whole = await ingest(bus, *TALK)
    again = await ingest(bus, *TALK)

    assert [counts(one) for one in (same, whole, again)] == [(0, 0, 1), (0, 1, 2), (0, 0, 3)]
    assert await load_contents(bus) == [message["content"] for message in TALK]


async def test_texts_with_one_id_in_one_request_are_successive_edits(bus: Connection) -> None:
    ingested = await ingest(bus, *TALK, edited(0, "To Bern."), edited(0, "To Chur."))

    assert counts(ingested) == (3, 2, 0)
    assert await load_contents(bus) == ["To Chur.", "It goes out today.", "4 in stock"]
    assert len(ingested["ids"]) == 5


async def test_a_blank_message_may_gain_text_and_lose_it(bus: Connection) -> None:
    await ingest(bus, edited(0, " "), TALK[1])
    assert await found(bus, "Basel") == []

    assert counts(await ingest(bus, TALK[0])) == (0, 1, 0)
    assert (await found(bus, "Basel"))[:1] == ["Ship it to Basel."]

    await ingest(bus, edited(0, ""))
    assert "Ship it to Basel." not in await found(bus, "Basel")


async def test_the_same_id_in_another_role_session_or_user_is_another_message(
    bus: Connection,
) -> None:
    await ingest(bus, TALK[0])
    other = {"role": "assistant", "id": "m1", "content": "To Basel, then."}

    assert counts(await ingest(bus, other)) == (1, 0, 0)
    args = {"messages": [edited(0, "Hello.")]}
    in_other_session = await call(bus, "ingest", {**args, "session_id": "s2"})
    assert counts(in_other_session) == (1, 0, 0)
    theirs = await call_tool(bus, "ingest", args, caller=caller_named("eve", session_id="s1"))
    assert counts(theirs.data) == (1, 0, 0)
    assert await load_contents(bus) == ["Ship it to Basel.", "To Basel, then."]


async def test_a_new_message_between_known_ones_is_loaded_between_them(bus: Connection) -> None:
    """This happens when a conversation is resent that an older release stored incompletely."""
    await ingest(bus, *TALK)
    system = {"role": "system", "content": "Be brief."}
    late = {"role": "user", "id": "m1b", "content": "By post."}

    assert counts(await ingest(bus, system, TALK[0], late, *TALK[1:])) == (2, 0, 3)
    texts = [message["content"] for message in TALK]
    assert await load_contents(bus) == ["Be brief.", texts[0], "By post.", *texts[1:]]


async def test_resending_a_conversation_with_edits_changes_nothing(
    bus: Connection,
) -> None:
    versions = [TALK[0], edited(0, "Ship it to Bern."), TALK[0], edited(0, "Ship it to Chur.")]

    assert counts(await ingest(bus, *versions[:2], TALK[1])) == (2, 1, 0)
    assert counts(await ingest(bus, *versions[:2], TALK[1])) == (0, 0, 3)
    assert counts(await ingest(bus, *versions, TALK[1])) == (0, 2, 3)
    assert counts(await ingest(bus, *versions, TALK[1])) == (0, 0, 5)
    assert await load_contents(bus) == ["Ship it to Chur.", "It goes out today."]
