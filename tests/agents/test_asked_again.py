"""However often a question is asked, its source ranks above earlier answers to it."""

from typing import Any

import pytest

from indexed import indexed
from local.bus.connection import Connection
from local.bus.streams import publish_durably
from local.client.tools import call_tool
from local.memory.tenant import Memory
from local.protocol.envelope import Caller
from turns import GENERATION, all_done, turn

pytestmark = pytest.mark.usefixtures("memory_agent", "tools", "searchable", "either_size")

CANBERRA = "The capital of Australia is Canberra, not Sydney."
QUESTION = "What do you remember about Australian geography?"
PARAPHRASES = (
    "According to our chat of last week, Canberra serves as the capital city of Australia.",
    "Geography quiz time! Canberra, rather than Sydney, is what you named as Australia's capital.",
    "You stressed that Sydney is wrong: Australia has Canberra as capital.",
)


async def say(bus: Connection, memory: Memory, query: str, answer: str, session: str) -> None:
    message = turn(query=query, answer=answer, session_id=session, query_id=session, tool_calls=[])
    await publish_durably(bus, GENERATION, message)
    await all_done(bus)
    await indexed(memory)


async def call(bus: Connection, tool: str, session: str, **args: Any) -> Any:
    caller = Caller(tenant="default", user="richard", agent="model", session_id=session)
    return (await call_tool(bus, tool, args, caller=caller)).data


async def recall_contents(
    bus: Connection, query: str = QUESTION, session: str = "new"
) -> list[str]:
    items = (await call(bus, "recall", session, query=query, top_k=5))["items"]
    return [item["content"] for item in items]


async def search_contents(
    bus: Connection, query: str = QUESTION, session: str = "new"
) -> list[str]:
    hits = (await call(bus, "search_memory", session, query=query, top_k=5))["hits"]
    return [hit["content"] for hit in hits]


@pytest.mark.parametrize("paraphrased", [False, True])
async def test_a_statement_asked_for_in_fifteen_sessions_stays_first(
    bus: Connection, memory: Memory, *, paraphrased: bool
) -> None:
    await say(bus, memory, CANBERRA, "Understood.", "first")

    for number in range(15):
        hits = await search_contents(bus, session=f"s{number}")
        assert hits[0] == f"Q: {CANBERRA}\nA: Understood."
        quoted = f"Here is what I remember: {hits[0]}"
        answer = PARAPHRASES[number % 3] if paraphrased else quoted
        await say(bus, memory, QUESTION, answer, f"s{number}")

    assert (await recall_contents(bus))[0] == CANBERRA
    assert len([text for text in await search_contents(bus) if QUESTION in text]) <= 1
    assert len([text for text in await recall_contents(bus) if text in PARAPHRASES]) <= 1


async def test_a_statement_made_after_refusals_ranks_above_them(
    bus: Connection, memory: Memory
) -> None:
    question = "What do you remember about my sister's allergy?"
    for number, refusal in enumerate(
        (
            "I remember nothing about that.",
            "I'm sorry, I don't have any information about your sister's allergy.",
            "I could not find any record of an allergy.",
        )
    ):
        await call(bus, "search_memory", f"s{number}", query=question)
        await say(bus, memory, question, refusal, f"s{number}")

    await say(bus, memory, "Ada must never eat peanuts.", "Understood.", "later")

    assert (await recall_contents(bus, question))[0] == "Ada must never eat peanuts."
    assert (await search_contents(bus, question))[
        0
    ] == "Q: Ada must never eat peanuts.\nA: Understood."


async def test_an_answer_is_found_by_what_it_adds(bus: Connection, memory: Memory) -> None:
    await say(bus, memory, CANBERRA, "Understood.", "first")
    await search_contents(bus, session="s1")
    added = "Canberra is the capital, not Sydney. Your flight to Perth leaves on Tuesday."
    await say(bus, memory, QUESTION, added, "s1")

    assert (await recall_contents(bus, "When does the flight to Perth leave?"))[0] == added
    assert (await recall_contents(bus))[0] == CANBERRA


async def test_an_answer_does_not_outlive_the_fact_it_came_from(
    bus: Connection, memory: Memory
) -> None:
    question = "What language do I prefer?"
    await call(bus, "save_topic", "first", topic="user.language_preference", content="Elixir")
    await call(bus, "recall_topic", "s1", topic="user.language_preference")
    await say(bus, memory, question, "The language that you prefer is Elixir.", "s1")

    await call(bus, "save_topic", "s2", topic="user.language_preference", content="Python")
    await indexed(memory)

    assert (await recall_contents(bus, question))[0] == "Python"
    assert not any("Elixir" in text for text in await recall_contents(bus, question))


async def test_the_explanation_of_an_echo_shows_its_penalty(
    bus: Connection, memory: Memory
) -> None:
    await say(bus, memory, CANBERRA, "Understood.", "first")
    await search_contents(bus, session="s1")
    await say(bus, memory, QUESTION, PARAPHRASES[0], "s1")

    items = (await call(bus, "recall", "new", query=QUESTION, explain=True))["items"]

    (echo,) = [item for item in items if item["content"] == PARAPHRASES[0]]
    assert echo["explanation"]["shares"]["echo"] < 0
    assert echo["score"] <= items[0]["score"]
