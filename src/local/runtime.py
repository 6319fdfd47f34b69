"""The runtime file, by which other commands on this machine find a running stack.

The stack's server chooses a free port by default, so its address is known only once it runs. The
password of a server of one's own is not in it: commands take that from where the stack took it.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from local.errors import StackNotRunningError, UnwritableError, without_credentials
from local.settings import Settings

NAME = "runtime.json"
USED = "clients.lock"
"""Beside it: the file whose lock is shared by those who use the stack, and that says when last."""


class Runtime(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the file: address of the bus, and process id of the stack.

    `for_clients`: it was started by clients, and makes room for one that somebody starts.
    """

    url: str
    pid: int
    for_clients: bool = False


@contextmanager
def runtime_file(data_dir: Path, url: str, *, for_clients: bool = False) -> Iterator[None]:
    """Write the bus's address into the data folder, and remove it when the context ends.

    Raises:
        UnwritableError: It cannot be written there.
    """
    path = data_dir / NAME
    temporary = path.with_suffix(".tmp")
    try:
        temporary.touch(mode=0o600)
        temporary.write_bytes(
            msgspec.json.encode(
                Runtime(url=without_credentials(url), pid=os.getpid(), for_clients=for_clients)
            )
        )
        temporary.replace(path)
    except OSError as error:
        raise UnwritableError(data_dir, error) from error
    try:
        yield
    finally:
        path.unlink(missing_ok=True)


def running_url(settings: Settings) -> str:
    """The address of the running stack's bus.

    Raises:
        StackNotRunningError: No address is configured, and no stack runs on the data folder.
    """
    if settings.bus.url is not None:
        return settings.bus.url
    runtime = read_runtime(settings.memory.data_dir)
    if runtime is None or not is_alive(runtime.pid):
        raise StackNotRunningError(
            f"No stack is running on {settings.memory.data_dir.resolve()}.",
            remedy="Start one with `local2 up`, in this folder.",
        )
    return runtime.url


def read_runtime(data_dir: Path) -> Runtime | None:
    """What the file says; None if there is none, or it cannot be read."""
    with suppress(OSError, msgspec.MsgspecError):
        return msgspec.json.decode((data_dir / NAME).read_bytes(), type=Runtime)
    return None


def is_running(settings: Settings) -> bool:
    """Whether `running_url` has an address."""
    try:
        running_url(settings)
    except StackNotRunningError:
        return False
    return True


def is_alive(pid: int | None) -> bool:
    """Whether there is such a process, no matter whose."""
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
