"""Items that a model extracts: only what the messages state, in the requested form."""

from datetime import UTC, datetime
from typing import Any

import pytest

from local2.llm.models import StructuredModel
from local2.memory.extraction.extractor import Item, Passage, Utterance
from local2.memory.extraction.model import (
    CALL_CHARACTERS,
    MAX_ITEM,
    MESSAGE_CHARACTERS,
    ModelExtractor,
)
from local2.memory.extraction.rules import RulesExtractor
from stand_ins.ollama_server import OllamaStandIn

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)


def utterance(content: str, *, id_: str = "m1", role: str = "user") -> Utterance:
    return Utterance(id=id_, role=role, content=content, at=NOON)


PASSAGE = Passage(
    messages=[
        utterance("I moved to Porto in March."),
        utterance("Nice!", id_="m2", role="assistant"),
    ],
    context=[utterance("Hello there.", id_="m0")],
)


def found(**changed: Any) -> dict[str, Any]:
    home = {
        "memory_type": "fact",
        "content": "The user moved to Porto in March 2026.",
        "summary": "Lives in Porto",
        "topic": "user.home",
        "keywords": ["Porto"],
        "queries": ["Where does the user live?"],
        "confidence": 0.9,
        "importance": 0.8,
        "durability": "standard",
        "sources": [1],
    }
    return {**home, **changed}


@pytest.fixture
def extractor(model: StructuredModel) -> ModelExtractor:
    return ModelExtractor(model, within=10, otherwise=RulesExtractor())


async def test_items_are_returned_with_the_ids_of_their_messages(
    ollama: OllamaStandIn, extractor: ModelExtractor
) -> None:
    ollama.script_json({"items": [found()]})

    assert await extractor.extract(PASSAGE) == [
        Item(
            memory_type="fact",
            content="The user moved to Porto in March 2026.",
            summary="Lives in Porto",
            topic="user.home",
            keywords=("Porto",),
            queries=("Where does the user live?",),
            confidence=0.9,
            importance=0.8,
            sources=("m1",),
        )
    ]


async def test_the_model_sees_the_context_marked_as_such(
    ollama: OllamaStandIn, extractor: ModelExtractor
) -> None:
    ollama.script_json({"items": []})

    await extractor.extract(PASSAGE)

    (material,) = ollama.materials()
    shown = [(m["number"], m["text"], m.get("context", False)) for m in material["messages"]]
    assert shown == [
        (0, "Hello there.", True),
        (1, "I moved to Porto in March.", False),
        (2, "Nice!", True),
    ]


@pytest.mark.parametrize(
    "changed",
    [
        pytest.param({"content": "The user bought a yacht in Monaco."}, id="made up"),
        pytest.param({"content": ""}, id="empty"),
        pytest.param({"content": "Porto " * MAX_ITEM}, id="too long"),
        pytest.param({"sources": []}, id="from nowhere"),
        pytest.param({"sources": [9]}, id="of an unknown message"),
        pytest.param({"sources": [2]}, id="of an assistant"),
        pytest.param({"sources": [0]}, id="of the context"),
    ],
)
async def test_an_item_that_no_message_states_is_left_out(
    ollama: OllamaStandIn, extractor: ModelExtractor, changed: dict[str, Any]
) -> None:
    ollama.script_json({"items": [found(**changed), found()]})

    assert len(await extractor.extract(PASSAGE)) == 1


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        pytest.param({"topic": "home"}, {"topic": None}, id="no topic key"),
        pytest.param({"topic": "user.a b"}, {"topic": None}, id="a key that is none"),
        pytest.param({"confidence": 7, "importance": -1}, {"confidence": 1.0, "importance": 0.0},
                     id="figures out of bounds"),
        pytest.param({"queries": ["a", "", "b", "c", "d", "e" * 500]}, {"queries": ("a", "b", "c")},
                     id="too many queries"),
        pytest.param({"content": "The user\n\tmoved to Porto."},
                     {"content": "The user moved to Porto."}, id="lines"),
    ],
)  # fmt: skip
async def test_invalid_fields_beside_an_items_content_are_corrected(
    ollama: OllamaStandIn,
    extractor: ModelExtractor,
    changed: dict[str, Any],
    expected: dict[str, Any],
) -> None:
    ollama.script_json({"items": [found(**changed)]})

    (item,) = await extractor.extract(PASSAGE)

    assert {name: getattr(item, name) for name in expected} == expected


@pytest.mark.parametrize("topic", ["user.home", "User.home"])
async def test_a_key_of_a_named_speaker_contains_their_name(
    ollama: OllamaStandIn, extractor: ModelExtractor, topic: str
) -> None:
    ollama.script_json({"items": [found(content="Mel moved to Porto.", topic=topic)]})
    mel = Utterance(id="m1", role="user", content="I moved to Porto.", at=NOON, speaker="Mel")

    (item,) = await extractor.extract(Passage(messages=[mel]))

    assert item.topic == "user.mel.home"


async def test_without_a_user_message_the_model_is_not_called(
    ollama: OllamaStandIn, extractor: ModelExtractor
) -> None:
    assert await extractor.extract(Passage(messages=[utterance("Hi.", role="assistant")])) == []

    assert ollama.materials() == []


async def test_a_long_passage_is_split_into_several_calls_without_loss(
    ollama: OllamaStandIn, extractor: ModelExtractor
) -> None:
    count = CALL_CHARACTERS // MESSAGE_CHARACTERS + 1
    long = [
        utterance(f"I moved to Porto. {'x' * MESSAGE_CHARACTERS}", id_=f"m{n}")
        for n in range(count)
    ]
    ollama.script_json({"items": [found()]}, {"items": [found()]})

    items = await extractor.extract(Passage(messages=long))

    assert [item.sources for item in items] == [("m0",), (f"m{count - 1}",)]
    assert ollama.materials()[1]["messages"][-2]["context"]
