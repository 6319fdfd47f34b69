"""A session of each client, over a live stack.

What matters and what is found reach the model, and every finished turn becomes a memory, once,
without what the model was given.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from local.app import Stack, open_stack
from local.bus.connection import Connection
from local.client.tools import call_tool
from local.hooks import acting
from local.hooks.acting import Hooks
from local.hooks.clients import CLIENTS
from local.hooks.delivery import deliver
from local.hooks.state import Outbox, Situation
from local.protocol.envelope import Sender
from recorded_hooks import CLIENT_NAMES, first, payloads
from stacks import settings_in
from waiting import eventually

UNLIMITED = 1e6
"""Seconds: how fast this machine is, is not what is tested."""
DELIVERED = 60.0
"""Seconds for a process of its own to start, connect and deliver."""
KNOWN = "All services are deployed with Nomad."
ANSWERS = {
    "claude-code": "RabbitMQ",
    "codex": "golangci-lint",
    "cursor": "Consul",
}

Happen = Callable[[dict[str, Any]], Awaitable[str | None]]


@pytest.fixture
async def stack(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Stack]:
    request.getfixturevalue("worker_here")
    async with open_stack(settings_in(tmp_path), with_generator=False) as running:
        yield running


@pytest.fixture(autouse=True)
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "PROMPT_SECONDS", UNLIMITED)
    monkeypatch.setattr(acting, "START_SECONDS", UNLIMITED)


@pytest.fixture(params=CLIENT_NAMES)
def client(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def happen(client: str, tmp_path: Path) -> Happen:
    """What the client's hook answers to a payload, as a context."""
    known = CLIENTS[client]

    async def act(payload: dict[str, Any]) -> str | None:
        event = known.read(json.dumps(payload).encode())
        assert event is not None
        hooks = Hooks(known, Situation.of(tmp_path, None), in_this_process)
        return await asyncio.to_thread(hooks.act, event)

    return act


def in_this_process(situation: Situation) -> None:
    asyncio.run(deliver(situation))


async def call(bus: Connection, tool: str, **args: Any) -> Any:
    result = await call_tool(bus, tool, args, caller=Sender(agent="test"))
    assert result.ok, result.content
    return result.data


async def remembered(bus: Connection, query: str) -> list[dict[str, Any]]:
    """Questions with their answers."""
    hits: list[dict[str, Any]] = (await call(bus, "search_memory", query=query))["hits"]
    return [hit for hit in hits if hit["content"].startswith("Q: ")]


async def delivered(bus: Connection, folder: Path, query: str) -> list[dict[str, Any]]:
    """What is remembered once everything is delivered."""
    outbox = Outbox(Situation.of(folder, None).turns)
    await eventually(lambda: outbox.is_empty, within=DELIVERED)

    async def found() -> list[dict[str, Any]]:
        return await remembered(bus, query)

    await eventually(found, within=DELIVERED)
    return await found()


async def test_a_session_begins_with_what_matters(
    stack: Stack, happen: Happen, client: str, tmp_path: Path
) -> None:
    await call(stack.bus, "remember_fact", content=KNOWN, importance=0.9, scope="tenant")

    context = await happen(payloads(client, tmp_path)[0])

    assert context is not None
    assert KNOWN in context


@pytest.mark.usefixtures("stack")
async def test_a_session_without_memories_begins_with_nothing(
    happen: Happen, client: str, tmp_path: Path
) -> None:
    assert await happen(payloads(client, tmp_path)[0]) is None


async def test_a_prompt_brings_what_is_found_if_the_client_takes_it(
    stack: Stack, happen: Happen, client: str, tmp_path: Path
) -> None:
    prompt = first(client, tmp_path, "UserPromptSubmit")
    await call(stack.bus, "ingest", messages=[{"role": "assistant", "content": prompt["prompt"]}])

    context = await happen(prompt)

    if CLIENTS[client].prompts_take_contexts:
        assert context is not None
        assert prompt["prompt"] in context
    else:
        assert context is None


@pytest.mark.parametrize("client", ["claude-code"])
async def test_what_matters_comes_with_the_first_prompt_if_the_start_could_not_bring_it(
    stack: Stack, happen: Happen, client: str, tmp_path: Path
) -> None:
    await call(stack.bus, "remember_fact", content=KNOWN, importance=0.9, scope="tenant")
    prompt = first(client, tmp_path, "UserPromptSubmit")

    assert "<pre-seeded-memories>" in (await happen(prompt) or "")
    assert "<pre-seeded-memories>" not in (await happen(prompt) or "")


async def test_a_finished_turn_is_remembered_once(
    stack: Stack, happen: Happen, client: str, tmp_path: Path
) -> None:
    session = payloads(client, tmp_path)
    ends = [one for one in session if one["hook_event_name"].lower() == "stop"]
    for payload in [*session[:-1], *ends, session[-1]]:
        await happen(payload)

    (turn,) = await delivered(stack.bus, tmp_path, ANSWERS[client])
    assert ANSWERS[client] in turn["content"]
    assert turn["metadata"]["agent"] == client
    assert turn["metadata"]["project"] == str(tmp_path)


@pytest.mark.parametrize("client", ["claude-code"])
async def test_a_later_answer_takes_the_place_of_the_earlier_one(
    stack: Stack, happen: Happen, client: str, tmp_path: Path
) -> None:
    stop = first(client, tmp_path, "Stop")
    await happen(first(client, tmp_path, "UserPromptSubmit"))
    await happen({**stop, "last_assistant_message": "I look for the broker."})
    await happen(stop)

    async def revised() -> bool:
        found = await remembered(stack.bus, "invoice worker broker")
        return [ANSWERS[client] in turn["content"] for turn in found] == [True]

    await eventually(revised, within=DELIVERED)


@pytest.mark.parametrize("client", ["cursor"])
async def test_an_answer_is_of_its_own_turn(
    stack: Stack, happen: Happen, client: str, tmp_path: Path
) -> None:
    _, prompt, *said, stop, _ = payloads(client, tmp_path)
    for payload in (prompt, *said, stop):
        await happen(payload)
    later = {"generation_id": "later"}
    await happen({**prompt, **later, "prompt": "Which port does the shop listen on?"})
    await happen({**said[0], **later, "text": "It listens on 8443."})
    await happen({**said[0], "text": "This is of the turn before."})
    await happen({**stop, **later})

    turns = await delivered(stack.bus, tmp_path, "the shop listens on port 8443")

    answer = next(one["content"] for one in turns if "8443" in one["content"])
    assert answer == "Q: Which port does the shop listen on?\nA: It listens on 8443."


@pytest.mark.parametrize("client", ["claude-code", "codex"])
async def test_what_the_model_was_given_never_becomes_a_memory(
    stack: Stack, happen: Happen, client: str, tmp_path: Path
) -> None:
    await call(stack.bus, "remember_fact", content=KNOWN, importance=0.9, scope="tenant")
    context = await happen(payloads(client, tmp_path)[0])
    prompt, stop = (first(client, tmp_path, event) for event in ("UserPromptSubmit", "Stop"))
    await happen({**prompt, "prompt": f"{context}\n{prompt['prompt']}"})
    answer = f"{stop['last_assistant_message']}\n{context}"
    await happen({**stop, "last_assistant_message": answer})

    (turn,) = await delivered(stack.bus, tmp_path, ANSWERS[client])

    assert turn["content"] == f"Q: {prompt['prompt']}\nA: {stop['last_assistant_message']}"


@pytest.mark.parametrize("client", ["codex"])
async def test_an_answer_that_repeats_a_memory_is_known_to_rest_on_it(
    stack: Stack, happen: Happen, client: str, tmp_path: Path
) -> None:
    await call(stack.bus, "remember_fact", content=KNOWN, importance=0.9, scope="tenant")
    asked = {**first(client, tmp_path, "UserPromptSubmit"), "prompt": "How do we deploy?"}
    await happen(asked)
    await happen({**first(client, tmp_path, "Stop"), "last_assistant_message": KNOWN})

    (turn,) = await delivered(stack.bus, tmp_path, "How do we deploy?")

    assert turn["metadata"]["adds"] == []


@pytest.mark.parametrize("client", ["claude-code"])
async def test_what_was_said_in_the_session_is_not_given_again_until_it_is_compacted(
    stack: Stack, happen: Happen, client: str, tmp_path: Path
) -> None:
    start, prompt, stop, compacting = payloads(client, tmp_path)[:4]
    for payload in (start, prompt, stop):
        await happen(payload)
    await delivered(stack.bus, tmp_path, ANSWERS[client])

    assert ANSWERS[client] not in (await happen(prompt) or "")
    await happen(compacting)
    assert ANSWERS[client] in (await happen(prompt) or "")


@pytest.mark.parametrize("client", ["claude-code"])
async def test_what_the_client_says_to_itself_is_no_turn(
    stack: Stack, happen: Happen, client: str, tmp_path: Path
) -> None:
    session = payloads(client, tmp_path)
    for payload in session:
        await happen(payload)

    await delivered(stack.bus, tmp_path, ANSWERS[client])
    assert await remembered(stack.bus, "The build passed.") == []


@pytest.mark.parametrize("client", ["claude-code"])
async def test_a_prompt_that_was_interrupted_is_not_answered_by_another_turn(
    stack: Stack, happen: Happen, client: str, tmp_path: Path
) -> None:
    prompt = first(client, tmp_path, "UserPromptSubmit")
    await happen({**prompt, "prompt": "Rewrite everything in Ada."})
    await happen(prompt)
    await happen(first(client, tmp_path, "Stop"))

    (turn,) = await delivered(stack.bus, tmp_path, ANSWERS[client])
    assert "Ada" not in turn["content"]


@pytest.mark.usefixtures("stack")
@pytest.mark.parametrize("client", ["claude-code"])
async def test_a_session_that_ended_leaves_nothing(
    happen: Happen, client: str, tmp_path: Path
) -> None:
    for payload in payloads(client, tmp_path):
        await happen(payload)

    left = {file.name for file in (tmp_path / ".local2" / "hooks").rglob("*") if file.is_file()}
    assert left == {"lock"}
