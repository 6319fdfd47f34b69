"""Fixtures: a running stack for the commands of all modules, and a user."""

from collections.abc import Iterator

import pytest

from commands import Served, served
from stacks import settings_in


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with served(settings_in(tmp_path_factory.mktemp("stack"))) as stack:
        yield stack


@pytest.fixture(scope="module")
def running_alone(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """A stack for one module, whose tests look at all that it holds."""
    with served(settings_in(tmp_path_factory.mktemp("stack"))) as stack:
        yield stack


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    """Return a user unique to this test, since all tests share the stack."""
    return str(request.node.name)
