"""A child process lives as long as its context, and is restarted however often it dies."""

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest

from local2.stack import supervisor
from local2.stack.supervisor import supervised
from waiting import eventually

WriteModule = Callable[[str], Path]

OBEDIENT = """
import signal, sys
def stop(*_):
    open("stopped", "w").close()
    sys.exit()
signal.signal(signal.SIGTERM, stop)
config = sys.stdin.readline()
with open("started", "a") as file: file.write(config)
sys.stdin.read()
"""
DEAF = """
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
open("started", "w").write("deaf")
while True: signal.pause()
"""


@pytest.fixture
def write_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> WriteModule:
    """Write the module `child_under_test`; children run in its folder, which this returns."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(supervisor, "FIRST_DELAY", 0.02)
    monkeypatch.setattr(supervisor, "LAST_DELAY", 0.05)
    monkeypatch.setattr(supervisor, "STOP_PATIENCE", 5.0)

    def write(code: str) -> Path:
        (tmp_path / "child_under_test.py").write_text(code)
        return tmp_path

    return write


def count_starts(folder: Path) -> list[str]:
    file = folder / "started"
    return file.read_text().splitlines() if file.exists() else []


async def test_a_child_reads_its_config_and_stops_on_request(write_module: WriteModule) -> None:
    folder = write_module(OBEDIENT)

    async with supervised("child_under_test", b"config") as child:
        await eventually(lambda: count_starts(folder) == ["config"])
        assert child.pid is not None

    assert child.pid is None
    assert (folder / "stopped").exists()


async def test_a_killed_child_is_restarted_and_its_exit_is_reported(
    write_module: WriteModule,
) -> None:
    folder = write_module(OBEDIENT)
    ends: list[int] = []

    async with supervised("child_under_test", b"config", on_exit=ends.append) as child:
        for kill in range(1, 4):
            await eventually(lambda: len(count_starts(folder)) == len(ends) + 1)
            assert child.pid is not None
            os.kill(child.pid, signal.SIGKILL)
            await eventually(lambda: len(ends) == len(count_starts(folder)))
            assert len(ends) == kill
        await eventually(lambda: len(count_starts(folder)) == 4)

    assert ends == [-signal.SIGKILL] * 3, "the end that was asked for is no news"


async def test_a_child_that_exits_immediately_is_restarted_without_limit(
    write_module: WriteModule,
) -> None:
    folder = write_module('open("started", "a").write("try\\n"); raise SystemExit(3)')

    async with supervised("child_under_test", b"x" * 200_000):
        await eventually(lambda: len(count_starts(folder)) >= 4)


async def test_a_child_that_does_not_stop_is_killed(
    write_module: WriteModule, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = write_module(DEAF)
    monkeypatch.setattr(supervisor, "STOP_PATIENCE", 0.1)

    async with supervised("child_under_test", b"config") as child:
        await eventually(lambda: count_starts(folder))
        pid = child.pid

    assert pid is not None
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)
