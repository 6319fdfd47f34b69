"""A reply ranks above the question that it answers."""

import pytest

from calling import RICHARD, call, ingest
from local2.bus.connection import Connection
from local2.protocol.payloads import Json

pytestmark = pytest.mark.usefixtures("tools")

STRINGS = "Elixir 12-53, phosphor bronze, as ever."


async def recall_items(bus: Connection, query: str) -> list[Json]:
    found = await call(bus, "recall", {"query": query, "explain": True}, RICHARD)
    items: list[Json] = found["items"]
    return items


async def ingest_talk(bus: Connection, *message: tuple[str, str]) -> None:
    await ingest(bus, *({"role": role, "content": content} for role, content in message))


async def test_an_answer_ranks_above_an_earlier_identical_question(bus: Connection) -> None:
    question, answer = "Where is the spare key of the boat?", "It hangs behind the blue door."
    await ingest_talk(
        bus, ("user", question), ("assistant", answer), ("user", "Thank you, that helps.")
    )

    first, second, *_ = await recall_items(bus, question)

    assert [first["content"], second["content"]] == [answer, question]
    assert first["explanation"]["shares"]["reply"] > 0 > second["explanation"]["shares"]["reply"]


@pytest.mark.parametrize("remark", ["", "Nice, a modal tuning. ", "I see! "])
async def test_a_persons_reply_ranks_above_the_models_question(
    bus: Connection, remark: str
) -> None:
    asks = f"{remark}What strings does your guitar have?"
    await ingest_talk(bus, ("user", "I play in DADGAD."), ("assistant", asks), ("user", STRINGS))

    items = await recall_items(bus, "What strings does my guitar have?")

    assert [item["content"] for item in items][:2] == [STRINGS, asks]


async def test_a_short_reply_ranks_above_a_persons_question_in_other_words(bus: Connection) -> None:
    asks, reply = "Which strings suit my guitar best?", "Phosphor bronze, twelve to fifty-three."
    await ingest_talk(bus, ("user", asks), ("assistant", reply))

    items = await recall_items(bus, "What are my strings made of?")

    assert [item["content"] for item in items] == [reply, asks]


async def test_a_long_reply_keeps_its_place_unless_the_question_is_repeated(
    bus: Connection,
) -> None:
    asks, long = "Which strings suit my guitar best?", "It depends on how you play. " * 40
    await ingest_talk(bus, ("user", asks), ("assistant", long))

    others, repeated = [
        await recall_items(bus, query) for query in ("What are my strings made of?", asks)
    ]

    assert others[0]["content"] == asks
    assert repeated[0]["content"] == long


async def test_a_models_reply_does_not_rise_above_what_the_user_stated(bus: Connection) -> None:
    asks = "Am I, as far as you know, allergic to some medicine or food?"
    answer = "None that I know of, amoxicillin is fine."
    stated = "I am allergic to penicillin."
    await ingest_talk(bus, ("user", stated), ("assistant", "Noted."))
    await ingest_talk(bus, ("user", asks), ("assistant", answer), ("user", "Thanks."))

    items = await recall_items(bus, "Which medicine am I allergic to?")

    contents = [item["content"] for item in items]
    assert contents.index(stated) < contents.index(answer) < contents.index(asks)


async def test_somebody_elses_reply_ranks_above_the_question_among_people(bus: Connection) -> None:
    asks, reply = "who has the big cooler box?", "it stands in my drawer, under the cables"
    await ingest(
        bus,
        {"role": "user", "name": "Petra", "content": asks},
        {"role": "user", "name": "Lou", "content": reply},
    )

    items = await recall_items(bus, "Where is the cooler box?")

    assert [item["content"] for item in items] == [reply, asks]


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        (
            ("assistant", "Your guitar has silk strings. Does it need new strings?"),
            ("user", "No, thanks, not now."),
        ),
        (("user", "What strings does the guitar have?"), ("assistant", "Which one of the two?")),
        (("user", "What strings does the guitar have?"), ("user", "Whatever, I buy some of silk.")),
    ],
    ids=["tells of it as well", "is asked back", "by the same speaker"],
)
async def test_other_questions_keep_their_places(
    bus: Connection, message: tuple[str, str], reply: tuple[str, str]
) -> None:
    await ingest_talk(bus, message, reply)

    items = await recall_items(bus, "What strings does my guitar have?")

    assert items[0]["content"] == message[1]
    assert not any(item["explanation"]["shares"].get("reply") for item in items)


@pytest.mark.parametrize(
    "query",
    ["I tuned my guitar today. My guitar has silk strings.", "guitar strings"],
    ids=["a statement", "keywords"],
)
async def test_a_query_that_asks_nothing_leaves_questions_in_their_places(
    bus: Connection, query: str
) -> None:
    await ingest_talk(bus, ("assistant", "What strings does your guitar have?"), ("user", STRINGS))

    items = await recall_items(bus, query)

    assert not any(item["explanation"]["shares"].get("reply") for item in items)
