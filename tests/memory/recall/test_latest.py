"""The latest of a user's similar messages is first, and a correction precedes what it corrects."""

import pytest

from calling import RICHARD, call, ingest
from local.bus.connection import Connection
from local.protocol.payloads import Json

pytestmark = pytest.mark.usefixtures("tools")

LIMIT = "The API limit is 100 requests per minute."
RAISED = "They raised the API limit to 250 requests per minute."
FAR_FUTURE = "9999-01-01T00:00:00Z"
HOW_MUCH = "What is the API limit?"


async def store_messages(
    bus: Connection, *messages: str, role: str = "user", session: str = "s1"
) -> None:
    """Store each message on a different day."""
    for day, content in enumerate(messages, start=1):
        timestamp = f"2026-05-{day:02}T12:00:00Z"
        message = {"role": role, "content": content, "timestamp": timestamp}
        await call(bus, "ingest", {"messages": [message], "session_id": session}, RICHARD)


async def recall(bus: Connection, query: str) -> list[Json]:
    answer = await call(bus, "recall", {"query": query, "explain": True}, RICHARD)
    items: list[Json] = answer["items"]
    return items


async def contents(bus: Connection, query: str) -> list[str]:
    return [item["content"] for item in await recall(bus, query)]


def is_reordered(items: list[Json]) -> bool:
    return any(item["explanation"]["shares"].get("update") for item in items)


async def test_the_later_of_two_similar_messages_is_first(bus: Connection) -> None:
    await store_messages(bus, LIMIT, RAISED)

    items = await recall(bus, HOW_MUCH)
    assert [item["content"] for item in items] == [RAISED, LIMIT]
    assert is_reordered(items)


async def test_messages_without_times_are_in_the_order_of_their_conversation(
    bus: Connection,
) -> None:
    """They were all received at the same time."""
    earlier, later = "The nightly backup runs at 2 am.", "We shifted the backup to 4 am."
    messages = [{"role": "user", "content": content} for content in (earlier, later)]
    await call(bus, "ingest", {"messages": messages, "session_id": "s1"}, RICHARD)

    assert await contents(bus, "When does the backup run?") == [later, earlier]


async def test_the_latest_is_before_all_that_former_values_had_replaced(bus: Connection) -> None:
    second, third = "The API limit is 150 a key.", "They raised the API limit to 250 a key."
    await store_messages(bus, LIMIT, second, third)

    assert (await contents(bus, "How many requests per minute is the API limit?"))[0] == third


@pytest.mark.parametrize(
    ("earlier", "later", "query"),
    [
        pytest.param(LIMIT, RAISED, "What was the API limit before?", id="about the past"),
        pytest.param(LIMIT, "What is the API limit per minute?", HOW_MUCH, id="a question"),
        pytest.param(
            LIMIT,
            "Nobody likes the API: its limit, its errors, its manual.",
            HOW_MUCH,
            id="less similar",
        ),
        pytest.param(
            "The limit of the billing API is 100 requests per minute.",
            "They raised the limit of the search API to 250 requests per minute.",
            "What is the limit of the billing API?",
            id="another thing",
        ),
        pytest.param(
            "The official language of Estonia is Estonian.",
            "The official language of Latvia is Latvian.",
            "What is the official language?",
            id="another thing in the same form",
        ),
        pytest.param(" ".join([LIMIT] * 5), RAISED, HOW_MUCH, id="long"),
    ],
)
async def test_other_messages_keep_their_places(
    bus: Connection, earlier: str, later: str, query: str
) -> None:
    await store_messages(bus, earlier, later)

    assert not is_reordered(await recall(bus, query))


async def test_a_later_message_of_another_speaker_keeps_its_place(bus: Connection) -> None:
    await store_messages(bus, LIMIT)
    await store_messages(bus, "I see.", RAISED, role="assistant", session="s2")

    assert not is_reordered(await recall(bus, HOW_MUCH))


@pytest.mark.parametrize("future", [0, 1])
async def test_a_message_dated_in_the_future_is_as_new_as_it_was_when_stored(
    bus: Connection, future: int
) -> None:
    for number, content in enumerate((LIMIT, RAISED)):
        timestamp = FAR_FUTURE if number == future else None
        await ingest(bus, {"role": "user", "content": content, "timestamp": timestamp})

    items = await recall(bus, HOW_MUCH)
    assert [item["content"] for item in items] == [RAISED, LIMIT]
    assert items[1 - future]["event_time"] == FAR_FUTURE
    assert is_reordered(items)


@pytest.mark.parametrize("correction", ["No, I meant Wednesday.", "Sorry - make that Wednesday!"])
async def test_a_correction_precedes_the_message_that_it_corrects(
    bus: Connection, correction: str
) -> None:
    dentist = "My dentist appointment is on Tuesday."
    statement = {"role": "user", "content": dentist}
    noted = {"role": "assistant", "content": "Noted."}
    await ingest(
        bus, statement, noted, {"role": "user", "content": correction}, noted | {"id": "m4"}
    )

    assert (await contents(bus, "When was my dentist appointment?"))[:2] == [correction, dentist]


async def test_a_value_instead_of_one_in_the_message_before_is_a_correction(
    bus: Connection,
) -> None:
    size, correction = "My running shoes are size 42.", "Actually it's 43, not 42."
    await ingest(bus, {"role": "user", "content": size}, {"role": "user", "content": correction})

    assert await contents(bus, "Which size are my running shoes?") == [correction, size]


@pytest.mark.parametrize(
    ("earlier", "later", "query"),
    [
        pytest.param(
            "The backup runs at 2 am.",
            "We shifted the nightly backup to 4 am because of the batch job.",
            "When does the backup run?",
            id="another value",
        ),
        pytest.param(
            "I work at Falk as an accountant.",
            "I left Falk for Lind in the spring, much better hours.",
            "Where do I work as an accountant?",
            id="without a word of the question",
        ),
    ],
)
async def test_an_announced_change_is_first(
    bus: Connection, earlier: str, later: str, query: str
) -> None:
    await store_messages(bus, earlier, session="s1")
    await store_messages(bus, "The rain never stops.", later, session="s2")

    assert (await contents(bus, query))[:2] == [later, earlier]
    assert not any(item.get("outdated_by") for item in await recall(bus, query))


@pytest.mark.parametrize(
    ("earlier", "later", "query", "reordered"),
    [
        pytest.param(
            "The review of the quarter is on Monday.",
            "We've moved the review to Thursday.",
            "When is the review of the quarter?",
            True,
            id="of a common thing",
        ),
        pytest.param(
            "The rent of our flat is 700.",
            "They raised my rent to 900.",
            "What is the rent of the flat?",
            False,
            id="of oneself",
        ),
    ],
)
async def test_another_speaker_announces_changes_of_common_things_only(
    bus: Connection, earlier: str, later: str, query: str, reordered: bool
) -> None:
    messages = [
        {"role": "user", "name": name, "content": content, "timestamp": f"2026-05-0{day}T12:00:00Z"}
        for day, (name, content) in enumerate([("Ines", earlier), ("Bo", later)], start=1)
    ]
    for message in messages:
        await call(bus, "ingest", {"messages": [message], "session_id": "team"}, RICHARD)

    assert is_reordered(await recall(bus, query)) is reordered


async def test_only_a_correction_moves_before_another_message(bus: Connection) -> None:
    dentist = "My dentist appointment is on Tuesday."
    await ingest(
        bus,
        {"role": "user", "content": dentist},
        {"role": "assistant", "content": "Noted."},
        {"role": "user", "content": "No, thank you, I meant to ask nothing else on Wednesday."},
    )

    assert not is_reordered(await recall(bus, "When is my dentist appointment?"))
