"""A question that was asked gives way to what was said in reply, between a person and a model."""

import pytest

from calling import RICHARD, call, ingest
from local.bus.connection import Connection
from local.protocol.payloads import Json

pytestmark = pytest.mark.usefixtures("tools")

STRINGS = "Elixir 12-53, phosphor bronze, as ever."


async def asked(bus: Connection, query: str) -> list[Json]:
    found = await call(bus, "recall", {"query": query, "explain": True}, RICHARD)
    items: list[Json] = found["items"]
    return items


async def talk(bus: Connection, *said: tuple[str, str]) -> None:
    await ingest(bus, *({"role": role, "content": content} for role, content in said))


async def test_the_answer_stands_above_the_same_question_asked_before(bus: Connection) -> None:
    question, answer = "Where is the spare key of the boat?", "It hangs behind the blue door."
    await talk(bus, ("user", question), ("assistant", answer), ("user", "Thank you, that helps."))

    first, second, *_ = await asked(bus, question)

    assert [first["content"], second["content"]] == [answer, question]
    assert first["explanation"]["shares"]["reply"] > 0 > second["explanation"]["shares"]["reply"]


@pytest.mark.parametrize("remark", ["", "Nice, a modal tuning. ", "I see! "])
async def test_what_a_person_replies_stands_above_what_a_model_asked(
    bus: Connection, remark: str
) -> None:
    asks = f"{remark}What strings does your guitar have?"
    await talk(bus, ("user", "I play in DADGAD."), ("assistant", asks), ("user", STRINGS))

    items = await asked(bus, "What strings does my guitar have?")

    assert [item["content"] for item in items][:2] == [STRINGS, asks]


@pytest.mark.parametrize(
    ("said", "reply"),
    [
        (
            ("assistant", "Your guitar has silk strings. Does it need new strings?"),
            ("user", "No, thanks, not now."),
        ),
        (("user", "What strings does the guitar have?"), ("assistant", "Which one of the two?")),
        (("user", "What strings does the guitar have?"), ("user", "Whatever, I buy some of silk.")),
    ],
    ids=["tells of it as well", "is asked back", "among people"],
)
async def test_other_questions_stay_where_they_are(
    bus: Connection, said: tuple[str, str], reply: tuple[str, str]
) -> None:
    await talk(bus, said, reply)

    items = await asked(bus, "What strings does my guitar have?")

    assert items[0]["content"] == said[1]
    assert not any(item["explanation"]["shares"].get("reply") for item in items)


async def test_a_turn_that_tells_leaves_questions_in_their_places(bus: Connection) -> None:
    await talk(bus, ("assistant", "What strings does your guitar have?"), ("user", STRINGS))

    items = await asked(bus, "I tuned my guitar today. My guitar has silk strings.")

    assert not any(item["explanation"]["shares"].get("reply") for item in items)
