"""A stack sends its reranker enough labelled documents, with the configured key and model."""

from pathlib import Path

import pytest

from calling import call
from local2.logs import logging_to
from local2.stack.app import open_stack
from stacks import CALLER, in_step, recall, remember, settings_in
from stand_ins.rerank_server import Answer, RerankStandIn

pytestmark = pytest.mark.usefixtures("worker_here")
FACTS = 25
METAL = {"topic": "user.metal", "content": "Osmium"}


async def test_twenty_documents_are_reranked_when_one_is_requested(
    tmp_path: Path, reranking: RerankStandIn
) -> None:
    settings = settings_in(tmp_path, reranker_url=reranking.url, reranker_timeout=30)
    async with open_stack(settings, with_generator=False) as stack:
        for number in range(FACTS):
            await remember(stack.bus, f"Osmium lot {number}.")
        last_first = [(number, float(number)) for number in range(20)]
        reranking.script(Answer(results=last_first), Answer(results=last_first))

        one = await recall(stack.bus, "osmium", top_k=1)
        twenty = await recall(stack.bus, "osmium", top_k=20)

    documents = [request.body["documents"] for request in reranking.requests]
    assert [len(set(sent)) for sent in documents] == [20, 20]
    assert [item["content"] for item in one["items"]] == documents[0][19:]
    assert [item["content"] for item in twenty["items"]] == documents[1][::-1]


async def test_a_reranker_orders_only_candidates_near_the_best(
    tmp_path: Path, reranking: RerankStandIn
) -> None:
    """Its scores may be on any scale, so recall's own scores decide beforehand what is left out."""
    settings = settings_in(tmp_path, reranker_url=reranking.url, reranker_timeout=30)
    question = "Which osmium lot is the heaviest?"
    async with open_stack(settings, with_generator=False) as stack:
        for content in ("Osmium is rare.", "The heaviest osmium lot is lot 7.", "A lot happened."):
            await remember(stack.bus, content)
        await in_step(stack.bus)
        reranking.script(Answer(results=[(0, -7.5)]))

        found = await recall(stack.bus, question, top_k=20, min_relevance=0.8)

    (request,) = reranking.requests
    assert request.body["documents"] == ["The heaviest osmium lot is lot 7."]
    assert [(item["content"], item["score"]) for item in found["items"]] == [
        ("The heaviest osmium lot is lot 7.", -7.5)
    ]


async def test_labelled_documents_are_sent_with_the_configured_key_and_model(
    tmp_path: Path, reranking: RerankStandIn
) -> None:
    messages = [
        {"role": "user", "content": "Osmium is heavy.", "name": "Ann"},
        {"role": "user", "content": "Osmium is rare."},
        {"role": "assistant", "tool_calls": [{"name": "weigh", "content": "Osmium: 22.59 g"}]},
    ]
    settings = settings_in(
        tmp_path,
        reranker_url=reranking.url,
        reranker_key="sesame",
        reranker_model="bge",
        reranker_timeout=30,
    )
    async with open_stack(settings, with_generator=False) as stack:
        await call(stack.bus, "ingest", {"messages": messages}, CALLER)
        await call(stack.bus, "save_topic", METAL, CALLER)

        assert (await recall(stack.bus, "osmium"))["rerank_used"]

    (request,) = reranking.requests
    assert request.headers["authorization"] == "Bearer sesame"
    assert (request.body["query"], request.body["model"]) == ("osmium", "bge")
    assert sorted(request.body["documents"]) == [
        "Ann: Osmium is heavy.",
        "Osmium is rare.",
        "user.metal: Osmium",
        "weigh: Osmium: 22.59 g",
    ]


async def test_the_configured_timeout_applies_to_the_reranker(
    tmp_path: Path, reranking: RerankStandIn
) -> None:
    log = tmp_path / "debug.log"
    settings = settings_in(tmp_path, reranker_url=reranking.url, reranker_timeout=0.0625)
    reranking.script(Answer(held=True))
    with logging_to(log, level="debug"):
        async with open_stack(settings, with_generator=False) as stack:
            await call(stack.bus, "save_topic", METAL, CALLER)
            found = await recall(stack.bus, "osmium")

    assert [item["content"] for item in found["items"]] == ["Osmium"]
    assert not found["rerank_used"]
    assert "The reranker did not answer within 0.0625 s." in log.read_text(encoding="utf-8")
