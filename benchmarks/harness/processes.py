"""Child processes of a benchmark: a stack in a separate folder, and the bare echo responder."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from local2.config_files import load_settings
from local2.errors import StackNotRunningError
from local2.home import running_url
from local2.settings import Settings
from local2.vectors.embedder import Embedder
from local2.vectors.joined import JoinedEmbedder
from local2.vectors.minilm import MiniLM

BENCHMARKS = Path(__file__).parent.parent
ECHO = Path(__file__).parent / "echo.py"
STACK = BENCHMARKS.parent / "run_local.py"
IMPORTS = {"PYTHONPATH": os.pathsep.join(map(str, (BENCHMARKS, BENCHMARKS.parent / "tests")))}
"""Environment of a child process that imports modules of the benchmarks or of the tests."""
POLL = 0.005


@asynccontextmanager
async def running_stack(
    folder: Path,
    *,
    port: int = -1,
    script: Path = STACK,
    environment: Mapping[str, str] | None = None,
) -> AsyncIterator[str]:
    """Run a stack on `folder`, which may already hold a ledger; yield the address of its bus.

    Its bus listens on `port`, or on a free one for -1. `environment` overrides settings of
    `environment_of`.
    """
    environment = {**environment_of(folder), "LOCAL2_BUS__PORT": str(port), **(environment or {})}
    log = folder / "stack.log"
    async with child(script, log=log, environment=environment) as stack:
        settings = load_settings(environment=environment)
        while (url := _address(settings)) is None:
            assert stack.returncode is None, log.read_text(encoding="utf-8")
            await asyncio.sleep(POLL)
        yield url


def data_dir(folder: Path) -> Path:
    """Return the folder of the stack's ledger, created so that benchmarks can fill it first."""
    path = folder / "data"
    path.mkdir(parents=True, exist_ok=True)
    return path


def chroma_dir(folder: Path) -> Path:
    """Return the folder of the stack's index."""
    return folder / "chroma"


def environment_of(folder: Path) -> dict[str, str]:
    """Return an environment that keeps a stack in `folder`, without Ollama or a network.

    It embeds with MiniLM, or with the built-in embedder that LOCAL2_MEMORY__EMBEDDER names.
    """
    return {
        "LOCAL2_MEMORY__DATA_DIR": str(data_dir(folder)),
        "LOCAL2_MEMORY__CHROMA_PATH": str(chroma_dir(folder)),
        "LOCAL2_MEMORY__EMBEDDER": os.environ.get("LOCAL2_MEMORY__EMBEDDER", "minilm"),
        "LOCAL2_GENERATOR__CHAT": "rules",
    }


def built_in_embedder() -> Embedder:
    """Return the embedder with which the stack embeds."""
    match os.environ.get("LOCAL2_MEMORY__EMBEDDER"):
        case "minilm-int8":
            return MiniLM.load_int8()
        case "minilm+e5":
            return JoinedEmbedder.load(Path("models"))
    return MiniLM.load(Path("models"))


@asynccontextmanager
async def running_echo(url: str, folder: Path) -> AsyncIterator[None]:
    """Run the responder of `echo.py` on the bus at `url`; it stores its inserts in `folder`."""
    async with child(ECHO, url, str(folder / "echo.sqlite3"), log=folder / "echo.log"):
        yield


@asynccontextmanager
async def child(
    script: Path, *arguments: str, log: Path, environment: Mapping[str, str] | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """Run a script until the context ends, with its output in `log`."""
    log.parent.mkdir(parents=True, exist_ok=True)
    with log.open("ab") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            script,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**os.environ, **(environment or {})},
            start_new_session=True,  # Ctrl-C reaches only the benchmark, which ends it
        )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.wait()


def _address(settings: Settings) -> str | None:
    try:
        return running_url(settings)
    except StackNotRunningError:
        return None
