"""The stack of whoever needs one: started where none runs, and shared by all who come.

It is a process of its own, so that it outlives the client that started it for as long as another
one uses it, and ends by itself when the last one is gone: see `usage`.
"""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

import msgspec

from local.client.usage import FileLock, Usage
from local.errors import StackNotRunningError, UnwritableError
from local.runtime import running_url
from local.settings import ENVIRONMENT_PREFIX, BusSettings, Settings
from local.yaml_files import to_yaml

LOG = Path("logs", "embedded.log")
STARTING = "starting.lock"
"""Held by the one client that starts the stack; the others wait for it."""
START_PATIENCE = 60.0
"""Seconds for a stack to start, or for the one before it to stop."""
PROBE_PATIENCE = 1.0
"""Seconds for a server on this machine to accept a connection."""
POLL = 0.05
LAST_LINES = 10
"""Of the log, in the error of a stack that did not start."""


@asynccontextmanager
async def stack_running(settings: Settings, *, linger: float = 0) -> AsyncIterator[None]:
    """Have a stack for as long as the context lasts, unless the settings name one elsewhere.

    Args:
        settings: Whose data folder; a stack that is started has the same settings.
        linger: Seconds that a stack which is started stays after its last use.

    Raises:
        StackNotRunningError: It did not start; the error has the last lines of its log.
        UnwritableError: The data folder cannot be written to.
    """
    if is_elsewhere(settings.bus):
        yield
        return
    with Usage(settings.memory.data_dir) as usage:
        await usage.begin(within=START_PATIENCE)
        await ensure_stack(settings, linger=linger)
        yield


def is_elsewhere(bus: BusSettings) -> bool:
    """Whether somebody else runs the stack: nothing is started then."""
    return bus.url is not None or bus.credentials is not None


async def ensure_stack(settings: Settings, *, linger: float = 0) -> None:
    """Return once a stack answers, started where none does; whoever asks uses it already.

    Raises what `stack_running` raises.
    """
    deadline = asyncio.get_running_loop().time() + START_PATIENCE
    started: subprocess.Popen[bytes] | None = None
    with FileLock(settings.memory.data_dir / STARTING) as starting:
        while not await _answers(settings):
            if asyncio.get_running_loop().time() > deadline:
                raise _not_started(settings, f"does not answer after {START_PATIENCE:g} s")
            code = started.returncode if started else 0
            if code:
                raise _not_started(settings, f"did not start (exit code {code})")
            if code == 0 and starting.take():  # none yet, or it left the folder to another one
                started = await asyncio.to_thread(start_stack, settings, linger=linger)
            await asyncio.sleep(POLL)


def start_stack(settings: Settings, *, linger: float) -> subprocess.Popen[bytes]:
    """Start a stack without waiting for it; where another has the folder, it ends with code 0.

    Raises:
        UnwritableError: Its log cannot be written.
    """
    data_dir = settings.memory.data_dir.absolute()
    log = data_dir / LOG
    try:
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnwritableError(log, error) from error
    with os.fdopen(descriptor, "wb") as output:
        started = subprocess.Popen(  # noqa: S603 - the interpreter that runs
            [sys.executable, "-m", "local", "up", "--while-used", f"{linger:g}"],
            cwd=data_dir,
            env=_environment(settings),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,  # what stops a client's terminal or session is not for it
        )
    # Whoever waits for it elsewhere could not end before it; nobody waiting leaves a zombie.
    Thread(target=started.wait, name="embedded stack", daemon=True).start()
    return started


def _environment(settings: Settings) -> dict[str, str]:
    """What gives a stack these settings, whatever the files and the environment here say.

    No module is imported from the folder that it runs in, and no error is cut into lines.
    """
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


async def _answers(settings: Settings) -> bool:
    """Whether a stack runs: a file that a killed one left may name a process of today."""
    with suppress(OSError, TimeoutError, StackNotRunningError):
        address = urlsplit(running_url(settings))
        async with asyncio.timeout(PROBE_PATIENCE):
            _, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.close()
        return True
    return False


def _not_started(settings: Settings, what: str) -> StackNotRunningError:
    log = settings.memory.data_dir.absolute() / LOG
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()[-LAST_LINES:]
    return StackNotRunningError(
        "\n".join((f"The stack on {settings.memory.data_dir.absolute()} {what}.", *lines)),
        remedy=f"Mend what its log says, {log}.",
    )
