"""On a server with accounts, the home's settings determine the agent and user of the hooks."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from local2.hooks import acting
from local2.hooks.acting import Hooks
from local2.hooks.clients import CLIENTS
from local2.hooks.delivery import deliver
from local2.hooks.state import Situation
from local2.protocol.envelope import new_id
from local2.stack.app import Stack
from recorded_hooks import first
from tenant_agents import Answer, agent, token_for, with_tenants
from waiting import eventually
from workers import stack_with_worker_here

UNLIMITED = 1e6
CODEX = CLIENTS["codex"]
BUS = Path("config", "bus.yaml")


pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("home")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(home: Path) -> AsyncIterator[Stack]:
    settings = with_tenants(home, "acme", "beta")
    async with stack_with_worker_here(settings, with_generator=False) as running:
        yield running


@pytest.fixture(autouse=True)
def without_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acting, "PROMPT_SECONDS", UNLIMITED)


@pytest.fixture(params=["a file of credentials and a token", "a tenant whose keys are in the home"])
def ada(request: pytest.FixtureRequest, home: Path, stack: Stack) -> str:
    """A user for whom the hooks of the home act, as an agent of acme's."""
    assert stack.url
    user = f"ada-{new_id()}"
    if request.param.startswith("a file"):
        token = token_for(home, "acme", user)
        settings = f"credentials: config/nats/acme/agent.nk\ntoken: {token}\n"
    else:
        settings = "tenant: acme\n"
    (home / BUS).write_text(settings)
    return user


async def run_hook(home: Path, user: str, payload: dict[str, Any]) -> str | None:
    event = CODEX.read(json.dumps(payload).encode())
    assert event is not None
    hooks = Hooks(CODEX, Situation.of(home, user), lambda one: asyncio.run(deliver(one)))
    return await asyncio.to_thread(hooks.act, event)


async def call_tool_of(
    folder: Path, url: str, tenant: str, user: str, tool: str, **args: Any
) -> Answer:
    token = token_for(folder, tenant, user)
    async with agent(folder, url, tenant) as connected:
        return await connected.call(tool, args, token=token)


async def test_a_prompt_adds_only_memories_of_its_user_and_tenant(
    stack: Stack, home: Path, ada: str
) -> None:
    prompt = first("codex", home, "UserPromptSubmit")
    for tenant, user, linter in (
        ("acme", ada, "golangci-lint"),
        ("acme", f"bob of {ada}", "revive"),
        ("beta", ada, "staticcheck"),
    ):
        messages = [{"role": "assistant", "content": f"{prompt['prompt']} It is {linter}."}]
        answer = await call_tool_of(home, stack.url, tenant, user, "ingest", messages=messages)
        assert answer.ok, answer.content

    context = await run_hook(home, ada, prompt) or ""

    assert "golangci-lint" in context
    assert "revive" not in context
    assert "staticcheck" not in context


async def test_a_turn_is_stored_for_its_user_only(stack: Stack, home: Path, ada: str) -> None:
    await run_hook(home, ada, first("codex", home, "UserPromptSubmit"))
    await run_hook(home, ada, first("codex", home, "Stop"))

    async def known(tenant: str, user: str) -> bool:
        found = await call_tool_of(
            home, stack.url, tenant, user, "search_memory", query="golangci-lint"
        )
        assert found.ok, found.content
        return "golangci-lint" in found.content

    await eventually(lambda: known("acme", ada), within=60)
    assert not await known("acme", f"bob of {ada}")
    assert not await known("beta", ada)
