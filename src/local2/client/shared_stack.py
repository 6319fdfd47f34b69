"""Start a stack for clients that need one, if none runs, and share it among all of them.

The stack is a separate process. It outlives the client that started it for as long as another
client uses it, and ends by itself after the last one.

Its clients hold a shared lock on a file in the data folder. The operating system releases a
client's lock when the client ends, however it ends. So a stack that gets the exclusive lock has no
clients left.
"""

import asyncio
import fcntl
import os
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import Self
from urllib.parse import urlsplit

import msgspec

from local2.config_files import ENVIRONMENT_PREFIX, to_yaml
from local2.errors import StackNotRunningError, UnwritableError
from local2.home import CLIENTS_LOCK, make_private, running_url
from local2.logs import open_log
from local2.settings import BusSettings, HttpSettings, McpSettings, Settings

POLL = 0.05
"""Seconds between attempts to share the lock while a stack stops, and between checks while one
starts."""
LOG = Path("logs", "embedded.log")
STARTING = "starting.lock"
"""Lock file held by the one client that starts the stack, while the other clients wait."""
START_PATIENCE = 60.0
"""Seconds to wait for a stack to start, or for the previous one to stop."""
PROBE_PATIENCE = 1.0
"""Seconds to wait for a server on this machine to accept a connection."""
LAST_LINES = 10
"""Number of log lines quoted in the error when a stack did not start."""


class FileLock:
    """A lock on a file, released when the context or the process ends."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = -1

    def __enter__(self) -> Self:
        try:
            make_private(self._path.parent)
            self._lock = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnwritableError(self._path.parent, error) from error
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)

    def try_to_lock(self, *, shared: bool = False) -> bool:
        """Try to take the lock without waiting; return whether it is now held.

        A lock that is already held is converted.
        """
        kind = fcntl.LOCK_SH if shared else fcntl.LOCK_EX
        try:
            fcntl.flock(self._lock, kind | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def unlock(self) -> None:
        fcntl.flock(self._lock, fcntl.LOCK_UN)


class StackUsage(FileLock):
    """The lock that a stack's clients share, used either by a client or by the stack."""

    def __init__(self, data_dir: Path) -> None:
        super().__init__(data_dir / CLIENTS_LOCK)
        self._last = time.time()

    async def begin(self, *, within: float) -> None:
        """As a client: start using the stack; wait if one is stopping.

        Raises:
            StackNotRunningError: The stopping stack has not ended within `within` seconds.
        """
        deadline = asyncio.get_running_loop().time() + within
        while not self.try_to_lock(shared=True):
            if asyncio.get_running_loop().time() > deadline:
                raise StackNotRunningError(
                    f"The stack on {self._path.parent} is stopping, and has not ended yet.",
                    remedy="Try again. `local2 doctor` says which process it is.",
                )
            await asyncio.sleep(POLL)
        self.touch()

    def touch(self) -> None:
        """As a client: record that the stack was used just now."""
        os.utime(self._lock)

    def is_over(self, linger: float) -> bool:
        """As the stack: return whether no client has used it for `linger` seconds.

        If so, the stack keeps the lock, so that no client can begin and count on a stack that is
        stopping. If another stack holds the lock for this reason, return True as well.
        """
        if not self.try_to_lock():
            self._last = time.time()
            other_stack_stops = not self.try_to_lock(shared=True)
            self.unlock()
            return other_stack_stops
        if time.time() - max(self._last, os.fstat(self._lock).st_mtime) >= linger:
            return True
        self.unlock()
        return False


@asynccontextmanager
async def stack_running(settings: Settings, *, linger: float = 0) -> AsyncIterator[None]:
    """Keep a stack running while the context lasts, unless the settings name a stack elsewhere.

    Args:
        settings: They name the data folder. A newly started stack gets the same settings.
        linger: Seconds that a newly started stack stays after its last use.

    Raises:
        StackNotRunningError: It did not start; the error quotes the last lines of its log.
        UnwritableError: The data folder cannot be written to.
    """
    if is_elsewhere(settings.bus):
        yield
        return
    with StackUsage(settings.memory.data_dir) as usage:
        await usage.begin(within=START_PATIENCE)
        await ensure_stack(settings, linger=linger)
        yield


def is_elsewhere(bus: BusSettings) -> bool:
    """Whether the settings name a stack elsewhere, so that none is started here."""
    return bus.url is not None or bus.credentials is not None


async def ensure_stack(settings: Settings, *, linger: float = 0) -> None:
    """Start a stack if none answers, and return once one does. The caller must hold `StackUsage`.

    Raises what `stack_running` raises.
    """
    deadline = asyncio.get_running_loop().time() + START_PATIENCE
    started: subprocess.Popen[bytes] | None = None
    with FileLock(settings.memory.data_dir / STARTING) as starting:
        while not await _is_answering(settings):
            if asyncio.get_running_loop().time() > deadline:
                raise _start_error(settings, f"does not answer after {START_PATIENCE:g} s")
            code = started.returncode if started else 0
            if code:
                raise _start_error(settings, f"did not start (exit code {code})")
            # Code 0: none was started yet, or it ended because another stack had the folder.
            if code == 0 and starting.try_to_lock():
                started = await asyncio.to_thread(start_stack, settings, linger=linger)
            await asyncio.sleep(POLL)


def start_stack(settings: Settings, *, linger: float) -> subprocess.Popen[bytes]:
    """Start a stack without waiting for it. It exits with code 0 if another one has the folder.

    Raises:
        UnwritableError: Its log cannot be written.
    """
    data_dir = settings.memory.data_dir.absolute()
    with os.fdopen(open_log(data_dir / LOG), "wb") as output:
        started = subprocess.Popen(  # noqa: S603 - the interpreter that runs
            [sys.executable, "-m", "local2", *words_of_stack(data_dir, linger)],
            cwd=data_dir,
            env=_environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # it must not stop with the client's terminal or session
        )
    # Without a wait it would become a zombie; a non-daemon thread would keep this process alive.
    Thread(target=started.wait, name="embedded stack", daemon=True).start()
    return started


def words_of_stack(data_dir: Path, linger: float) -> list[str]:
    """The command of a client's stack. Its settings come from the environment alone."""
    return ["--home", str(data_dir), "up", "--while-used", f"{linger:g}"]


def _environment(settings: Settings) -> dict[str, str]:
    """The environment that gives a stack these settings, whatever this process has set.

    The client's tokens are left out. The stack must not import modules from its working folder
    (PYTHONSAFEPATH), nor wrap an error over several lines (COLUMNS).
    """
    bus = msgspec.structs.replace(settings.bus, token=None)
    settings = msgspec.structs.replace(settings, bus=bus, mcp=McpSettings(), http=HttpSettings())
    inherited = {
        name: value for name, value in os.environ.items() if not name.startswith(ENVIRONMENT_PREFIX)
    }
    sections = msgspec.to_builtins(settings, enc_hook=lambda path: str(path.absolute()))
    overrides = {
        f"{ENVIRONMENT_PREFIX}{section}__{key}".upper(): to_yaml(value)
        for section, values in sections.items()
        for key, value in values.items()
    }
    return {**inherited, **overrides, "PYTHONSAFEPATH": "1", "COLUMNS": "10000"}


async def _is_answering(settings: Settings) -> bool:
    """Whether a stack accepts connections.

    The runtime file alone proves nothing: after a kill it may name the process id of another
    program.
    """
    with suppress(OSError, TimeoutError, StackNotRunningError):
        address = urlsplit(running_url(settings))
        async with asyncio.timeout(PROBE_PATIENCE):
            _, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.close()
        return True
    return False


def _start_error(settings: Settings, what: str) -> StackNotRunningError:
    log = settings.memory.data_dir.absolute() / LOG
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    return StackNotRunningError(
        "\n".join((f"The stack on {settings.memory.data_dir.absolute()} {what}.", *lines)),
        remedy=f"Fix what its log says, {log}.",
    )
