"""Attackers with credentials read and change nothing of others on a stack with two tenants.

After each attack, its results hold no secret, and what was stored is unchanged, or the others are
at least answered as before. After all of them, they are.
"""

import pytest

from attacks import claims, listening, people, roles, tokens
from attacks.world import Case, World, secrets_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

CASES: list[Case] = [*tokens.CASES, *claims.CASES, *people.CASES, *roles.CASES, *listening.CASES]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_an_attack_reads_nothing_and_changes_nothing(world: World, case: Case) -> None:
    loot = await case.attack(world)
    await world.at_rest()
    assert secrets_in(loot, case.tenant) == []
    if (stored := world.stored()) != world.rows:  # some attackers listen while ada works
        assert await world.known_to_users() == world.known
        world.rows = stored


async def test_after_all_attacks_the_users_are_answered_as_before(world: World) -> None:
    assert await world.known_to_users() == world.known


async def test_there_are_at_least_sixty_attacks_with_unique_names() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60
