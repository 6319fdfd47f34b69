"""Attackers with credentials read and change nothing of others on a stack with two tenants.

After each attack, its results hold no secret, and what was stored is unchanged, or the others are
at least answered as before. After all of them, they are. What reaches statements with another's ids
or with SQL is tried on each engine; the rest is refused before, and is tried on SQLite.

In the end, agents and tenants are removed, and keys replaced: they lose their access, even while
connected.
"""

import asyncio
from collections.abc import Awaitable, Callable

import nats.errors
import pytest

from attacks import claims, listening, people, roles, tokens, web
from attacks.world import VAULT, Case, World, ask, refused, secrets_in
from commands import in_a_fork
from tenant_agents import Agent, agent
from waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")

ON_ROWS: list[Case] = [*people.CASES, *claims.INJECTIONS]
CASES: list[Case] = [
    *tokens.CASES,
    *claims.CASES,
    *ON_ROWS,
    *roles.CASES,
    *listening.CASES,
    *web.CASES,
]
on_sqlite = pytest.mark.parametrize("world", ["sqlite"], indirect=True, scope="module")
on_postgres = pytest.mark.parametrize("world", ["postgres"], indirect=True, scope="module")


@on_sqlite
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
async def test_an_attack_reads_nothing_and_changes_nothing(world: World, case: Case) -> None:
    await withstand(world, case)


@on_postgres
@pytest.mark.parametrize("case", ON_ROWS, ids=lambda case: case.name)
async def test_an_attack_on_rows_in_postgresql_reads_nothing_and_changes_nothing(
    world: World, case: Case
) -> None:
    await withstand(world, case)


async def withstand(world: World, case: Case) -> None:
    loot = await case.attack(world)
    await world.at_rest()
    assert secrets_in(loot, case.tenant) == []
    if (stored := world.stored()) != world.rows:  # some attackers listen while ada works
        assert await world.known_to_users() == world.known
        world.rows = stored


async def test_after_all_attacks_the_users_are_answered_as_before(world: World) -> None:
    assert await world.known_to_users() == world.known


async def _run_tenants(world: World, *words: str) -> None:
    done = await asyncio.to_thread(in_a_fork, world.folder, "tenants", *words)
    assert done.returncode == 0, done.stderr


def _is_shut_out(attacker: Agent, token: str) -> Callable[[], Awaitable[bool]]:
    """Return a condition: neither the memory nor the server answers the agent."""

    async def call_fails() -> bool:
        call = asyncio.create_task(attacker.call("recall", {"query": VAULT}, token=token))
        try:
            # A call whose connection was closed is never answered: it would wait for its timeout.
            await eventually(lambda: call.done() or attacker.client.is_closed)
            if not call.done():
                return True
            return (await call).code == "forbidden"
        except (nats.errors.Error, TimeoutError):
            return True
        finally:
            call.cancel()

    return call_fails


@on_sqlite
@pytest.mark.parametrize("change", ["remove", "rotate"])
async def test_a_connected_agent_without_a_valid_key_loses_access(
    world: World, change: str
) -> None:
    await _run_tenants(world, "add", "acme", "--agent", f"temp-{change}")
    async with agent(world.folder, world.url, "acme", f"temp-{change}") as temp:
        assert (await temp.call("recall", {"query": VAULT}, token=world.token("ada"))).ok
        await _run_tenants(world, change, "acme", "--agent", f"temp-{change}")
        await eventually(_is_shut_out(temp, world.token("ada")), within=20)
        await eventually(lambda: temp.client.is_closed, within=20)


@on_postgres
async def test_the_key_for_tokens_is_not_rotated_on_one_of_several_stacks(world: World) -> None:
    world.ledger("INSERT INTO stack (id, name) VALUES ('other', 'other') RETURNING id")
    refusal = await ask(world.boss, "memory.tenant.rotate", {})
    world.ledger("DELETE FROM stack WHERE id = 'other' RETURNING id")

    assert "local2 tenants rotate acme" in refusal
    assert "local2 tenants rotate acme" not in await ask(world.boss, "memory.tenant.rotate", {})


@on_sqlite
async def test_a_token_is_refused_after_its_key_was_replaced_twice(world: World) -> None:
    old = world.token("ada")
    await _run_tenants(world, "rotate", "acme")
    assert (await world.desk.call("recall", {"query": VAULT}, token=old)).ok
    await _run_tenants(world, "rotate", "acme")
    await eventually(_is_shut_out(world.desk, old), within=20)
    refused(await world.desk.call("recall", {"query": VAULT}, token=old))
    assert (await world.desk.call("recall", {"query": VAULT}, token=world.token("ada"))).ok


@on_sqlite
async def test_a_removed_tenant_loses_access(world: World) -> None:
    token = world.token("ada", "beta")
    assert (await world.office.call("recall", {"query": VAULT}, token=token)).ok
    await _run_tenants(world, "remove", "beta")
    await eventually(_is_shut_out(world.office, token), within=20)
    assert (await world.desk.call("recall", {"query": VAULT}, token=world.token("ada"))).ok
