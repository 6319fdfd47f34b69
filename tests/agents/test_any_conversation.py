"""Whatever two users say and ask, in whatever order, each is answered from their own memory."""

import random

import pytest

from calling import caller_named
from local2.bus.connection import Connection
from local2.bus.streams import publish_durably
from local2.client.tools import call_tool
from turns import GENERATION, all_done, turn

pytestmark = pytest.mark.usefixtures("memory_agent", "tools", "either_size")

STEPS = 150
SAID = (
    "I live in Oslo, says {user}.",
    "I moved to Bergen last week, says {user}.",
    "I no longer live in Bergen, says {user}.",
    "No, {user} meant Wednesday.",
    "Order {number} of {user} is late.",
    "{user}",
    "Noted, {user}.",
    "Ich wohne in K\N{LATIN SMALL LETTER O WITH DIAERESIS}ln, sagt {user}.",
)
ASKED = (
    "Who am I?",
    "Where do I live now?",
    "it",
    "What is the status of order {number}?",
    "I moved to Rome.",
    "(not AND near) *",
    "\N{SLIGHTLY SMILING FACE}",
    "\0",
    "order " * 300,
)
MOMENTS = (None, None, "0001-01-01", "2026-11-20", "9999-12-31T23:59:59Z")


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_question_is_answered_from_the_askers_own_memory(
    bus: Connection, seed: int
) -> None:
    """`seed`: chooses the order. Answers repeat what was found, so that echoes repeat echoes."""
    chance = random.Random(seed)  # noqa: S311 - no secret
    found = {"ada": ["Hello, ada."], "bob": ["Hello, bob."]}
    for step in range(STEPS):
        user = chance.choice(["ada", "bob"])
        other = "bob" if user == "ada" else "ada"
        session = f"{user}-{chance.randrange(3)}"
        caller = caller_named(user, session_id=session)
        number = chance.randrange(3)
        statement, words = (
            chance.choice(texts).format(user=user, number=number) for texts in (SAID, SAID + ASKED)
        )
        match chance.randrange(5):
            case 0:
                message = turn(
                    query=words,
                    answer=chance.choice(found[user]),
                    session_id=session,
                    query_id=f"q{step}",
                    tool_calls=[],
                )
                message = message.replace(b'"richard"', f'"{user}"'.encode())
                await publish_durably(bus, GENERATION, message)
                await all_done(bus)
            case 1:
                arguments = {"topic": "user.home", "content": statement}
                await call_tool(bus, "save_topic", arguments, caller=caller)
            case 2:
                arguments = {"query": words}
                answer = await call_tool(bus, "search_memory", arguments, caller=caller)
                assert other not in answer.content
            case _:
                as_of = chance.choice(MOMENTS)
                moment = {} if as_of is None else {"as_of": as_of}
                asked = {"query": words, "top_k": 5, **moment}
                answer = await call_tool(bus, "recall", asked, caller=caller)
                assert answer.data is not None
                contents = [item["content"] for item in answer.data["items"]]
                assert len(contents) <= 5
                assert not any(other in content for content in contents)
                found[user] = contents or found[user]
