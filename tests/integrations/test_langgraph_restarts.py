"""A LangGraph graph resumes after its stack was killed, and no saved checkpoint is lost."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Annotated, Any, TypedDict

from langchain_core.language_models import FakeMessagesListChatModel
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, StateGraph, add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.store.base import BaseStore
from langgraph.types import Command, interrupt

from local2.integrations.langgraph import LocalSaver, LocalStore
from stack_process import stack_process
from stacks import settings_in
from waiting import eventually

BOOKING: RunnableConfig = {"configurable": {"thread_id": "booking"}}
NAMESPACE = ("ada", "bookings")


class State(TypedDict):
    messages: Annotated[list[AnyMessage], add_messages]
    confirmed: bool


def graph_of(
    saver: LocalSaver, store: LocalStore, *answers: str
) -> CompiledStateGraph[State, None, State, State]:
    """It asks a model, then a person, and stores the decision; the model follows a script."""
    model = FakeMessagesListChatModel(responses=[AIMessage(answer) for answer in answers])

    async def answer(state: State) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    def confirm(state: State) -> dict[str, Any]:
        del state
        return {"confirmed": interrupt("Shall I book it?")}

    async def note(state: State, *, store: BaseStore) -> dict[str, Any]:
        text = f"Booked: {state['messages'][-1].content}"
        await store.aput(NAMESPACE, "last", {"text": text})
        return {"messages": [await model.ainvoke(state["messages"])]}

    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_node("confirm", confirm)
    builder.add_node("note", note)
    builder.add_edge(START, "answer")
    builder.add_edge("answer", "confirm")
    builder.add_conditional_edges("confirm", lambda state: "note" if state["confirmed"] else END)
    return builder.compile(checkpointer=saver, store=store)


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[tuple[LocalSaver, LocalStore]]:
    settings = settings_in(folder)
    async with (
        LocalSaver.connect(user="ada", settings=settings) as saver,
        LocalStore.connect(user="ada", settings=settings) as store,
    ):
        yield saver, store


async def test_a_graph_waiting_for_a_person_resumes_after_its_stack_was_killed(
    tmp_path: Path,
) -> None:
    async with (
        stack_process(tmp_path, worker_here=True) as stack,
        opened(tmp_path) as (saver, store),
    ):
        graph = graph_of(saver, store, "The train at nine.")
        question: State = {"messages": [HumanMessage("A train to Oslo?")], "confirmed": False}
        interrupted = await graph.ainvoke(question, BOOKING)
        await stack.kill()
    async with stack_process(tmp_path, worker_here=True), opened(tmp_path) as (saver, store):
        graph = graph_of(saver, store, "Have a good journey.")
        before = await graph.aget_state(BOOKING)
        done = await graph.ainvoke(Command(resume=True), BOOKING)
        noted = await store.aget(NAMESPACE, "last")

    assert [one.value for one in interrupted["__interrupt__"]] == ["Shall I book it?"]
    assert before.next == ("confirm",)
    assert [message.content for message in done["messages"]] == [
        "A train to Oslo?",
        "The train at nine.",
        "Have a good journey.",
    ]
    assert noted is not None
    assert noted.value == {"text": "Booked: The train at nine."}


async def save(saver: LocalSaver, thread_id: str, acknowledged: list[str]) -> None:
    """Save checkpoints until cancelled, and collect the ids that were acknowledged."""
    config: RunnableConfig = {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}
    while True:
        number = len(acknowledged)
        config = await saver.aput(config, empty_checkpoint(), {"step": number}, {})
        await saver.aput_writes(config, [("channel", number)], "task")
        acknowledged.append(config["configurable"]["checkpoint_id"])


async def test_acknowledged_checkpoints_survive_a_kill(tmp_path: Path) -> None:
    acknowledged: dict[str, list[str]] = {f"t{number}": [] for number in range(4)}
    async with stack_process(tmp_path, worker_here=True) as stack, opened(tmp_path) as (saver, _):
        writers = [asyncio.create_task(save(saver, *each)) for each in acknowledged.items()]
        await eventually(lambda: all(len(ids) > 3 for ids in acknowledged.values()))
        await stack.kill()
        for writer in writers:
            writer.cancel()
        await asyncio.gather(*writers, return_exceptions=True)
    async with stack_process(tmp_path, worker_here=True), opened(tmp_path) as (saver, _):
        for thread_id, ids in acknowledged.items():
            config: RunnableConfig = {"configurable": {"thread_id": thread_id}}
            found = {one.checkpoint["id"]: one.pending_writes async for one in saver.alist(config)}
            assert [found[id_] for id_ in ids] == [
                [("task", "channel", number)] for number in range(len(ids))
            ]
