"""An answer that nothing was found is not remembered if the search was incomplete."""

import pytest

from calling import caller_named
from local2.bus.connection import Connection
from local2.bus.streams import publish_durably
from local2.client.tools import call_tool
from local2.ledger.engines.sqlite.database import Database
from local2.protocol.memories import nothing_found
from stored import records
from turns import GENERATION, all_done, turn

RICHARD = caller_named("richard", session_id="s1")
QUESTION = "What is the capital of Australia?"
REASON = "Ollama at http://127.0.0.1:11434 does not answer. Start it, or set `embedder: minilm`."


async def stored_after(
    bus: Connection, database: Database, answer: str, *results: str
) -> list[tuple[str, str]]:
    """Publish a turn with these tool results; return kind and content of its records."""
    calls = [
        {"name": "search_memory" if n == 0 else f"tool_{n}", "content": content, "id": f"c{n}"}
        for n, content in enumerate(results)
    ]
    await publish_durably(bus, GENERATION, turn(query=QUESTION, answer=answer, tool_calls=calls))
    await all_done(bus)
    return [
        (row["kind"], row["content"]) for row in await records(database) if row["role"] != "tool"
    ]


@pytest.mark.usefixtures("memory_agent")
@pytest.mark.parametrize(
    "answer",
    [
        "I found nothing, but I could not search everything that I remember: " + REASON,
        "I don't know that yet. Ollama does not answer, so not everything could be searched.",
        "Sorry, I have no memory of the capital of Australia at the moment.",
    ],
)
async def test_only_the_question_is_remembered_if_an_incomplete_search_found_nothing(
    bus: Connection, database: Database, answer: str
) -> None:
    found = await stored_after(bus, database, answer, nothing_found(REASON))

    assert found == [("chat_message", QUESTION)]


@pytest.mark.usefixtures("memory_agent")
@pytest.mark.parametrize(
    ("answer", "results"),
    [
        pytest.param("It is Canberra.", [nothing_found(REASON)], id="known without the memory"),
        pytest.param(
            "I remember nothing about that.", [nothing_found()], id="everything was searched"
        ),
        pytest.param(
            "I found nothing about that.",
            [nothing_found(REASON), "The atlas is closed."],
            id="another tool answered",
        ),
        pytest.param("I do not know that.", [], id="nothing was searched"),
    ],
)
async def test_any_other_answer_is_remembered(
    bus: Connection, database: Database, answer: str, results: list[str]
) -> None:
    found = await stored_after(bus, database, answer, *results)

    assert ("chat_message", answer) in found
    assert ("episode", f"Q: {QUESTION}\nA: {answer}") in found


@pytest.mark.usefixtures("memory_agent", "tools")
@pytest.mark.parametrize("tool", ["search_memory", "recall"])
async def test_the_result_of_a_search_without_vectors_counts_as_incomplete(
    bus: Connection, database: Database, tool: str
) -> None:
    """The memory has no vector worker here."""
    result = await call_tool(bus, tool, {"query": QUESTION}, caller=RICHARD)

    found = await stored_after(bus, database, "I know nothing about that.", result.content)

    assert found == [("chat_message", QUESTION)]
