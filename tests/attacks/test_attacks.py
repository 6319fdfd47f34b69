"""Attacks on a live stack with two tenants, as somebody hostile with credentials would try them.

After each the attacker has read nothing of another's, and what others see is what it was.
"""

import pytest

from attacks import claims, listening, people, roles, tokens
from attacks.world import Case, World, secrets_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

CASES: list[Case] = [*tokens.CASES, *claims.CASES, *people.CASES, *roles.CASES, *listening.CASES]


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_nothing_is_read_and_nothing_changes(world: World, case: Case) -> None:
    loot = await case.attack(world)
    await world.at_rest()
    assert secrets_in(loot, case.tenant) == []
    before, world.known = world.known, await world.seen()
    assert world.known == before


async def test_there_are_sixty_cases_each_with_a_name_of_its_own() -> None:
    assert len({case.name for case in CASES}) == len(CASES) >= 60
