"""On a server with accounts, the home's settings determine the agent and user of the hooks."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from local2.hooks import acting
from local2.hooks.acting import Hooks
from local2.hooks.clients import CLIENTS
from local2.hooks.delivery import deliver
from local2.hooks.state import Situation
from local2.stack.app import Stack, open_stack
from recorded_hooks import first
from tenant_agents import Answer, agent, token_for, with_tenants
from waiting import eventually

UNLIMITED = 1e6
CODEX = CLIENTS["codex"]
BUS = Path("config", "bus.yaml")


@pytest.fixture
async def stack(
    tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[Stack]:
    request.getfixturevalue("worker_here")
    monkeypatch.setattr(acting, "PROMPT_SECONDS", UNLIMITED)
    async with open_stack(with_tenants(tmp_path, "acme", "beta"), with_generator=False) as running:
        yield running


@pytest.fixture(params=["a file of credentials and a token", "a tenant whose keys are in the home"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """Return a home whose hooks act as an agent of acme's, for Ada."""
    request.getfixturevalue("stack")
    if request.param.startswith("a file"):
        token = token_for(tmp_path, "acme", "ada")
        settings = f"credentials: config/nats/acme/agent.nk\ntoken: {token}\n"
    else:
        settings = "tenant: acme\n"
    (tmp_path / BUS).write_text(settings)
    return tmp_path


async def run_hook(home: Path, payload: dict[str, Any]) -> str | None:
    event = CODEX.read(json.dumps(payload).encode())
    assert event is not None
    hooks = Hooks(CODEX, Situation.of(home, "ada"), lambda one: asyncio.run(deliver(one)))
    return await asyncio.to_thread(hooks.act, event)


async def call_tool_of(
    folder: Path, url: str, tenant: str, user: str, tool: str, **args: Any
) -> Answer:
    token = token_for(folder, tenant, user)
    async with agent(folder, url, tenant) as connected:
        return await connected.call(tool, args, token=token)


async def test_a_prompt_adds_only_memories_of_its_user_and_tenant(stack: Stack, home: Path) -> None:
    prompt = first("codex", home, "UserPromptSubmit")
    for tenant, user, linter in (
        ("acme", "ada", "golangci-lint"),
        ("acme", "bob", "revive"),
        ("beta", "ada", "staticcheck"),
    ):
        messages = [{"role": "assistant", "content": f"{prompt['prompt']} It is {linter}."}]
        answer = await call_tool_of(home, stack.url, tenant, user, "ingest", messages=messages)
        assert answer.ok, answer.content

    context = await run_hook(home, prompt) or ""

    assert "golangci-lint" in context
    assert "revive" not in context
    assert "staticcheck" not in context


async def test_a_turn_is_stored_for_its_user_only(stack: Stack, home: Path) -> None:
    await run_hook(home, first("codex", home, "UserPromptSubmit"))
    await run_hook(home, first("codex", home, "Stop"))

    async def known(tenant: str, user: str) -> bool:
        found = await call_tool_of(
            home, stack.url, tenant, user, "search_memory", query="golangci-lint"
        )
        assert found.ok, found.content
        return "golangci-lint" in found.content

    await eventually(lambda: known("acme", "ada"), within=60)
    assert not await known("acme", "bob")
    assert not await known("beta", "ada")
