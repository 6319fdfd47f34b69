"""A running stack for the commands of a module, and somebody to be in it."""

import signal
from collections.abc import Iterator

import pytest

from commands import Running


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    stack = Running(tmp_path_factory.mktemp("stack"))
    yield stack
    if stack.process.poll() is None:
        stack.stop(signal.SIGTERM)


@pytest.fixture
def user(request: pytest.FixtureRequest) -> str:
    """Somebody of this test's own, as the stack is everybody's."""
    return str(request.node.name)
