"""Acknowledged writes survive every kill, and recall answers while the worker is killed."""

import asyncio
import json
import os
import signal
from functools import partial
from itertools import count
from pathlib import Path

import pytest

from local2.bus.connection import Connection, connect
from local2.bus.streams import publish_durably
from local2.client.tools import call_tool
from local2.errors import FolderLockedError
from local2.stack import app, joining, supervisor
from stack_process import stack_process
from stacks import CALLER, contents, in_step, save, say, search, settings_in, status
from waiting import eventually

STACK_KILLS = 2
WORKER_KILLS = 2
"""Kills per test; `uv run benchmarks faults` does more."""
BATCH = 100
WRITERS = 8
RECORDS_OF_A_TURN = 3
"""The episode, the question and the answer."""


class Acknowledged:
    """The writes that the stack acknowledged: topics with their values, notes, and messages."""

    def __init__(self) -> None:
        self.topics: dict[str, str] = {}
        self.notes: set[str] = set()
        self.messages: set[str] = set()
        self._enough, self._has_enough = 0, asyncio.Event()

    async def more_notes(self, number: int) -> None:
        """Wait for so many more notes; each that is not waited for would be embedded in vain."""
        self._enough = len(self.notes) + number
        self._has_enough.clear()
        await self._has_enough.wait()

    def add_note(self, note: str) -> None:
        self.notes.add(note)
        if len(self.notes) >= self._enough:
            self._has_enough.set()


async def write_until_killed(bus: Connection, acknowledged: Acknowledged, number: int) -> None:
    """Save topics, notes and messages in turn until the stack stops answering."""
    for turn in count():
        topic, value = f"project.t{number}_{turn}", f"value {number} of turn {turn}"
        note = f"Note {number}-{turn} of writer {os.urandom(4).hex()}."
        args = {"topic": topic, "content": value}
        saved = await call_tool(bus, "save_topic", args, caller=CALLER)
        if not saved.ok:
            return
        acknowledged.topics[topic] = value
        args = {"content": note}
        saved = await call_tool(bus, "save_memory", args, caller=CALLER)
        if not saved.ok:
            return
        acknowledged.add_note(note)
        messages = {"messages": [{"role": "user", "content": note}]}
        said = await call_tool(bus, "ingest", messages, caller=CALLER)
        if not said.ok:
            return
        acknowledged.messages.add(note)


@pytest.mark.timeout(180)
async def test_every_acknowledged_save_survives_a_kill_of_the_stack(tmp_path: Path) -> None:
    acknowledged = Acknowledged()
    stack_in = partial(stack_process, worker_here=True)
    for kill in range(STACK_KILLS):
        async with stack_in(tmp_path) as stack, connect(stack.url, name="test") as bus:
            writers = [
                asyncio.create_task(write_until_killed(bus, acknowledged, kill * WRITERS + n))
                for n in range(WRITERS)
            ]
            await acknowledged.more_notes(12 * (kill + 1))
            await stack.kill()
            for writer in writers:
                writer.cancel()  # it waits for an answer that will never arrive
            await asyncio.gather(*writers, return_exceptions=True)

    async with stack_in(tmp_path) as stack, connect(stack.url, name="test") as bus:
        for topic, value in acknowledged.topics.items():
            recalled = await call_tool(bus, "recall_topic", {"topic": topic}, caller=CALLER)
            assert recalled.content == f"[Memory: {topic}] {value}"
        again = [await save(bus, note) for note in acknowledged.notes]
        sent_again = [await say(bus, message) for message in acknowledged.messages]
        await in_step(bus, within=60)
        found = await search(bus, "note of a writer")
    assert [saved for saved in again if saved.data["was_new"]] == [], "saved before, and lost"
    assert sum(said.data["added"] for said in sent_again) == 0, "said before, and lost"
    assert found["degraded"] is False
    assert len(acknowledged.topics) > STACK_KILLS * 15


@pytest.mark.timeout(180)
async def test_turns_published_around_a_kill_are_each_remembered_once(tmp_path: Path) -> None:
    turns = {f"q{n}": f"Answer {n} about osmium." for n in range(80)}

    async def publish(bus: Connection, query_id: str) -> None:
        payload = {"answer": turns[query_id], "query": "?", "query_id": query_id}
        message = json.dumps({"user": "richard", "payload": payload}).encode()
        await publish_durably(bus, "response.generation", message, message_id=query_id)

    stored: set[str] = set()
    stack_in = partial(stack_process, worker_here=True)
    async with stack_in(tmp_path) as stack, connect(stack.url, name="test") as bus:

        async def publish_all() -> None:
            for query_id in turns:
                await publish(bus, query_id)
                stored.add(query_id)

        publishing = asyncio.create_task(publish_all())
        await eventually(lambda: len(stored) >= 40)
        await stack.kill()
        publishing.cancel()
        await asyncio.gather(publishing, return_exceptions=True)

    async with stack_in(tmp_path) as stack, connect(stack.url, name="test") as bus:

        async def remembered(count: int) -> bool:
            return (await status(bus)).records >= RECORDS_OF_A_TURN * count

        await eventually(lambda: remembered(len(stored)), within=30)
        for query_id in turns:  # publishers do not know which turns arrived
            await publish(bus, query_id)
        await eventually(lambda: remembered(len(turns)), within=30)
        await in_step(bus)
        assert (await status(bus)).records == RECORDS_OF_A_TURN * len(turns)


async def test_a_stack_starts_right_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The killed stack's worker may still be importing; it then releases the folder."""
    monkeypatch.setattr(joining, "DEATH_PATIENCE", 60.0)
    async with stack_process(tmp_path) as stack:
        await stack.kill()

    async with app.open_stack(settings_in(tmp_path)) as stack_after:
        assert (await save(stack_after.bus, "I am here.")).ok


@pytest.mark.usefixtures("worker_here")
async def test_processes_left_by_a_killed_stack_hold_the_folder_until_they_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its NATS server, suspended here, might still write to files that a new one would use."""
    monkeypatch.setattr(joining, "DEATH_PATIENCE", 3.0)
    settings = settings_in(tmp_path)
    async with stack_process(tmp_path, worker_here=True) as stack:
        async with connect(stack.url, name="test") as bus:
            await in_step(bus)
        server = stack.server_pid
        os.kill(server, signal.SIGSTOP)
        await stack.kill()
    try:
        with pytest.raises(FolderLockedError):
            async with app.open_stack(settings):
                pass
    finally:
        os.kill(server, signal.SIGCONT)

    async with app.open_stack(settings) as stack_after:
        assert (await save(stack_after.bus, "I am here.")).ok


@pytest.mark.timeout(180)
@pytest.mark.usefixtures("worker_forked")
async def test_recall_answers_while_the_worker_is_killed_in_its_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervisor, "LAST_DELAY", supervisor.FIRST_DELAY)
    texts: list[str] = []
    async with app.open_stack(settings_in(tmp_path), with_generator=False) as stack:

        async def is_indexing() -> bool:
            now = await status(stack.bus)
            return now.vectors_available and now.waiting > 0

        async def search_on() -> None:
            while True:
                await search(stack.bus, "note of a batch")

        searching = asyncio.create_task(search_on())
        for kill in range(WORKER_KILLS):
            batch = [f"Note {n} of batch {kill}: word{kill}x{n}." for n in range(BATCH)]
            await asyncio.gather(*(save(stack.bus, text) for text in batch))
            texts += batch
            await eventually(is_indexing, within=30)
            pid = stack.vector_worker.pid
            assert pid is not None
            os.kill(pid, signal.SIGKILL)
            await eventually(lambda: stack.vector_worker.pid not in {None, pid}, within=30)  # noqa: B023 - awaited in the loop
        await in_step(stack.bus, records=len(texts), within=60)
        assert not searching.done(), "every search meanwhile was answered"
        searching.cancel()
        found = [await search(stack.bus, text) for text in texts]

    assert [contents(one)[0] for one in found] == texts
