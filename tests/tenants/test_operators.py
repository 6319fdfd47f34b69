"""What an operator does for one of several tenants: status, dead letters, calls as a user."""

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from commands import answer
from doc_pages import python_in
from local2.errors import StorageError
from local2.ledger.operations.records import Records
from local2.stack.app import Stack
from tenant_agents import Agent, agent
from waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

UNREADABLE = {"source": "critic", "payload": {"query": "What is gold?", "answer": None}}


async def run_command(folder: Path, *words: str) -> Any:
    """Return what a command prints with --json; it needs a thread, since the stack has the loop."""
    return await asyncio.to_thread(answer, folder, *words)


async def request(one: Agent, subject: str, payload: dict[str, Any]) -> dict[str, Any]:
    message = await one.client.request(subject, json.dumps({"payload": payload}).encode())
    read: dict[str, Any] = json.loads(message.data)["payload"]
    return read


async def was_refused_again(operator: Agent, number: int) -> bool:
    """Whether a republished message was unreadable again."""
    wanted = {"action": "next", "number": number + 1}
    return (await request(operator, "memory.dead_letters", wanted))["found"] is not None


async def test_a_tenants_memories_are_added_to_the_vector_index(
    stack: Stack, folder: Path, acme: Agent, ada: str
) -> None:
    fact = {"content": "The lighthouse was painted in April.", "scope": "user"}
    assert (await acme.call("remember_fact", fact, token=ada)).ok
    async with agent(folder, stack.url, "acme", "local2") as operator:

        async def indexed() -> bool:
            status = await request(operator, "memory.status", {})
            return not status["waiting"] and 0 < status["indexed"] == status["in_index"]

        await eventually(indexed, within=30)


async def test_no_tenant_changes_the_embedder_of_the_others(stack: Stack, folder: Path) -> None:
    async with agent(folder, stack.url, "acme", "local2") as operator:
        answer = await request(operator, "memory.reindex", {"embedder": "minilm-int8"})
        status = await request(operator, "memory.status", {})

    assert "One embedder serves all tenants" in answer["problem"]
    assert status["next"] is None


@pytest.mark.usefixtures("stack")
async def test_a_command_runs_as_the_user_that_it_names(folder: Path) -> None:
    acme = ("--tenant", "acme", "call")
    await run_command(
        folder, *acme, "save_topic", "topic=user.ship", "content=Lark", "--user", "ada"
    )
    mine = await run_command(folder, *acme, "recall_topic", "topic=user.ship", "--user", "ada")
    other = await run_command(folder, *acme, "recall_topic", "topic=user.ship", "--user", "bob")
    assert (mine["data"]["content"], other["data"]["found"]) == ("Lark", False)


async def test_only_admins_of_a_tenant_read_its_dead_letters(
    stack: Stack, folder: Path, acme: Agent, beta: Agent
) -> None:
    await acme.client.publish("response.generation", json.dumps(UNREADABLE).encode())
    wanted = {"action": "next", "number": 1}
    async with (
        agent(folder, stack.url, "acme", "local2") as operator,
        agent(folder, stack.url, "beta", "local2") as stranger,
    ):

        async def letter() -> Any:
            return (await request(operator, "memory.dead_letters", wanted))["found"]

        await eventually(letter)
        found = await letter()
        assert json.loads(found["letter"]["message"]) == UNREADABLE
        assert (await request(stranger, "memory.dead_letters", wanted))["found"] is None
    for one in (acme, beta):
        assert (await request(one, "memory.dead_letters", wanted))["code"] == "forbidden"

    number = str(found["sequence"])
    commands = ("--tenant", "acme", "dead-letters")
    (listed,) = await run_command(folder, *commands, "list")
    assert (str(listed["number"]), listed["source"]) == (number, "critic")
    (retried,) = await run_command(folder, *commands, "retry", number, "--user", "ada")
    assert retried["done"] == "published again"
    async with agent(folder, stack.url, "acme", "local2") as operator:
        await eventually(lambda: was_refused_again(operator, int(number)))
    (dropped,) = await run_command(folder, *commands, "drop", "--all")
    assert (dropped["number"] > int(number), dropped["done"]) == (True, "dropped")
    assert await run_command(folder, *commands, "list") == []


@pytest.mark.usefixtures("stack")
async def test_a_health_check_needs_no_tenant_and_covers_all(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ready = await run_command(folder, "doctor", "--ready")
    assert ready == {"ready": True, "reasons": [], "stacks": []}

    async def usage(_: Records) -> None:
        raise StorageError("The disk is gone.")

    monkeypatch.setattr(Records, "usage", usage)
    refused = await run_command(folder, "doctor", "--ready")
    assert (refused["ready"], refused["reasons"]) == (False, ["The disk is gone."] * 2)


@pytest.mark.usefixtures("stack")
async def test_doctor_without_a_tenant_asks_for_one(folder: Path) -> None:
    findings = {one["name"]: one for one in await run_command(folder, "doctor")}
    assert findings["stack"]["verdict"] == "note"
    assert "--tenant" in findings["stack"]["remedy"]


@pytest.mark.usefixtures("stack")
async def test_the_example_of_the_docs_works_only_for_its_tenant(folder: Path, ada: str) -> None:
    """The command is a separate process in the folder of the stack."""
    example = python_in("docs/operations.md", "nats.connect")
    (folder / "example.py").write_text(example, encoding="utf-8")
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "example.py",
        cwd=folder,
        env={**os.environ, "TOKEN": ada},
        stdout=asyncio.subprocess.PIPE,
    )
    printed, _ = await process.communicate()
    assert printed == b"Memory saved: user.city\n"
    words = ("recall_topic", "topic=user.city", "--user", "ada")
    mine = await run_command(folder, "--tenant", "acme", "call", *words)
    theirs = await run_command(folder, "--tenant", "beta", "call", *words)
    assert (mine["data"]["content"], theirs["data"]["found"]) == ("Oslo", False)
