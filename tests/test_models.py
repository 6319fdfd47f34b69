"""The whole stack with models that judge, answer, analyse and rerank, and that fail."""

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from calling import call
from local2.bus.connection import BusMessage
from local2.protocol import subjects
from local2.protocol.envelope import decode
from local2.protocol.payloads import MemoryChange
from local2.settings import GeneratorSettings, Settings
from local2.stack.app import Stack, open_stack
from stacks import CALLER, contents, in_step, recall, remember, settings_in
from stand_ins.ollama_server import OllamaStandIn, Reply
from stand_ins.rerank_server import Answer, RerankStandIn
from waiting import eventually

pytestmark = pytest.mark.usefixtures("worker_here")
BERLIN = "We live in Berlin"
ROME = "We moved to Rome"
PIANO = "The piano is tuned every October."
VIOLIN = "The violin is older than the piano."
JUDGE = {"judge_model": "gemma4", "judge_distance": 2.0}

Json = dict[str, Any]


@pytest.fixture
def configured(tmp_path: Path, ollama: OllamaStandIn) -> Callable[..., Settings]:
    """Return settings of a stack in one folder with these memory settings; other models are off."""

    def with_memory(**memory: Any) -> Settings:
        chat = GeneratorSettings(chat="auto", ollama_url=ollama.url)
        return replace(settings_in(tmp_path, **memory), generator=chat)

    return with_memory


async def versions(stack: Stack, record_id: str) -> list[tuple[str, str | None]]:
    """Return content and successor of every version of a fact, newest first."""
    found = await call(stack.bus, "memory_history", {"topic_or_id": record_id}, CALLER)
    return [(version["content"], version["superseded_by"]) for version in found["versions"]]


def verdicts(*given: str) -> Json:
    return {"verdicts": [{"number": n, "verdict": v} for n, v in enumerate(given, start=1)]}


async def audit(stack: Stack) -> list[tuple[str, str, str, str]]:
    """Return action, record, agent and successor of every entry."""
    entries = (await call(stack.bus, "audit", {}, CALLER))["entries"]
    return [(one["action"], one["id"], one["agent"], one["superseded_by"]) for one in entries]


async def subscribe_to_superseded(stack: Stack) -> list[MemoryChange]:
    """Return the list of replacements that are announced from now on."""
    changes: list[MemoryChange] = []

    async def receive(message: BusMessage) -> None:
        changes.append(decode(message.data, MemoryChange).payload)

    await stack.bus.subscribe(subjects.MEMORY_SUPERSEDED, receive)
    await stack.bus.flush()
    return changes


async def order_without_reranker(stack: Stack) -> list[str]:
    """Store two facts and return their order without a reranker."""
    await remember(stack.bus, VIOLIN)
    await remember(stack.bus, PIANO)
    await in_step(stack.bus)
    found = await recall(stack.bus, "the piano", scope="user", enable_rerank=False)
    assert not found["rerank_used"]
    assert sorted(contents(found)) == sorted([PIANO, VIOLIN])
    return contents(found)


def shares(found: Json) -> dict[str, dict[str, float]]:
    return {item["content"]: item["explanation"]["shares"] for item in found["items"]}


async def test_a_fact_that_a_newer_one_contradicts_is_retired_after_the_acknowledgement(
    configured: Callable[..., Settings], ollama: OllamaStandIn
) -> None:
    question = "Where do we live?"
    async with open_stack(configured(**JUDGE)) as stack:
        changes = await subscribe_to_superseded(stack)
        hold = threading.Event()
        ollama.script_json(Reply(content=json.dumps(verdicts("replaces")), hold=hold))
        berlin = await remember(stack.bus, BERLIN)
        rome = await remember(stack.bus, ROME)
        await eventually(ollama.materials)
        both = await recall(stack.bus, question, scope="user")

        hold.set()
        await eventually(lambda: changes)
        found = await recall(stack.bus, question, scope="user")
        chain = await versions(stack, rome)
        audited = await audit(stack)

    assert sorted(contents(both)) == [BERLIN, ROME]
    assert changes == [MemoryChange(id=berlin, kind="fact", superseded_by=rome)]
    assert contents(found) == [ROME]
    assert chain == [(ROME, None), (BERLIN, rome)]
    assert audited == [("superseded", berlin, "contradiction_judge", rome)]
    (material,) = ollama.materials()
    assert (material["new"]["text"], material["older"][0]["text"]) == (ROME, BERLIN)


async def test_a_model_adds_words_and_topics_to_a_question(
    configured: Callable[..., Settings], ollama: OllamaStandIn
) -> None:
    question = "Which instrument do I own?"
    async with open_stack(configured(query_model="gemma4")) as stack:
        await remember(stack.bus, PIANO)
        city = await remember(stack.bus, "Bonn", topic="user.city")
        ollama.script_json({"keywords": [], "topics": []})
        plain = await recall(stack.bus, question, scope="user", explain=True)
        ollama.script_json({"keywords": ["piano"], "topics": ["user.city"]})

        found = await recall(stack.bus, question, scope="user", explain=True)

    before, after = shares(plain), shares(found)
    assert PIANO not in before or before[PIANO]["coverage"] == 0
    assert after[PIANO]["coverage"] > 0
    assert after["Bonn"]["topic"] > 0
    assert city in {item["id"] for item in found["items"]}
    assert [material["question"] for material in ollama.materials()] == [question, question]


async def test_a_failing_reranker_leaves_the_merged_order_until_it_recovers(
    configured: Callable[..., Settings], reranking: RerankStandIn
) -> None:
    async with open_stack(configured(reranker_url=reranking.url)) as stack:
        order = await order_without_reranker(stack)
        reranking.script(Answer(status=500))
        failed = await recall(stack.bus, "the piano", scope="user")
        reranking.script(Answer(results=[(1, 0.9), (0, 0.1)]))
        well = await recall(stack.bus, "the piano", scope="user")

    assert (contents(failed), failed["rerank_used"]) == (order, False)
    assert failed["degraded"]
    assert "reranker" in failed["reason"]
    assert (contents(well), well["rerank_used"]) == (order[::-1], True)


async def test_a_configured_model_decides_the_order(
    configured: Callable[..., Settings], ollama: OllamaStandIn
) -> None:
    async with open_stack(configured(reranker_chat_model="gemma4")) as stack:
        first = await order_without_reranker(stack)
        ollama.script_json({"numbers": [2, 1]})
        turned = await recall(stack.bus, "the piano", scope="user")
        ollama.models.clear()
        failed = await recall(stack.bus, "the piano", scope="user")

    assert (contents(turned), turned["rerank_used"]) == (first[::-1], True)
    assert (contents(failed), failed["rerank_used"]) == (first, False)
