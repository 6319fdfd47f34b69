"""Fixtures: a running stack for the commands of a test module, and a user."""

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
    """Return a user unique to this test, since all tests share the stack."""
    return str(request.node.name)
