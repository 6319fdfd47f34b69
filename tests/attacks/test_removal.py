"""Who was removed, or has another key, has no access any more, however long connected."""

import asyncio
from collections.abc import Awaitable, Callable

import nats.errors
import pytest

from attacks.world import VAULT, World, refused
from commands import in_a_fork
from tenant_agents import Agent, agent
from waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")


async def _done(world: World, *words: str) -> None:
    done = await asyncio.to_thread(in_a_fork, world.folder, "tenants", *words)
    assert done.returncode == 0, done.stderr


def _shut_out(who: Agent, token: str) -> Callable[[], Awaitable[bool]]:
    """Whether nothing is answered any more, by the memory or by the server."""

    async def tried() -> bool:
        try:
            answer = await who.call("recall", {"query": VAULT}, token=token)
        except (nats.errors.Error, TimeoutError):
            return True
        return answer.code == "forbidden"

    return tried


@pytest.mark.parametrize("change", ["remove", "rotate"])
async def test_a_connected_agent_whose_key_is_gone(world: World, change: str) -> None:
    await _done(world, "add", "acme", "--agent", f"temp-{change}")

    async def admitted() -> bool:
        try:
            async with agent(world.folder, world.url, "acme", f"temp-{change}"):
                return True
        except (nats.errors.Error, OSError, TimeoutError):
            return False

    await eventually(admitted, within=20)
    async with agent(world.folder, world.url, "acme", f"temp-{change}") as temp:
        assert (await temp.call("recall", {"query": VAULT}, token=world.token("ada"))).ok
        await _done(world, change, "acme", "--agent", f"temp-{change}")
        await eventually(_shut_out(temp, world.token("ada")), within=20)
        await eventually(lambda: temp.client.is_closed, within=20)


async def test_a_token_whose_key_was_replaced_twice(world: World) -> None:
    old = world.token("ada")
    await _done(world, "rotate", "acme")
    assert (await world.desk.call("recall", {"query": VAULT}, token=old)).ok
    await _done(world, "rotate", "acme")
    await eventually(_shut_out(world.desk, old), within=20)
    refused(await world.desk.call("recall", {"query": VAULT}, token=old))
    assert (await world.desk.call("recall", {"query": VAULT}, token=world.token("ada"))).ok


async def test_a_tenant_that_is_removed(world: World) -> None:
    token = world.token("ada", "beta")
    assert (await world.office.call("recall", {"query": VAULT}, token=token)).ok
    await _done(world, "remove", "beta")
    await eventually(_shut_out(world.office, token), within=20)
    assert (await world.desk.call("recall", {"query": VAULT}, token=world.token("ada"))).ok
