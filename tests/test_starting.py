"""The first seconds of a stack, in which questions arrive before the vector worker is ready."""

import asyncio
import math
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from local2.bus.vector_client import VectorClient
from local2.client.queries import QueryClient
from local2.client.tools import call_tool
from local2.errors import VectorError
from local2.ledger.operations.erasures import Erasures
from local2.llm.rules import NOTHING
from local2.memory.indexing import Indexer
from local2.protocol.payloads import Generation
from local2.protocol.vectors import VectorStatus
from local2.settings import Settings
from local2.stack.app import Stack, open_stack
from stacks import CALLER, contents, in_step, recall, save, say, search, settings_in
from waiting import eventually
from workers import stack_with_worker_here

GOLD = "The chemical symbol of gold is Au."
QUESTION = "Which letters stand for that precious metal?"
"""It shares no word with GOLD, so only its meaning finds that."""
STARTING = "The memory is still starting."
PATIENCE = 60.0
"""Seconds for which a question waits for the start: on a busy machine, it takes that long."""
IMPATIENCE = 8.0
"""Seconds after which a search that waits for the worker has failed."""


async def remember_gold(settings: Settings) -> None:
    async with stack_with_worker_here(settings, with_generator=False) as stack:
        await save(stack.bus, GOLD)
        await say(stack.bus, GOLD)
        await in_step(stack.bus, records=2)


async def ask(stack: Stack) -> Generation:
    async with QueryClient(stack.bus) as client:
        return await client.ask(QUESTION, caller=replace(CALLER, session_id="later"))


async def messages_of_later_session(stack: Stack) -> list[str]:
    session = await call_tool(stack.bus, "load_session", {"session_id": "later"}, caller=CALLER)
    return [message["content"] for message in session.data["messages"]]


class Gate:
    """Delays the comparison of a starting stack's index, so that the start does not end.

    Until then, nothing else is known of the index.
    """

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._open = asyncio.Event()
        status_of, held_of = VectorClient.status, VectorClient.held

        async def wait(vectors: VectorClient) -> VectorStatus:
            await self._open.wait()
            return await status_of(vectors)

        async def fail(vectors: VectorClient, ids: list[str]) -> list[str]:
            if not self._open.is_set():
                raise VectorError("Nobody serves vector.ids.")
            return await held_of(vectors, ids)

        patch.setattr(VectorClient, "status", wait)
        patch.setattr(VectorClient, "held", fail)

    def open(self) -> None:
        self._open.set()


@pytest.mark.usefixtures("worker_here")
async def test_forget_waits_for_the_starting_worker_and_checks_the_index(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_in(tmp_path)
    await remember_gold(settings)
    gate = Gate(monkeypatch)
    scrubbed, scrub = asyncio.Event(), Erasures.scrub

    async def scrub_and_tell(erasures: Erasures) -> None:
        await scrub(erasures)
        scrubbed.set()

    monkeypatch.setattr(Erasures, "scrub", scrub_and_tell)
    async with open_stack(settings, with_generator=False) as stack:
        forgetting = asyncio.create_task(
            call_tool(stack.bus, "forget", {"everything": True}, caller=CALLER, timeout=60)
        )
        await scrubbed.wait()
        gate.open()
        receipt = (await forgetting).data

    assert receipt["complete"], receipt["checks"]
    assert {"name": "vector index", "found": 0} in receipt["checks"]


@pytest.mark.usefixtures("worker_here")
async def test_forget_says_that_the_worker_has_not_started_when_its_caller_waits_no_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_in(tmp_path)
    await remember_gold(settings)
    Gate(monkeypatch)
    async with open_stack(settings, with_generator=False) as stack:
        receipt = await call_tool(
            stack.bus, "forget", {"everything": True}, caller=CALLER, timeout=3
        )

    assert receipt.ok
    assert not receipt.data["complete"]
    assert STARTING in receipt.content


@pytest.mark.usefixtures("worker_here")
async def test_a_question_during_the_start_finds_what_an_earlier_stack_remembered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = settings_in(tmp_path, starting_timeout=PATIENCE)
    generator = replace(settings.generator, tool_timeout=PATIENCE)
    await remember_gold(settings)
    gate = Gate(monkeypatch)
    waiting, wait_for_start = list[None](), Indexer.wait_for_start

    async def note_and_wait(indexer: Indexer, within: float = math.inf) -> None:
        waiting.append(None)
        await wait_for_start(indexer, within)

    monkeypatch.setattr(Indexer, "wait_for_start", note_and_wait)
    async with open_stack(replace(settings, generator=generator)) as stack:
        find = partial(
            call_tool, stack.bus, args={"query": QUESTION}, caller=CALLER, timeout=PATIENCE
        )
        questions = asyncio.gather(find("search_memory"), find("recall"), ask(stack))
        # Two searches of a user run at once.
        await eventually(lambda: len(waiting) >= 2, within=PATIENCE)
        gate.open()
        found, recalled, turn = await questions

    assert contents(found.data) == [GOLD]
    assert contents(recalled.data)[0] == GOLD  # the question being answered is second
    assert STARTING not in {found.data["reason"], recalled.data["reason"]}
    assert "Au" in turn.answer


@pytest.mark.usefixtures("worker_here")
async def test_words_find_memories_at_once_during_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Gate(monkeypatch)
    async with open_stack(settings_in(tmp_path), with_generator=False) as stack:
        await save(stack.bus, GOLD)
        for tool in ("recall", "search_memory"):
            async with asyncio.timeout(IMPATIENCE):
                found = await call_tool(
                    stack.bus, tool, {"query": "symbol of gold"}, caller=CALLER, timeout=60
                )

            assert contents(found.data) == [GOLD]
            assert found.data["reason"] == STARTING


@pytest.mark.usefixtures("worker_here")
async def test_a_memory_that_starts_too_slowly_says_so_and_does_not_remember_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as an episode nor as a message; the question is remembered."""
    settings = settings_in(tmp_path, starting_timeout=0.05)
    await remember_gold(settings)
    gate = Gate(monkeypatch)

    async with open_stack(settings) as stack:
        found = await search(stack.bus, QUESTION)
        recalled = await recall(stack.bus, QUESTION)
        turn = await ask(stack)

        for nothing in (found, recalled):
            assert (contents(nothing), nothing["degraded"]) == ([], True)
            assert nothing["reason"] == STARTING
        assert STARTING in turn.answer
        assert NOTHING not in turn.answer

        await eventually(lambda: messages_of_later_session(stack))
        assert await messages_of_later_session(stack) == [QUESTION]
        gate.open()
        await in_step(stack.bus, records=3)
        assert GOLD in (await ask(stack)).answer
