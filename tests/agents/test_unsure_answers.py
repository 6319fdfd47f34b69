"""An answer that says no more than that nothing was found, where not all was searched, is none."""

import pytest

from local.bus.connection import Connection
from local.bus.streams import publish_durably
from local.client.tools import call_tool
from local.ledger.sqlite.database import Database
from local.protocol.envelope import Caller
from local.protocol.memories import nothing_found
from turns import GENERATION, all_done, rows, turn

RICHARD = Caller(tenant="default", user="richard", session_id="s1")
QUESTION = "What is the capital of Australia?"
WHY = "Ollama at http://127.0.0.1:11434 does not answer. Start it, or set `embedder: minilm`."


async def remembered(
    bus: Connection, database: Database, answer: str, *results: str
) -> list[tuple[str, str]]:
    """Kind and content of what is recorded of a turn with these results of tools."""
    calls = [
        {"name": "search_memory" if n == 0 else f"tool_{n}", "content": content, "id": f"c{n}"}
        for n, content in enumerate(results)
    ]
    await publish_durably(bus, GENERATION, turn(query=QUESTION, answer=answer, tool_calls=calls))
    await all_done(bus)
    return [(row["kind"], row["content"]) for row in await rows(database) if row["role"] != "tool"]


@pytest.mark.usefixtures("memory_agent")
@pytest.mark.parametrize(
    "answer",
    [
        "I found nothing, but I could not search everything that I remember: " + WHY,
        "I don't know that yet. Ollama does not answer, so not everything could be searched.",
        "Sorry, I have no memory of the capital of Australia at the moment.",
    ],
)
async def test_of_such_a_turn_the_question_is_remembered_and_the_answer_is_not(
    bus: Connection, database: Database, answer: str
) -> None:
    found = await remembered(bus, database, answer, nothing_found(WHY))

    assert found == [("chat_message", QUESTION)]


@pytest.mark.usefixtures("memory_agent")
@pytest.mark.parametrize(
    ("answer", "results"),
    [
        pytest.param("It is Canberra.", [nothing_found(WHY)], id="known without the memory"),
        pytest.param(
            "I remember nothing about that.", [nothing_found()], id="everything was searched"
        ),
        pytest.param(
            "I found nothing about that.",
            [nothing_found(WHY), "The atlas is closed."],
            id="another tool answered",
        ),
        pytest.param("I do not know that.", [], id="nothing was searched"),
    ],
)
async def test_any_other_answer_is_remembered(
    bus: Connection, database: Database, answer: str, results: list[str]
) -> None:
    found = await remembered(bus, database, answer, *results)

    assert ("chat_message", answer) in found
    assert ("episode", f"Q: {QUESTION}\nA: {answer}") in found


@pytest.mark.usefixtures("memory_agent", "tools")
@pytest.mark.parametrize("tool", ["search_memory", "recall"])
async def test_what_a_search_without_vectors_answers_is_known_as_such(
    bus: Connection, database: Database, tool: str
) -> None:
    """The memory of this test has no vector worker."""
    result = await call_tool(bus, tool, {"query": QUESTION}, caller=RICHARD)

    found = await remembered(bus, database, "I know nothing about that.", result.content)

    assert found == [("chat_message", QUESTION)]
