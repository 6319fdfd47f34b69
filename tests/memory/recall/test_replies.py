"""A question that is asked again gives its place to the reply that it got."""

import pytest

from calling import ingest_talk, recall_items
from local2.bus.connection import Connection

pytestmark = pytest.mark.usefixtures("tools")


@pytest.mark.parametrize(
    "answer", ["It hangs behind the blue door.", " ".join(["It hangs behind the blue door."] * 40)]
)
async def test_an_answer_ranks_above_an_earlier_identical_question(
    bus: Connection, answer: str
) -> None:
    question = "Where is the spare key of the boat?"
    await ingest_talk(
        bus, ("user", question), ("assistant", answer), ("user", "Thank you, that helps.")
    )

    first, second, *_ = await recall_items(bus, question, explain=True)

    assert [first["content"], second["content"]] == [answer, question]
    assert first["explanation"]["shares"]["reply"] > 0 > second["explanation"]["shares"]["reply"]


@pytest.mark.parametrize(
    ("message", "reply"),
    [
        (
            ("assistant", "Your guitar has silk strings."),
            ("user", "No, what strings does my guitar have?"),
        ),
        (("user", "What strings does my guitar have?"), ("assistant", "Which one of the two?")),
        (("user", "What strings does my guitar have?"), ("user", "Whatever, I buy some of silk.")),
    ],
    ids=["a statement", "is asked back", "by the same speaker"],
)
async def test_what_got_no_answer_gives_its_place_to_none(
    bus: Connection, message: tuple[str, str], reply: tuple[str, str]
) -> None:
    await ingest_talk(bus, message, reply)

    items = await recall_items(bus, "What strings does my guitar have?", explain=True)

    assert not any(item["explanation"]["shares"].get("reply") for item in items)


async def test_a_statement_that_is_repeated_keeps_its_place(bus: Connection) -> None:
    stated = "My guitar has silk strings."
    await ingest_talk(bus, ("user", stated), ("assistant", "They sound warm, I am told."))

    items = await recall_items(bus, stated, explain=True)

    assert items[0]["content"] == stated
    assert not any(item["explanation"]["shares"].get("reply") for item in items)
