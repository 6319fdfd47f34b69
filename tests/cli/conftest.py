"""A running stack for the commands of a module, and somebody to be in it."""

from collections.abc import Iterator

import pytest

from commands import Served, served
from stacks import settings_in


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(settings_in(tmp_path_factory.mktemp("stack"))) as stack:
        yield stack


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    """Somebody of this test's own, as the stack is everybody's."""
    return str(request.node.name)
