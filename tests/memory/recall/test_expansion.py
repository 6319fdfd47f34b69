"""Additional words and topics for a question: bounded, valid, and never delaying a search."""

import pytest

from local2.llm.models import StructuredModel
from local2.memory.recall.expansion import (
    KEYWORD_CHARACTERS,
    MAX_KEYWORDS,
    MAX_TOPICS,
    QUESTION_CHARACTERS,
    Expander,
    Expansion,
)
from stand_ins.ollama_server import OllamaStandIn

QUESTION = "Which editor do I use?"


@pytest.fixture
def expander(model: StructuredModel) -> Expander:
    return Expander(model, within=10)


async def test_a_question_is_expanded_by_words_and_topics(
    ollama: OllamaStandIn, expander: Expander
) -> None:
    ollama.script_json({"keywords": ["Vim", "text editor"], "topics": ["user.editor_preference"]})

    expansion = await expander.expand(QUESTION)

    assert expansion == Expansion(
        keywords=("Vim", "text editor"), topics=("user.editor_preference",)
    )
    assert ollama.materials() == [{"question": QUESTION}]


async def test_invalid_topics_are_left_out(ollama: OllamaStandIn, expander: Expander) -> None:
    topics = ["editor", "user.*", "agent.editor", "User.Editor", "project.editor", "user.my editor"]
    ollama.script_json({"keywords": [], "topics": topics})

    assert (await expander.expand(QUESTION)).topics == ("User.Editor", "project.editor")


async def test_blank_repeated_and_overlong_keywords_are_left_out(
    ollama: OllamaStandIn, expander: Expander
) -> None:
    keywords = ["", "  ", "Vim", " Vim\n", "text  editor", "x" * (KEYWORD_CHARACTERS + 1)]
    ollama.script_json({"keywords": keywords, "topics": []})

    assert (await expander.expand(QUESTION)).keywords == ("Vim", "text editor")


async def test_expansions_are_limited_to_the_bounds_in_the_schema(
    ollama: OllamaStandIn, expander: Expander
) -> None:
    ollama.script_json(
        {
            "keywords": [f"word{n}" for n in range(50)],
            "topics": ["no topic", *(f"user.topic{n}" for n in range(50))],
        }
    )

    expansion = await expander.expand(QUESTION)

    assert expansion.keywords == tuple(f"word{n}" for n in range(MAX_KEYWORDS))
    assert expansion.topics == tuple(f"user.topic{n}" for n in range(MAX_TOPICS))
    schema = ollama.bodies("/api/chat")[0]["format"]["properties"]
    assert (schema["keywords"]["maxItems"], schema["topics"]["maxItems"]) == (8, 5)


async def test_only_the_beginning_of_a_long_question_is_shown(
    ollama: OllamaStandIn, expander: Expander
) -> None:
    question = QUESTION * QUESTION_CHARACTERS
    ollama.script_json({"keywords": [], "topics": []})

    await expander.expand(question)

    assert ollama.materials() == [{"question": question[:QUESTION_CHARACTERS]}]
