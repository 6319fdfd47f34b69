"""A model orders memories; anything else that it returns is an error of one kind."""

import pytest

from local2.llm.models import StructuredModel
from local2.memory.recall.reranker import (
    QUERY_CHARACTERS,
    SHOWN_CHARACTERS,
    ModelReranker,
    RerankError,
)
from stand_ins.ollama_server import OllamaStandIn

QUESTION = "Which metal is the densest?"
DOCUMENTS = ["Tea is green.", "Gold is dense.", "Osmium is the densest metal."]


@pytest.fixture
def reranker(model: StructuredModel) -> ModelReranker:
    return ModelReranker(model, within=10)


async def order(reranker: ModelReranker) -> list[int]:
    ranked = await reranker.rank(QUESTION, DOCUMENTS)
    assert [document.score for document in ranked] == [None] * 3, "a model gives no scores"
    return [document.position for document in ranked]


@pytest.mark.parametrize(
    ("numbers", "positions"),
    [
        pytest.param([3, 2, 1], [2, 1, 0], id="all"),
        pytest.param([3], [2, 0, 1], id="what it leaves out follows"),
        pytest.param([3, 3, 0, -1, 99, 2], [2, 1, 0], id="strange ones"),
    ],
)
async def test_the_models_order_is_used(
    ollama: OllamaStandIn, reranker: ModelReranker, numbers: list[int], positions: list[int]
) -> None:
    ollama.script_json({"numbers": numbers})

    assert await order(reranker) == positions
    (material,) = ollama.materials()
    assert material["question"] == QUESTION
    assert [one["text"] for one in material["memories"]] == DOCUMENTS
    assert [one["number"] for one in material["memories"]] == [1, 2, 3]


async def test_only_the_beginnings_of_long_texts_are_shown(
    ollama: OllamaStandIn, reranker: ModelReranker
) -> None:
    ollama.script_json({"numbers": [2]})

    await reranker.rank(QUESTION * 99, [DOCUMENTS[0] * 500, *DOCUMENTS])

    (material,) = ollama.materials()
    assert material["memories"][0]["text"] == (DOCUMENTS[0] * 500)[:SHOWN_CHARACTERS]
    assert material["question"] == (QUESTION * 99)[:QUERY_CHARACTERS]


@pytest.mark.parametrize("numbers", [[], [0, 4]])
async def test_an_answer_that_is_not_an_order_is_an_error(
    ollama: OllamaStandIn, reranker: ModelReranker, numbers: list[int]
) -> None:
    ollama.script_json({"numbers": numbers})

    with pytest.raises(RerankError):
        await reranker.rank(QUESTION, DOCUMENTS)


async def test_without_memories_the_model_is_not_called(
    ollama: OllamaStandIn, reranker: ModelReranker
) -> None:
    assert await reranker.rank(QUESTION, []) == []
    assert ollama.bodies("/api/chat") == []
