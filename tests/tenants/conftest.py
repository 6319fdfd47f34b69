"""One live stack with two tenants, and an agent of each."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from local2.stack.app import Stack
from tenant_agents import Agent, agent, token_for, with_tenants
from workers import stack_with_worker_here


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("tenants")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stack(folder: Path) -> AsyncIterator[Stack]:
    settings = with_tenants(folder, "acme", "beta")
    async with stack_with_worker_here(settings, log_folder=folder) as running:
        yield running


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def acme(stack: Stack, folder: Path) -> AsyncIterator[Agent]:
    async with agent(folder, stack.url, "acme") as connected:
        yield connected


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def beta(stack: Stack, folder: Path) -> AsyncIterator[Agent]:
    async with agent(folder, stack.url, "beta") as connected:
        yield connected


@pytest.fixture(scope="module")
def ada(folder: Path, stack: Stack) -> str:  # noqa: ARG001 - the accounts are made with it
    """A token of acme for ada."""
    return token_for(folder, "acme", "ada")


@pytest.fixture(scope="module")
def bob(folder: Path, stack: Stack) -> str:  # noqa: ARG001
    """A token of acme for bob."""
    return token_for(folder, "acme", "bob")
