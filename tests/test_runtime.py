"""A command finds a running stack, and does not mistake a dead one for it."""

import os
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from local2.errors import StackNotRunningError
from local2.home import RUNTIME_FILE, Runtime, is_alive, running_url, runtime_file
from local2.settings import BusSettings, Settings
from stacks import settings_in

URL = "nats://127.0.0.1:4222"


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = settings_in(tmp_path)
    settings.memory.data_dir.mkdir()
    return settings


@pytest.fixture
def dead_pid() -> int:
    """The id of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


def write_runtime_file(settings: Settings, content: bytes) -> None:
    (settings.memory.data_dir / RUNTIME_FILE).write_bytes(content)


def test_a_running_stack_is_found_by_its_runtime_file(settings: Settings) -> None:
    with runtime_file(settings.memory.data_dir, URL):
        assert running_url(settings) == URL
        file = settings.memory.data_dir / RUNTIME_FILE
        assert file.stat().st_mode & 0o077 == 0
    with pytest.raises(StackNotRunningError):
        running_url(settings)


def test_a_runtime_file_has_no_password(settings: Settings) -> None:
    with runtime_file(settings.memory.data_dir, "nats://user:secret@127.0.0.1:4222"):
        assert running_url(settings) == URL


def test_a_runtime_file_of_a_dead_process_means_no_running_stack(
    settings: Settings, dead_pid: int
) -> None:
    write_runtime_file(settings, msgspec.json.encode(Runtime(url=URL, pid=dead_pid)))
    with pytest.raises(StackNotRunningError, match="No stack is running on") as caught:
        running_url(settings)
    assert caught.value.remedy is not None
    assert "local2 up" in caught.value.remedy

    write_runtime_file(settings, msgspec.json.encode(Runtime(url=URL, pid=os.getpid())))
    assert running_url(settings) == URL


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"url": "nats://127.0.0.1:4222"}'])
def test_an_unreadable_runtime_file_means_no_running_stack(
    settings: Settings, content: bytes
) -> None:
    write_runtime_file(settings, content)
    with pytest.raises(StackNotRunningError):
        running_url(settings)


def test_a_configured_bus_needs_no_runtime_file(settings: Settings) -> None:
    own = Settings(bus=BusSettings(url=URL), memory=settings.memory)
    assert running_url(own) == URL


def test_a_process_of_another_user_counts_as_alive(dead_pid: int) -> None:
    assert is_alive(os.getpid())
    assert is_alive(1)
    assert not is_alive(dead_pid)
    assert not is_alive(None)
