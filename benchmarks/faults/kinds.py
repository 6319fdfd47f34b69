"""The kinds of faults: each begins, lasts for a moment and ends, and reports what went wrong."""

import asyncio
import os
import shutil
import signal
import socket
import sys
from collections.abc import Awaitable, Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from random import Random
from typing import NamedTuple

from abuse.target import envelope
from faults.target import ANSWER_TIMEOUT, HURRIED, LEDGER, PATIENCE, FaultTarget, ProcessName
from harm import flip, full_disk, locked, overwrite, read_only
from harness.footprint import children
from harness.processes import STACK
from ledgers import open_ledger
from local2.errors import StorageError
from local2.ledger.ledger import Ledger
from local2.ledger.records import Counts
from local2.protocol import subjects
from local2.settings import MemorySettings
from stand_ins.ollama_server import Trouble

HOUR, YEAR = 3600.0, 365 * 24 * 3600.0
MOMENT = (0.1, 1.0)
"""Minimum and maximum duration of a fault, in seconds."""
AWAY = 30.0
LEASE_ENDS = 17.0
"""Seconds after which a stopped stack has lost its lease."""
FLIPS = 8

Inject = Callable[[FaultTarget, Random], Awaitable[str | None]]
"""Injects a fault; returns when its cause is gone, with what went wrong, if anything."""


class Fault(NamedTuple):
    name: str
    inject: Inject
    weight: int
    """Relative frequency, in a hundred or so."""


def killed(name: ProcessName) -> Inject:
    async def inject(target: FaultTarget, _: Random) -> None:
        with suppress(ProcessLookupError):
            os.kill(await target.pid(name), signal.SIGKILL)
        if name == "stack":
            await target.stop()
            await target.start()

    return inject


async def worker_killed_starting(target: FaultTarget, random: Random) -> None:
    """Kill the worker again while it imports, opens Chroma or is compared."""
    for _ in range(2):
        with suppress(ProcessLookupError):
            os.kill(await target.pid("vector worker"), signal.SIGKILL)
        await asyncio.sleep(random.uniform(*MOMENT))


async def stack_killed_starting(target: FaultTarget, random: Random) -> None:
    """Kill the stack again while it imports, opens the ledger or starts its children."""
    await target.kill()
    starting = asyncio.create_task(target.start())
    await asyncio.sleep(random.uniform(*MOMENT))
    for pid in children(os.getpid(), HURRIED.name.encode()):
        os.kill(pid, signal.SIGKILL)
    with suppress(AssertionError):  # it ended before it was ready
        await starting
    await target.stop()
    await target.start()


def stopped(name: ProcessName, lasting: tuple[float, float] = MOMENT) -> Inject:
    async def inject(target: FaultTarget, random: Random) -> None:
        pid = await target.pid(name)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)
            try:
                await asyncio.sleep(random.uniform(*lasting))
            finally:
                os.kill(pid, signal.SIGCONT)

    return inject


def server_away(lasting: tuple[float, float]) -> Inject:
    """Occupy nats-server's port, so that the server cannot be restarted."""

    async def inject(target: FaultTarget, random: Random) -> str | None:
        with socket.socket() as other:
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            os.kill(await target.pid("nats-server"), signal.SIGKILL)
            async with asyncio.timeout(PATIENCE):
                while not _listens(other, target.port):  # noqa: ASYNC110 - it ends meanwhile
                    await asyncio.sleep(0.001)
            await asyncio.sleep(random.uniform(*lasting))
        return None

    return inject


def _listens(other: socket.socket, port: int) -> bool:
    try:
        other.bind(("127.0.0.1", port))
        other.listen()
    except OSError:
        return False
    return True


async def disk_full(target: FaultTarget, random: Random) -> None:
    """Limit file sizes for every process; files that are already larger cannot grow."""
    with full_disk(*((pid, 0) for pid in target.pids().values())):
        await asyncio.sleep(random.uniform(*MOMENT))


async def folder_read_only(target: FaultTarget, random: Random) -> None:
    """Make the folder read-only: open files can be written to, but no new ones created."""
    folder = random.choice((target.data, target.data / "nats", target.chroma))
    with read_only(folder):
        await asyncio.sleep(random.uniform(*MOMENT))


def index_harmed(harm: Callable[[Path], None], *, running: bool) -> Inject:
    async def inject(target: FaultTarget, _: Random) -> None:
        if not running:
            await target.kill()
        with suppress(OSError):  # Chroma creates and deletes files meanwhile
            harm(target.chroma)
        if not running:
            await target.start()

    return inject


async def ledger_locked(target: FaultTarget, random: Random) -> None:
    with ExitStack() as lock:
        await asyncio.to_thread(lock.enter_context, locked(target.ledger))
        await asyncio.sleep(random.uniform(*MOMENT))


def ledger_flipped(suffix: str) -> Inject:
    """Flip bytes in a copy of the files, taken while the stack is stopped."""

    async def inject(target: FaultTarget, random: Random) -> str | None:
        stack, copy = target.process(), target.folder / "copy"
        copy.mkdir()
        os.kill(stack, signal.SIGSTOP)
        try:
            for file in target.data.glob("ledger.*"):
                shutil.copy2(file, copy / file.name)
        finally:
            os.kill(stack, signal.SIGCONT)
        try:
            settings = MemorySettings(data_dir=copy, chroma_path=copy / "chroma")
            file = copy / f"{LEDGER}{suffix}"
            size = file.stat().st_size if file.exists() else 0
            places = random.sample(range(size), min(FLIPS, size))
            return await _half_answer(settings, file, places) if places else None
        finally:
            shutil.rmtree(copy)

    return inject


async def _half_answer(settings: MemorySettings, file: Path, places: list[int]) -> str | None:
    """Return what is wrong if a damaged ledger opens without an error and lacks records."""
    untouched = Path(shutil.copytree(settings.data_dir, settings.data_dir / "untouched"))
    before = await _counts(MemorySettings(data_dir=untouched, chroma_path=untouched / "chroma"))
    flip(file, *places)
    try:
        async with open_ledger(settings, "default") as ledger:
            after, problems = await ledger.counts(), await ledger.problems()
    except StorageError as error:
        return None if error.remedy else f"refused without a remedy: {error.message}"
    if problems or after == before:
        return None
    return f"{after} of {before} in a ledger that nothing is said of"


async def _counts(settings: MemorySettings) -> Counts:
    ledger: Ledger
    async with open_ledger(settings, "default") as ledger:
        return await ledger.counts()


async def second_stack(target: FaultTarget, __: Random) -> str | None:
    """Start a second stack, which must be refused and told which one is first."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        STACK,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, **target.environment},
    )
    async with asyncio.timeout(PATIENCE):
        _, errors = await process.communicate()
    said = " ".join(errors.decode().split())
    named = f"process {target.process()}" in said
    return None if process.returncode == 1 and named else f"a second stack: {said[-300:]}"


def models_in(trouble: Trouble) -> Inject:
    """Give the models this trouble: a question is answered meanwhile, or ends in an error."""

    async def inject(target: FaultTarget, random: Random) -> None:
        target.models.trouble = trouble
        try:
            asked = envelope("asking", {"query": "How are you?", "query_id": f"{random.random()}"})
            await target.request(subjects.QUERY_RECEIVED, asked, within=ANSWER_TIMEOUT)
            await asyncio.sleep(random.uniform(*MOMENT))
        finally:
            target.models.trouble = None

    return inject


def clock_set(seconds: float) -> Inject:
    async def inject(target: FaultTarget, random: Random) -> None:
        target.set_clock(seconds)
        try:
            await asyncio.sleep(random.uniform(*MOMENT))
        finally:
            target.set_clock(0)

    return inject


FAULTS = (
    Fault("vector worker: SIGKILL", killed("vector worker"), 5),
    Fault("vector worker: SIGKILL, and as it starts", worker_killed_starting, 2),
    Fault("vector worker: SIGSTOP", stopped("vector worker"), 10),
    Fault("nats-server: SIGKILL", killed("nats-server"), 8),
    Fault("nats-server: SIGSTOP", stopped("nats-server"), 10),
    Fault("nats-server: its port taken for a moment", server_away(MOMENT), 4),
    Fault("nats-server: away for 30 s", server_away((AWAY, AWAY)), 1),
    Fault("stack: SIGKILL", killed("stack"), 6),
    Fault("stack: SIGKILL, and as it starts", stack_killed_starting, 2),
    Fault("stack: SIGSTOP", stopped("stack"), 10),
    Fault("stack: SIGSTOP for longer than its lease", stopped("stack", (LEASE_ENDS, 18)), 1),
    Fault("second stack on the folder", second_stack, 3),
    Fault("disk full for every process", disk_full, 3),
    Fault("folder read-only", folder_read_only, 2),
    Fault("Chroma folder deleted, running", index_harmed(shutil.rmtree, running=True), 3),
    Fault("Chroma folder deleted, stopped", index_harmed(shutil.rmtree, running=False), 2),
    Fault("Chroma folder noise, running", index_harmed(overwrite, running=True), 3),
    Fault("Chroma folder noise, stopped", index_harmed(overwrite, running=False), 2),
    Fault("ledger locked by another process", ledger_locked, 7),
    Fault("ledger: flipped bytes", ledger_flipped(""), 5),
    Fault("write-ahead log: flipped bytes", ledger_flipped("-wal"), 5),
    Fault("models hang", models_in("hangs"), 5),
    Fault("models crash", models_in("crashes"), 5),
    Fault("models answer garbage", models_in("garbles"), 5),
    Fault("clock an hour back", clock_set(-HOUR), 4),
    Fault("clock a year ahead", clock_set(YEAR), 4),
)
