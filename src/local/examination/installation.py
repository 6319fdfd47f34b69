"""What the stack needs of this machine: a NATS server, folders with room, a key."""

import asyncio
import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from local.bus.server import find_server
from local.bus.streams import LEAST_FREE
from local.errors import BusError, LedgerKeyError
from local.examination.result import CheckResult, broken
from local.folder import PRIVATE
from local.opening import configured_key
from local.settings import MemorySettings

MEGABYTE = 1_000_000
"""Bytes."""


async def check_server() -> CheckResult:
    try:
        executable = find_server()
    except BusError as error:
        return broken("nats-server", error)
    process = await asyncio.create_subprocess_exec(
        executable, "--version", stdout=asyncio.subprocess.PIPE
    )
    version, _ = await process.communicate()
    return CheckResult(name="nats-server", verdict="ok", detail=version.decode().strip())


def check_folder(path: Path) -> CheckResult:
    """Whether the folder, or the nearest existing one above it, can be written to."""
    name = f"folder {path}"
    above = (path.resolve(), *path.resolve().parents)
    existing = next(p for p in above if os.path.exists(p))  # noqa: PTH110 - this never raises
    if not existing.is_dir():
        return CheckResult(
            name=name,
            verdict="broken",
            detail=f"{existing} is no folder.",
            remedy="Move it, or name another folder in config/memory.yaml.",
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        return CheckResult(
            name=name,
            verdict="broken",
            detail=f"{existing} cannot be written to by the user {os.geteuid()}.",
            remedy="Change its permissions, or name another one in config/memory.yaml.",
        )
    free = shutil.disk_usage(existing).free // MEGABYTE
    if free < LEAST_FREE:
        return CheckResult(
            name=name,
            verdict="broken",
            detail=f"{free} MB are free on its disk",
            remedy=f"Make room: a start needs {LEAST_FREE} MB.",
        )
    if existing != above[0]:
        return CheckResult(name=name, verdict="ok", detail="will be made at the first start")
    if exposed := list(_exposed(existing)):
        return CheckResult(
            name=name,
            verdict="note",
            detail=f"others may read {len(exposed)} files in it, as {exposed[0]}",
            remedy=f"chmod -R go= {path}",
        )
    return CheckResult(name=name, verdict="ok", detail="is there")


def _exposed(folder: Path) -> Iterator[Path]:
    """The files that others may read or write; a private folder protects what is in it."""
    for place, folders, files in os.walk(folder):
        if not Path(place).stat().st_mode & PRIVATE:
            folders.clear()
            continue
        for file in (Path(place, name) for name in files):
            with suppress(FileNotFoundError):  # of a running stack
                if file.lstat().st_mode & PRIVATE:
                    yield file


def check_key(settings: MemorySettings) -> Iterator[CheckResult]:
    """Whether the key that is configured can be used, and nobody else may read it."""
    name = "content key"
    try:
        key = configured_key(settings)
    except LedgerKeyError as error:
        yield broken(name, error)
    else:
        if key is not None:
            yield CheckResult(name=name, verdict="ok", detail="it is there, for nobody else")
