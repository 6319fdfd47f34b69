"""What a turn is: published again, revised, numbered like another one, rated."""

import json
from typing import Any

import pytest

from calling import RICHARD
from local.bus.connection import Connection
from local.bus.streams import publish_durably
from local.client.tools import call_tool
from local.generator.publication import TurnPublisher
from local.ledger.sqlite.database import Database, SqlConnection
from local.protocol.envelope import Caller
from local.protocol.payloads import Generation, MemoryChange
from turns import GENERATION, all_done, episodes, rows

pytestmark = pytest.mark.usefixtures("memory_agent", "tools")

WEIGHED = {"id": "c1", "name": "weigh", "content": "Done."}


def turn(
    query: str,
    answer: str,
    at: int | None = None,
    *,
    query_id: object = 1,
    session: str = "s1",
    **more: Any,
) -> bytes:
    """A turn of Richard's, published so many minutes after midnight."""
    payload = {"query": query, "answer": answer, "query_id": query_id, "session_id": session}
    envelope = {} if at is None else {"timestamp_utc": f"2026-11-20T00:{at:02}:00Z"}
    message = {"source": "critic", "user": "richard", **envelope, "payload": {**payload, **more}}
    return json.dumps(message).encode()


async def published(bus: Connection, *messages: bytes) -> None:
    """Publish one after the other, each once the one before is in the ledger."""
    for message in messages:
        await publish_durably(bus, GENERATION, message)
        await all_done(bus)


async def rated(
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
    """The `data` of a tool's result."""
    result = await call_tool(bus, tool, args, caller=caller)
    assert result.ok, result.content
    return result.data


async def told(bus: Connection, session: str = "s1", limit: int = 100) -> list[str]:
    loaded = await ask(bus, "load_session", session_id=session, limit=limit)
    return [message["content"] for message in loaded["messages"]]


async def recalled(bus: Connection, query: str) -> set[str]:
    found = await ask(bus, "recall", query=query, top_k=20)
    return {item["content"] for item in found["items"]}


async def found(bus: Connection, query: str) -> dict[str, float | None]:
    """The episodes that a search finds, with their ratings."""
    hits = (await ask(bus, "search_memory", query=query))["hits"]
    return {hit["content"]: hit["metadata"].get("score") for hit in hits}


async def test_the_same_turn_again_changes_nothing(
    bus: Connection, database: Database, announced: list[tuple[str, MemoryChange]]
) -> None:
    again = turn("Which metal?", "Osmium.", 1, tool_calls=[WEIGHED])
    await published(bus, again)
    kept, told_once = await rows(database), len(announced)

    later = turn("Which metal?", "Osmium.", 9, tool_calls=[WEIGHED])
    await published(bus, again, later)

    assert await rows(database) == kept
    assert len(kept) == told_once == 4


async def test_another_question_of_the_same_query_id_is_another_turn(bus: Connection) -> None:
    await published(
        bus,
        turn("Which metal is dense?", "Osmium.", 1, tool_calls=[WEIGHED]),
        turn("Which metal is light?", "Lithium.", 2, tool_calls=[WEIGHED]),
    )

    assert await told(bus) == [
        "Which metal is dense?", "", "Done.", "Osmium.",
        "Which metal is light?", "", "Done.", "Lithium.",
    ]  # fmt: skip
    assert {"Osmium.", "Lithium."} <= await recalled(bus, "osmium or lithium")
    assert list(await found(bus, "which metal is light")) == [
        "Q: Which metal is light?\nA: Lithium.",
        "Q: Which metal is dense?\nA: Osmium.",
    ]


async def test_the_same_turn_in_another_session_is_another_turn(bus: Connection) -> None:
    await published(
        bus, *(turn("Which metal?", "Osmium.", 1, session=name) for name in ("s1", "s2"))
    )

    assert await told(bus, "s1") == await told(bus, "s2") == ["Which metal?", "Osmium."]


@pytest.mark.parametrize("times", [(1, 5), (1, 1), (None, None)])
async def test_a_revised_answer_takes_the_place_of_the_older_one(
    bus: Connection,
    database: Database,
    announced: list[tuple[str, MemoryChange]],
    times: tuple[int | None, int | None],
) -> None:
    first, second = times
    await published(
        bus,
        turn("Which metal is the densest?", "Iridium.", first, tool_calls=[WEIGHED]),
        turn("Why?", "Its atoms are heavy.", first, query_id=2),
        turn("Which metal is the densest?", "Osmium.", second, tool_calls=[WEIGHED]),
    )

    assert await told(bus) == [
        "Which metal is the densest?", "", "Done.", "Osmium.", "Why?", "Its atoms are heavy.",
    ]  # fmt: skip
    assert await told(bus, limit=3) == ["Osmium.", "Why?", "Its atoms are heavy."]
    assert await told(bus, limit=2) == ["Why?", "Its atoms are heavy."]
    assert "Iridium." not in await recalled(bus, "iridium")
    assert "Osmium." in await recalled(bus, "osmium")
    assert list(await found(bus, "densest metal")) == ["Q: Which metal is the densest?\nA: Osmium."]
    replaced = [change for subject, change in announced if subject == "memory.superseded"]
    assert [change.kind for change in replaced] == ["episode", "chat_message"]
    assert len(await rows(database)) == 4 + 3 + 2


@pytest.mark.parametrize("at", [None, 1])
async def test_of_answers_that_come_close_upon_each_other_the_last_one_stands(
    bus: Connection, at: int | None
) -> None:
    for number in range(30):
        await publish_durably(bus, GENERATION, turn("Which metal?", f"Metal {number}.", at))
    await all_done(bus)

    assert await told(bus) == ["Which metal?", "Metal 29."]


async def test_a_revised_answer_is_found_by_its_question(bus: Connection) -> None:
    """It stands behind it, wherever it was written."""
    talk = (turn(f"Is it {number} o'clock?", "Yes.", 3, query_id=number) for number in range(2, 9))
    await published(
        bus,
        turn("Which metal is the densest?", "Iridium.", 1),
        *talk,
        turn("Which metal is the densest?", "Osmium.", 9),
    )

    found = await recalled(bus, "the densest metal")
    assert {"Which metal is the densest?", "Osmium."} <= found
    assert "Is it 8 o'clock?" not in found  # the last one before the answer was revised


async def test_every_version_of_an_answer_is_in_its_history(bus: Connection) -> None:
    answers = ("Iridium.", "Platinum.", "Osmium.")
    await published(bus, *(turn("Densest?", answer, at) for at, answer in enumerate(answers)))
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


async def test_an_older_answer_that_comes_late_displaces_no_newer_one(
    bus: Connection, announced: list[tuple[str, MemoryChange]]
) -> None:
    older = turn("Densest?", "Iridium.", 1)
    await published(bus, older, turn("Densest?", "Osmium.", 3), older)
    assert await told(bus) == ["Densest?", "Osmium."]

    await published(bus, turn("Densest?", "Platinum.", 2))

    assert await told(bus) == ["Densest?", "Osmium."]
    assert list(await found(bus, "densest")) == ["Q: Densest?\nA: Osmium."]
    (hit,) = (await ask(bus, "search_memory", query="densest"))["hits"]
    shown = (await ask(bus, "memory_history", topic_or_id=hit["id"]))["versions"]
    assert [version["content"].rpartition(" ")[2] for version in shown] == [
        "Osmium.",
        "Platinum.",
        "Iridium.",
    ]
    late = [change for subject, change in announced if subject == "memory.superseded"][-2:]
    assert [change.kind for change in late] == ["episode", "chat_message"]


async def test_an_answer_that_is_given_once_more_stands_again(bus: Connection) -> None:
    once_more = turn("Densest?", "Osmium.", 3)
    await published(
        bus, turn("Densest?", "Osmium.", 1), turn("Densest?", "Iridium.", 2), once_more, once_more
    )

    assert await told(bus) == ["Densest?", "Osmium."]
    (hit,) = (await ask(bus, "search_memory", query="densest"))["hits"]
    shown = (await ask(bus, "memory_history", topic_or_id=hit["id"]))["versions"]
    assert [version["content"].rpartition(" ")[2] for version in shown] == [
        "Osmium.",
        "Iridium.",
        "Osmium.",
    ]


async def test_a_rating_goes_to_the_answer_that_stood_when_it_was_given(bus: Connection) -> None:
    first, second = "Q: Which metal?\nA: Iridium.", "Q: Which metal?\nA: Osmium."
    await published(bus, turn("Which metal?", "Iridium.", 1))
    await rated(bus, -1, at=2)
    assert await found(bus, "which metal") == {first: -1}

    await published(bus, turn("Which metal?", "Osmium.", 4))
    assert await found(bus, "which metal") == {second: None}
    await rated(bus, -0.5, at=3)
    assert await found(bus, "which metal") == {second: None}
    await rated(bus, 1, at=5)
    assert await found(bus, "which metal") == {second: 1}


async def test_a_rating_lifts_the_whole_turn_that_it_rates_and_no_revision(
    bus: Connection, database: Database
) -> None:
    def scores(connection: SqlConnection) -> dict[str, float | None]:
        found = connection.execute("SELECT role, score FROM record WHERE superseded_by IS NULL")
        return {role or "episode": score for role, score in found}

    await published(bus, turn("Which metal?", "Iridium.", 1, tool_calls=[WEIGHED]))
    await rated(bus, 0.5, at=2)
    assert await database.read(scores) == dict.fromkeys(
        ("episode", "user", "tool", "assistant"), 0.5
    )

    await published(bus, turn("Which metal?", "Osmium.", 3))
    assert set((await database.read(scores)).values()) == {None}


async def test_of_two_turns_of_a_query_id_the_newest_at_its_time_is_rated(
    bus: Connection,
) -> None:
    dense, light = "Q: Dense metal?\nA: Osmium.", "Q: Light metal?\nA: Lithium."
    await published(
        bus, turn("Dense metal?", "Osmium.", 1), turn("Light metal?", "Lithium.", 3, session="s2")
    )
    await rated(bus, 1, at=4)
    assert await found(bus, "metal") == {light: 1, dense: None}

    await rated(bus, 0.5, at=2)
    assert await found(bus, "metal") == {light: 1, dense: 0.5}

    await rated(bus, -1, at=5, session_id="s1")
    assert await found(bus, "metal") == {light: 1, dense: -1}


async def test_a_rating_without_a_time_is_of_the_answer_that_stands(bus: Connection) -> None:
    await published(bus, turn("Metal?", "Iridium."), turn("Metal?", "Osmium."))
    await rated(bus, 1)

    assert await found(bus, "metal") == {"Q: Metal?\nA: Osmium.": 1}


async def test_a_rating_that_comes_first_waits_for_the_first_turn_of_its_query_id(
    bus: Connection, database: Database
) -> None:
    await rated(bus, -1, at=8)
    await rated(bus, 1, at=9)
    await rated(bus, 0.5, at=9, session_id="s2")
    await published(
        bus,
        turn("Dense metal?", "Osmium.", 1),
        turn("Light metal?", "Lithium.", 2),
        turn("Blue metal?", "Cobalt.", 3, session="s2"),
    )

    assert await found(bus, "metal") == {
        "Q: Dense metal?\nA: Osmium.": 1,
        "Q: Light metal?\nA: Lithium.": None,
        "Q: Blue metal?\nA: Cobalt.": 0.5,
    }
    await rated(bus, -1, at=0, query_id="later")
    assert len(await episodes(database)) == 3


async def test_an_older_rating_that_comes_late_does_not_count(bus: Connection) -> None:
    await published(bus, turn("Metal?", "Osmium.", 1))
    await rated(bus, 1, at=3)
    await rated(bus, -1, at=2)

    assert await found(bus, "metal") == {"Q: Metal?\nA: Osmium.": 1}


async def test_a_rating_of_another_user_counts_for_nothing(bus: Connection) -> None:
    await published(bus, turn("Metal?", "Osmium.", 1))
    message = {"user": "eve", "payload": {"query_id": 1, "score": -1}}
    await publish_durably(bus, "response.feedback", json.dumps(message).encode())
    await all_done(bus)

    assert await found(bus, "metal") == {"Q: Metal?\nA: Osmium.": None}


async def test_two_turns_of_a_query_id_are_both_stored_when_published_at_once(
    bus: Connection,
) -> None:
    for query, answer in (("Metal?", "Iridium."), ("Metal?", "Osmium."), ("Gas?", "Radon.")):
        said = Generation(query=query, answer=answer, session_id="s1", query_id="1")
        await TurnPublisher(bus).publish(said, RICHARD)
    await all_done(bus)

    assert await told(bus) == ["Metal?", "Osmium.", "Gas?", "Radon."]
