"""One stack for the adapters' tests, in a process of its own; every test is a user of its own."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from commands import Running
from local.protocol.envelope import new_id


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The folder of a stack that runs."""
    folder = tmp_path_factory.mktemp("home")
    running = Running(folder, LOCAL2_MEMORY__EMBEDDER="minilm")
    try:
        yield folder
    finally:
        running.stop(signal.SIGTERM)


@pytest.fixture
def user() -> str:
    """Somebody of whom nothing is known yet."""
    return f"user-{new_id()}"
