"""LangGraph's checkpoints on local2: its conformance suite, sizes, users, delta channels."""

import asyncio
import operator
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Annotated, TypedDict

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.conformance import checkpointer_test, validate
from langgraph.checkpoint.conformance.capabilities import ALL_CAPABILITIES
from langgraph.graph import START, StateGraph
from langgraph.store.base import BaseStore

import local2
from calling import caller_named
from local2.errors import BusError, TooLargeError
from local2.integrations import langgraph_checkpoint
from local2.integrations.langgraph import LocalSaver, LocalStore
from local2.integrations.langgraph_checkpoint import COLLECTION
from local2.ledger.operations.items import ItemCollection
from local2.memory.tenant import Memory


async def test_the_conformance_suite_passes_with_every_capability(saver: LocalSaver) -> None:
    async def made() -> AsyncGenerator[LocalSaver, None]:
        yield saver

    report = await validate(checkpointer_test(name="LocalSaver")(made))

    failures = [failure for result in report.results.values() for failure in result.failures]
    assert failures == []
    passed = {name for name, result in report.results.items() if result.passed}
    assert passed == {capability.value for capability in ALL_CAPABILITIES}


def thread(thread_id: str, **more: str) -> RunnableConfig:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **more}}


async def put(saver: LocalSaver, thread_id: str, text: str) -> RunnableConfig:
    checkpoint = empty_checkpoint()
    checkpoint["channel_values"] = {"text": text}
    return await saver.aput(thread(thread_id), checkpoint, {"source": "loop", "step": 0}, {})


async def text_of(saver: LocalSaver, config: RunnableConfig) -> str | None:
    found = await saver.aget_tuple(config)
    return None if found is None else str(found.checkpoint["channel_values"]["text"])


async def test_a_checkpoint_larger_than_a_message_is_returned_whole(saver: LocalSaver) -> None:
    large = "".join(str(number) for number in range(400_000))
    config = await put(saver, "large", large)
    await saver.aput_writes(config, [("text", large), ("small", 1)], "task")

    found = await saver.aget_tuple(config)

    assert found is not None
    assert found.checkpoint["channel_values"] == {"text": large}
    assert found.pending_writes == [("task", "text", large), ("task", "small", 1)]
    assert [one.config for one in [one async for one in saver.alist(thread("large"))]] == [config]


async def test_a_large_thread_is_copied_and_deleted_completely(
    saver: LocalSaver, memory: Memory
) -> None:
    config = await put(saver, "large", "x" * 700_000)
    await saver.aput_writes(config, [("text", "y" * 700_000)], "task")

    await saver.acopy_thread("large", "copy")
    await saver.adelete_thread("large")
    copied = await saver.aget_tuple(thread("copy"))

    assert await saver.aget_tuple(thread("large")) is None
    assert copied is not None
    assert copied.checkpoint["channel_values"] == {"text": "x" * 700_000}
    assert copied.pending_writes == [("task", "text", "y" * 700_000)]
    await saver.aprune(["copy"], strategy="delete")
    collection = ItemCollection(owner="ada", collection=COLLECTION)
    assert await memory.ledger.items.namespaces(collection, (), list) == []


async def test_a_checkpoint_that_is_too_large_is_refused_with_a_remedy(
    saver: LocalSaver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(langgraph_checkpoint, "MAX_BYTES", 1_000)

    with pytest.raises(TooLargeError, match=r"the maximum is 1,000. Keep large files outside"):
        await put(saver, "large", "x" * 2_000)

    assert await saver.aget_tuple(thread("large")) is None


async def test_threads_with_similar_names_are_different(saver: LocalSaver) -> None:
    names = ["t", "T", "t1", 't"', "t,", "%", "'; DROP TABLE item; --"]
    for name in names:
        await put(saver, name, name)

    await saver.adelete_thread("t")

    assert await text_of(saver, thread("t")) is None
    assert [await text_of(saver, thread(name)) for name in names[1:]] == names[1:]


async def test_a_user_cannot_read_or_delete_another_users_thread(
    saver: LocalSaver, client: local2.Memory
) -> None:
    config = await put(saver, "shared name", "Ada's")
    for memory in (client.of(user="eve"), client):
        other = LocalSaver(memory)
        assert await other.aget_tuple(config) is None
        assert [one async for one in other.alist(None)] == []
        await other.adelete_thread("shared name")

    assert await text_of(saver, config) == "Ada's"


async def test_a_thread_is_forgotten_with_the_session_of_its_name(
    saver: LocalSaver, memory: Memory
) -> None:
    for name in ("one", "two"):
        await put(saver, name, name)
    erasure = memory.of(caller_named("ada")).erasure

    receipt = await erasure.erase(erasure.selection(session_id="one"))

    assert receipt.erased == {"items": 1}
    assert await saver.aget_tuple(thread("one")) is None
    assert await text_of(saver, thread("two")) == "two"


async def test_no_checkpoint_becomes_a_memory(saver: LocalSaver, memory: Memory) -> None:
    await put(saver, "t", "Osmium is the densest of all metals.")

    assert (await memory.ledger.counts()).records == 0


async def test_a_saver_works_in_other_threads_and_refuses_to_block_its_own_loop(
    saver: LocalSaver,
) -> None:
    config = await put(saver, "t", "one")

    def use() -> list[str]:
        found = [one.checkpoint["channel_values"]["text"] for one in saver.list(thread("t"))]
        saver.delete_thread("t")
        return [*found, str(saver.get_tuple(config))]

    assert await asyncio.to_thread(use) == ["one", "None"]
    with pytest.raises(asyncio.InvalidStateError, match=r"graph\.ainvoke"):
        saver.get_tuple(config)


def appended(state: list[str], writes: Sequence[list[str]]) -> list[str]:
    return [*state, *(text for write in writes for text in write)]


class Delta(TypedDict):
    said: Annotated[list[str], DeltaChannel(appended, snapshot_frequency=3)]


async def test_a_delta_channel_keeps_its_value_when_its_thread_is_pruned(saver: LocalSaver) -> None:
    """Its value derives from writes since its last snapshot, so checkpoints back to that stay."""
    builder = StateGraph(Delta)
    builder.add_node("answer", lambda state: {"said": [f"answer {len(state['said'])}"]})
    builder.add_edge(START, "answer")
    graph = builder.compile(checkpointer=saver)
    for number in range(9):
        await graph.ainvoke({"said": [f"question {number}"]}, thread("delta"))
        before = (await graph.aget_state(thread("delta"))).values["said"]
        assert len(before) == 2 * (number + 1)
        checkpoints = [one async for one in saver.alist(thread("delta"))]

        await saver.aprune(["delta"])

        assert (await graph.aget_state(thread("delta"))).values["said"] == before
        assert len([one async for one in saver.alist(thread("delta"))]) <= len(checkpoints)
    assert len([one async for one in saver.alist(thread("delta"))]) < 9


class Notes(TypedDict):
    notes: Annotated[list[str], operator.add]


def test_a_program_without_a_loop_runs_a_graph_with_saver_and_store(home: Path, user: str) -> None:
    def answer(state: Notes, *, store: BaseStore) -> Notes:
        known = store.get(("notes",), "first")
        store.put(("notes",), "first", {"text": state["notes"][0]})
        return {"notes": [str(known and known.value["text"])]}

    with (
        LocalSaver.connect(home=home, user=user) as saver,
        LocalStore.connect(home=home, user=user) as store,
    ):
        builder = StateGraph(Notes).add_node(answer).add_edge(START, "answer")
        graph = builder.compile(checkpointer=saver, store=store)
        graph.invoke({"notes": ["An umbrella."]}, thread("plain"))
        second = graph.invoke({"notes": ["A hat."]}, thread("plain"))
        saved = list(saver.list(thread("plain")))

    assert second["notes"] == ["An umbrella.", "None", "A hat.", "An umbrella."]
    assert [found.metadata["source"] for found in saved] == ["loop", "loop", "input"] * 2
    with pytest.raises(BusError, match="is closed"):
        saver.get_tuple(thread("plain"))
