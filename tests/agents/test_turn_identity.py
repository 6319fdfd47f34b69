"""Turns are distinguished when they are published again, revised, rated or share a query id."""

import json
from typing import Any

import pytest

from calling import RICHARD
from local2.bus.connection import Connection
from local2.bus.streams import publish_durably
from local2.client.tools import call_tool
from local2.generator.publication import TurnPublisher
from local2.ledger.engines.sqlite.database import Database
from local2.protocol.envelope import Caller
from local2.protocol.payloads import Generation, MemoryChange
from stored import records
from turns import GENERATION, all_done, episodes

pytestmark = pytest.mark.usefixtures("memory_agent", "tools")

WEIGH_CALL = {"id": "c1", "name": "weigh", "content": "Done."}


def turn(
    query: str,
    answer: str,
    at: int | None = None,
    *,
    query_id: object = 1,
    session: str = "s1",
    **more: Any,
) -> bytes:
    """Return a turn of Richard's, published `at` minutes after midnight."""
    payload = {"query": query, "answer": answer, "query_id": query_id, "session_id": session}
    envelope = {} if at is None else {"timestamp_utc": f"2026-11-20T00:{at:02}:00Z"}
    message = {"source": "critic", "user": "richard", **envelope, "payload": {**payload, **more}}
    return json.dumps(message).encode()


async def publish(bus: Connection, *messages: bytes) -> None:
    """Publish messages one by one, each after the previous one is in the ledger."""
    for message in messages:
        await publish_durably(bus, GENERATION, message)
        await all_done(bus)


async def publish_rating(
    bus: Connection, score: float, at: int | None = None, *, query_id: object = 1, **payload: Any
) -> None:
    envelope = {} if at is None else {"timestamp_utc": f"2026-11-20T00:{at:02}:30Z"}
    message = {
        "user": "richard",
        **envelope,
        "payload": {"query_id": query_id, "score": score, **payload},
    }
    await publish_durably(bus, "response.feedback", json.dumps(message).encode())
    await all_done(bus)


async def ask(bus: Connection, tool: str, caller: Caller = RICHARD, **args: Any) -> Any:
    """Return the `data` of a tool's result."""
    result = await call_tool(bus, tool, args, caller=caller)
    assert result.ok, result.content
    return result.data


async def session_contents(bus: Connection, session: str = "s1", limit: int = 100) -> list[str]:
    loaded = await ask(bus, "load_session", session_id=session, limit=limit)
    return [message["content"] for message in loaded["messages"]]


async def recalled_contents(bus: Connection, query: str) -> set[str]:
    episode_ratings = await ask(bus, "recall", query=query, top_k=20)
    return {item["content"] for item in episode_ratings["items"]}


async def episode_ratings(bus: Connection, query: str) -> dict[str, float | None]:
    """Return the episodes that a search finds, with their ratings."""
    hits = (await ask(bus, "search_memory", query=query))["hits"]
    return {hit["content"]: hit["metadata"].get("score") for hit in hits}


async def test_another_question_with_the_same_query_id_is_another_turn(bus: Connection) -> None:
    await publish(
        bus,
        turn("Which metal is dense?", "Osmium.", 1, tool_calls=[WEIGH_CALL]),
        turn("Which metal is light?", "Lithium.", 2, tool_calls=[WEIGH_CALL]),
    )

    assert await session_contents(bus) == [
        "Which metal is dense?", "", "Done.", "Osmium.",
        "Which metal is light?", "", "Done.", "Lithium.",
    ]  # fmt: skip
    assert {"Osmium.", "Lithium."} <= await recalled_contents(bus, "osmium or lithium")
    assert list(await episode_ratings(bus, "which metal is light")) == [
        "Q: Which metal is light?\nA: Lithium.",
        "Q: Which metal is dense?\nA: Osmium.",
    ]


async def test_the_same_turn_in_another_session_is_another_turn(bus: Connection) -> None:
    await publish(bus, *(turn("Which metal?", "Osmium.", 1, session=name) for name in ("s1", "s2")))

    assert (
        await session_contents(bus, "s1")
        == await session_contents(bus, "s2")
        == ["Which metal?", "Osmium."]
    )


@pytest.mark.parametrize("times", [(1, 5), (1, 1), (None, None)])
async def test_a_revised_answer_replaces_the_older_one(
    bus: Connection,
    database: Database,
    announced: list[tuple[str, MemoryChange]],
    times: tuple[int | None, int | None],
) -> None:
    first, second = times
    await publish(
        bus,
        turn("Which metal is the densest?", "Iridium.", first, tool_calls=[WEIGH_CALL]),
        turn("Why?", "Its atoms are heavy.", first, query_id=2),
        turn("Which metal is the densest?", "Osmium.", second, tool_calls=[WEIGH_CALL]),
    )

    assert await session_contents(bus) == [
        "Which metal is the densest?", "", "Done.", "Osmium.", "Why?", "Its atoms are heavy.",
    ]  # fmt: skip
    assert await session_contents(bus, limit=3) == ["Osmium.", "Why?", "Its atoms are heavy."]
    assert await session_contents(bus, limit=2) == ["Why?", "Its atoms are heavy."]
    assert "Iridium." not in await recalled_contents(bus, "iridium")
    assert "Osmium." in await recalled_contents(bus, "osmium")
    assert list(await episode_ratings(bus, "densest metal")) == [
        "Q: Which metal is the densest?\nA: Osmium."
    ]
    replaced = [change for subject, change in announced if subject == "memory.superseded"]
    assert [change.kind for change in replaced] == ["episode", "chat_message"]
    assert len(await records(database)) == 4 + 3 + 2


async def test_a_blank_answer_counts_as_none(bus: Connection) -> None:
    for answer in ("", " \n"):
        await publish(bus, turn("Which metal?", answer, tool_calls=[WEIGH_CALL]))
    assert await session_contents(bus) == ["Which metal?", "", "Done."]
    assert await episode_ratings(bus, "which metal") == {}

    for answer in ("Osmium.", " \n"):
        await publish(bus, turn("Which metal?", answer, tool_calls=[WEIGH_CALL]))
    assert await session_contents(bus) == ["Which metal?", "", "Done.", "Osmium."]
    assert list(await episode_ratings(bus, "which metal")) == ["Q: Which metal?\nA: Osmium."]


@pytest.mark.parametrize("at", [None, 1])
async def test_the_last_of_several_quick_answers_is_current(
    bus: Connection, at: int | None
) -> None:
    for number in range(30):
        await publish_durably(bus, GENERATION, turn("Which metal?", f"Metal {number}.", at))
    await all_done(bus)

    assert await session_contents(bus) == ["Which metal?", "Metal 29."]


async def test_a_revised_answer_is_recalled_together_with_its_question(bus: Connection) -> None:
    """It follows its question in the session, whenever it was written."""
    talk = (turn(f"Is it {number} o'clock?", "Yes.", 3, query_id=number) for number in range(2, 9))
    await publish(
        bus,
        turn("Which metal is the densest?", "Iridium.", 1),
        *talk,
        turn("Which metal is the densest?", "Osmium.", 9),
    )

    contents = await recalled_contents(bus, "the densest metal")
    assert {"Which metal is the densest?", "Osmium."} <= contents
    assert "Is it 8 o'clock?" not in contents  # the last message before the revision


async def test_every_version_of_an_answer_is_in_its_history(bus: Connection) -> None:
    answers = ("Iridium.", "Platinum.", "Osmium.")
    await publish(bus, *(turn("Densest?", answer, at) for at, answer in enumerate(answers)))
    (hit,) = (await ask(bus, "search_memory", query="densest"))["hits"]
    (item,) = [
        item
        for item in (await ask(bus, "recall", query="osmium"))["items"]
        if item["content"] == "Osmium."
    ]

    for id_, versions in (
        (hit["id"], [f"Q: Densest?\nA: {answer}" for answer in answers]),
        (item["id"], list(answers)),
    ):
        shown = (await ask(bus, "memory_history", topic_or_id=id_))["versions"]
        assert [version["content"] for version in shown] == versions[::-1]
        oldest = (await ask(bus, "memory_history", topic_or_id=shown[-1]["id"]))["versions"]
        assert oldest == shown
        assert [bool(version["superseded_by"]) for version in shown] == [False, True, True]


async def test_a_late_older_answer_does_not_replace_a_newer_one(
    bus: Connection, announced: list[tuple[str, MemoryChange]]
) -> None:
    older = turn("Densest?", "Iridium.", 1)
    await publish(bus, older, turn("Densest?", "Osmium.", 3), older)
    assert await session_contents(bus) == ["Densest?", "Osmium."]

    await publish(bus, turn("Densest?", "Platinum.", 2))

    assert await session_contents(bus) == ["Densest?", "Osmium."]
    assert list(await episode_ratings(bus, "densest")) == ["Q: Densest?\nA: Osmium."]
    (hit,) = (await ask(bus, "search_memory", query="densest"))["hits"]
    shown = (await ask(bus, "memory_history", topic_or_id=hit["id"]))["versions"]
    assert [version["content"].rpartition(" ")[2] for version in shown] == [
        "Osmium.",
        "Platinum.",
        "Iridium.",
    ]
    late = [change for subject, change in announced if subject == "memory.superseded"][-2:]
    assert [change.kind for change in late] == ["episode", "chat_message"]


async def test_an_answer_given_once_more_is_current_again(bus: Connection) -> None:
    once_more = turn("Densest?", "Osmium.", 3)
    await publish(
        bus, turn("Densest?", "Osmium.", 1), turn("Densest?", "Iridium.", 2), once_more, once_more
    )

    assert await session_contents(bus) == ["Densest?", "Osmium."]
    (hit,) = (await ask(bus, "search_memory", query="densest"))["hits"]
    shown = (await ask(bus, "memory_history", topic_or_id=hit["id"]))["versions"]
    assert [version["content"].rpartition(" ")[2] for version in shown] == [
        "Osmium.",
        "Iridium.",
        "Osmium.",
    ]


async def test_a_rating_applies_to_the_answer_that_was_current_at_its_time(bus: Connection) -> None:
    first, second = "Q: Which metal?\nA: Iridium.", "Q: Which metal?\nA: Osmium."
    await publish(bus, turn("Which metal?", "Iridium.", 1))
    await publish_rating(bus, -1, at=2)
    assert await episode_ratings(bus, "which metal") == {first: -1}

    await publish(bus, turn("Which metal?", "Osmium.", 4))
    assert await episode_ratings(bus, "which metal") == {second: None}
    await publish_rating(bus, -0.5, at=3)
    assert await episode_ratings(bus, "which metal") == {second: None}
    await publish_rating(bus, 1, at=5)
    assert await episode_ratings(bus, "which metal") == {second: 1}


async def test_a_rating_applies_to_its_whole_turn_and_to_no_revision(
    bus: Connection, database: Database
) -> None:
    async def scores() -> dict[str, float | None]:
        stored = [row for row in await records(database) if row["superseded_by"] is None]
        return {row["role"] or "episode": row["score"] for row in stored}

    await publish(bus, turn("Which metal?", "Iridium.", 1, tool_calls=[WEIGH_CALL]))
    await publish_rating(bus, 0.5, at=2)
    assert await scores() == dict.fromkeys(("episode", "user", "tool", "assistant"), 0.5)

    await publish(bus, turn("Which metal?", "Osmium.", 3))
    assert set((await scores()).values()) == {None}


async def test_a_rating_applies_to_the_newest_turn_of_the_query_id_at_its_time(
    bus: Connection,
) -> None:
    dense, light = "Q: Dense metal?\nA: Osmium.", "Q: Light metal?\nA: Lithium."
    await publish(
        bus, turn("Dense metal?", "Osmium.", 1), turn("Light metal?", "Lithium.", 3, session="s2")
    )
    await publish_rating(bus, 1, at=4)
    assert await episode_ratings(bus, "metal") == {light: 1, dense: None}

    await publish_rating(bus, 0.5, at=2)
    assert await episode_ratings(bus, "metal") == {light: 1, dense: 0.5}

    await publish_rating(bus, -1, at=5, session_id="s1")
    assert await episode_ratings(bus, "metal") == {light: 1, dense: -1}


async def test_a_rating_without_a_time_applies_to_the_current_answer(bus: Connection) -> None:
    await publish(bus, turn("Metal?", "Iridium."), turn("Metal?", "Osmium."))
    await publish_rating(bus, 1)

    assert await episode_ratings(bus, "metal") == {"Q: Metal?\nA: Osmium.": 1}


async def test_an_early_rating_waits_for_the_first_turn_of_its_query_id(
    bus: Connection, database: Database
) -> None:
    await publish_rating(bus, -1, at=8)
    await publish_rating(bus, 1, at=9)
    await publish_rating(bus, 0.5, at=9, session_id="s2")
    await publish(
        bus,
        turn("Dense metal?", "Osmium.", 1),
        turn("Light metal?", "Lithium.", 2),
        turn("Blue metal?", "Cobalt.", 3, session="s2"),
    )

    assert await episode_ratings(bus, "metal") == {
        "Q: Dense metal?\nA: Osmium.": 1,
        "Q: Light metal?\nA: Lithium.": None,
        "Q: Blue metal?\nA: Cobalt.": 0.5,
    }
    await publish_rating(bus, -1, at=0, query_id="later")
    assert len(await episodes(database)) == 3


async def test_turns_of_one_query_id_published_in_quick_succession_are_all_stored(
    bus: Connection,
) -> None:
    for query, answer in (("Metal?", "Iridium."), ("Metal?", "Osmium."), ("Gas?", "Radon.")):
        generation = Generation(query=query, answer=answer, session_id="s1", query_id="1")
        await TurnPublisher(bus).publish(generation, RICHARD)
    await all_done(bus)

    assert await session_contents(bus) == ["Metal?", "Osmium.", "Gas?", "Radon."]
