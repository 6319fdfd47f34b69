"""Topic keys over the bus: in any script and case, each shown as first written."""

import pytest

from calling import answer, caller_named
from local2.bus.connection import Connection
from local2.protocol.payloads import MemoryChange

pytestmark = pytest.mark.usefixtures("tools")

EVE = caller_named("eve", agent="shell")


@pytest.mark.parametrize(
    ("first", "other"),
    [
        ("user.Name", "USER.name"),
        ("user.Lieblingsmusikstück", "user.lieblingsmusikstu\u0308ck"),
        ("User.любимый-Язык", "user.ЛЮБИМЫЙ-язык"),
        ("user.पसंदीदा_भाषा", "User.पसंदीदा_भाषा"),
        ("Project.締め切り", "project.締め切り"),
    ],
)
async def test_a_topic_has_one_value_and_keeps_its_first_spelling(
    bus: Connection,
    announced: list[tuple[str, MemoryChange]],
    first: str,
    other: str,
) -> None:
    saved = await answer(bus, "save_topic", {"topic": first, "content": "one"})
    again = await answer(bus, "save_topic", {"topic": other, "content": "one"})
    replaced = await answer(bus, "save_topic", {"topic": other, "content": "two"})
    recalled = [await answer(bus, "recall_topic", {"topic": topic}) for topic in (first, other)]
    history = await answer(bus, "memory_history", {"topic_or_id": other})

    assert (again.data["id"], again.data["was_new"]) == (saved.data["id"], False)
    assert replaced.data["superseded"] == saved.data["id"]
    for result in (saved, again, replaced):
        assert (result.content, result.data["topic"]) == (f"Memory saved: {first}", first)
    for result in recalled:
        assert result.content == f"[Memory: {first}] two"
        assert (result.data["topic"], result.data["content"]) == (first, "two")
    versions = [(one["content"], one["topic"]) for one in history.data["versions"]]
    assert versions == [("two", first), ("one", first)]
    assert {change.topic for _, change in announced} == {first}


async def test_a_key_in_a_question_is_found_in_any_case(bus: Connection) -> None:
    await answer(bus, "save_topic", {"topic": "user.Любимый_Язык", "content": "Elixir"})
    for n in range(5):
        await answer(bus, "save_topic", {"topic": f"user.key_{n}", "content": f"Rust {n}"})

    found = await answer(bus, "recall", {"query": "USER.любимый_язык?", "explain": True})

    item = found.data["items"][0]
    assert (item["content"], item["topic"]) == ("Elixir", "user.Любимый_Язык")
    assert item["explanation"]["shares"]["topic"] == 1


async def test_a_user_topic_belongs_to_the_user_in_any_case(bus: Connection) -> None:
    await answer(bus, "save_topic", {"topic": "USER.Name", "content": "Richard"})

    theirs = await answer(bus, "recall_topic", {"topic": "User.Name"}, EVE)
    await answer(bus, "save_topic", {"topic": "user.NAME", "content": "Eve"}, EVE)
    mine = await answer(bus, "recall_topic", {"topic": "user.name"})

    assert theirs.data["found"] is False
    assert mine.content == "[Memory: USER.Name] Richard"
