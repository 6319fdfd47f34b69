"""A stack whose vector worker rereads the best results orders them by that model."""

from pathlib import Path
from typing import Any

import pytest

from calling import call
from local2.logs import logging_to
from local2.settings import Settings
from local2.stack.app import Stack, open_stack
from stacks import CALLER, contents, in_step, recall, settings_in
from stand_ins.rerank_server import RerankStandIn
from tiny_cross_encoder import write_cross_encoder

pytestmark = pytest.mark.usefixtures("worker_here")
METALS = 30
QUESTION = "Which metal is in the box?"


def rereading(folder: Path, **memory: Any) -> Settings:
    """Return settings whose reranker is the model `tiny`, whether or not it is there."""
    return settings_in(folder, **{"reranker": "onnx:tiny", "reranker_timeout": 60, **memory})


async def remember(stack: Stack, *facts: str) -> None:
    for fact in facts:
        await call(stack.bus, "remember_fact", {"content": fact, "scope": "user"}, CALLER)
    await in_step(stack.bus)


async def test_the_model_orders_what_the_search_ranks_behind_the_twentieth_place(
    tmp_path: Path,
) -> None:
    settings = rereading(tmp_path)
    write_cross_encoder(settings.memory.models_dir / "tiny")
    gold = "There was gold once, somewhere."
    boxes = [f"The metal in the box is metal {number}." for number in range(METALS)]
    async with open_stack(settings, with_generator=False) as stack:
        await remember(stack, gold, *boxes, "The metal in the box is lead.")
        before = await recall(stack.bus, QUESTION, top_k=20, enable_rerank=False)
        found = await recall(stack.bus, QUESTION, top_k=20)

    assert gold not in contents(before)
    assert contents(found)[0] == gold
    assert (found["rerank_used"], found["degraded"]) == (True, False)
    scores = [item["score"] for item in found["items"]]
    assert scores[0] == pytest.approx(0.881, abs=0.001)
    assert scores[1:] == [0.5] * 19, "equal scores stay in their order, before the lead"


async def test_the_workers_model_is_used_rather_than_a_server(
    tmp_path: Path, reranking: RerankStandIn
) -> None:
    settings = rereading(tmp_path, reranker_url=reranking.url)
    write_cross_encoder(settings.memory.models_dir / "tiny")
    async with open_stack(settings, with_generator=False) as stack:
        await remember(stack, "It is lead.", "It is gold.")
        found = await recall(stack.bus, "What is it?")

    assert contents(found) == ["It is gold.", "It is lead."]
    assert reranking.requests == []


async def test_a_broken_folder_is_logged_at_the_start_and_named_by_each_search(
    tmp_path: Path,
) -> None:
    settings, log = rereading(tmp_path), tmp_path / "stack.log"
    with logging_to(log):
        async with open_stack(settings, with_generator=False) as stack:
            await remember(stack, "It is gold.")
            found = await recall(stack.bus, "What is it?")
            without = await recall(stack.bus, "What is it?", enable_rerank=False)

    assert contents(found) == contents(without) == ["It is gold."]
    assert (found["rerank_used"], found["degraded"]) == (False, True)
    assert "has no model.onnx" in found["reason"]
    assert not without["degraded"]
    (broken,) = [line for line in log.read_text().splitlines() if "reranker_broken" in line]
    assert "local2 models get" in broken


async def test_a_model_that_is_too_slow_leaves_the_order_and_the_answer_says_so(
    tmp_path: Path,
) -> None:
    settings = rereading(tmp_path, reranker_timeout=1e-9)
    write_cross_encoder(settings.memory.models_dir / "tiny")
    async with open_stack(settings, with_generator=False) as stack:
        await remember(stack, "It is lead.", "It is gold.")
        found = await recall(stack.bus, "What is it?")
        without = await recall(stack.bus, "What is it?", enable_rerank=False)

    assert contents(found) == contents(without)
    assert (found["rerank_used"], found["degraded"]) == (False, True)
    assert "did not read the first document within 1e-09 s" in found["reason"]
