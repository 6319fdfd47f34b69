"""The first seconds of a stack: its vector worker starts for longer than questions take to come."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from local.app import Stack, open_stack
from local.bus.vector_client import VectorClient
from local.client.queries import QueryClient
from local.client.tools import call_tool
from local.llm.rules import NOTHING
from local.protocol.payloads import Generation
from local.protocol.vectors import VectorStatus
from local.settings import Settings
from stacks import CALLER, contents, in_step, recall, save, say, search, settings_in
from waiting import eventually

GOLD = "The chemical symbol of gold is Au."
QUESTION = "Which letters stand for that precious metal?"
"""It has no word of GOLD: only its meaning finds that."""
STARTING = "The memory is still starting."


def patient(folder: Path, seconds: float) -> Settings:
    settings = settings_in(folder)
    return replace(settings, memory=replace(settings.memory, starting_timeout=seconds))


async def remember_gold(settings: Settings) -> None:
    async with open_stack(settings, with_generator=False) as stack:
        await save(stack.bus, GOLD)
        await say(stack.bus, GOLD)
        await in_step(stack.bus, records=2)


async def asked(stack: Stack) -> Generation:
    async with QueryClient(stack.bus) as client:
        return await client.ask(QUESTION, caller=replace(CALLER, session_id="later"))


async def said_later(stack: Stack) -> list[str]:
    session = await call_tool(stack.bus, "load_session", {"session_id": "later"}, caller=CALLER)
    return [message["content"] for message in session.data["messages"]]


class Gate:
    """Keeps the index of a stack that starts from being compared, so that it starts for ever."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self._open = asyncio.Event()
        status_of = VectorClient.status

        async def wait(vectors: VectorClient, *, tenant: str) -> VectorStatus:
            await self._open.wait()
            return await status_of(vectors, tenant=tenant)

        patch.setattr(VectorClient, "status", wait)

    def open(self) -> None:
        self._open.set()


async def test_a_question_asked_at_once_finds_what_an_earlier_stack_remembered(
    tmp_path: Path,
) -> None:
    settings = patient(tmp_path, 120)
    await remember_gold(settings)

    async with open_stack(settings) as stack:
        found, recalled, turn = await asyncio.gather(
            search(stack.bus, QUESTION), recall(stack.bus, QUESTION), asked(stack)
        )

    assert contents(found) == [GOLD]
    assert contents(recalled)[0] == GOLD  # behind it stands the question that is being answered
    assert STARTING not in {found["reason"], recalled["reason"]}
    assert "Au" in turn.answer


@pytest.mark.usefixtures("worker_here")
async def test_a_memory_that_starts_for_too_long_says_so_and_does_not_remember_that_it_did(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither as an episode nor as a message; the question is remembered."""
    settings = patient(tmp_path, 0.05)
    await remember_gold(settings)
    gate = Gate(monkeypatch)

    async with open_stack(settings) as stack:
        found = await search(stack.bus, QUESTION)
        recalled = await recall(stack.bus, QUESTION)
        turn = await asked(stack)

        for nothing in (found, recalled):
            assert (contents(nothing), nothing["degraded"]) == ([], True)
            assert nothing["reason"] == STARTING
        assert STARTING in turn.answer
        assert NOTHING not in turn.answer

        await eventually(lambda: said_later(stack))
        assert await said_later(stack) == [QUESTION]
        gate.open()
        await in_step(stack.bus, records=3)
        assert GOLD in (await asked(stack)).answer


@pytest.mark.usefixtures("worker_here")
async def test_a_result_that_is_nothing_yet_says_to_a_model_that_it_may_be_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Gate(monkeypatch)
    async with open_stack(patient(tmp_path, 0), with_generator=False) as stack:
        for tool in ("search_memory", "recall"):
            result = await call_tool(stack.bus, tool, {"query": QUESTION}, caller=CALLER)

            assert result.ok
            assert result.content.startswith("No memories found.")
            assert f"it may be known all the same: {STARTING}" in result.content
