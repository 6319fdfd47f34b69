"""Commands import little: most of their time would be imports that they do not use."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from commands import START_SECONDS, Served

PRINTING_MODULES = """
import atexit, sys
atexit.register(lambda: print(*sys.modules, file=sys.stderr))
from local2.__main__ import main
main()
"""
MULTIPLYING_MATRICES = """
import os, sys
from local2.__main__ import main
try:
    main()
except SystemExit:
    import numpy
    numpy.ones((500, 500)) @ numpy.ones((500, 500))
    print(len(os.listdir("/proc/self/task")))
"""
HEAVY = {
    "aiohttp.client",
    "chromadb",
    "cryptography",
    "fastapi",
    "httpx",
    "jwt",
    "mcp",
    "nacl",
    "nicegui",
    "numpy",
    "ollama",
    "onnx",
    "onnxruntime",
    "opentelemetry",
    "prometheus_client",
    "prompt_toolkit",
    "pydantic",
    "rich",
    "structlog",
    "tokenizers",
    "typer",
    "yaml",
}


def imported(folder: Path, *words: str) -> set[str]:
    """Run a command as users do, and return the modules that it has imported."""
    done = subprocess.run(
        [sys.executable, "-c", PRINTING_MODULES, *words],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=True,
    )
    assert done.stdout
    return set(done.stderr.split())


def test_the_version_is_printed_without_the_bus(tmp_path: Path) -> None:
    modules = imported(tmp_path, "version")

    assert "local2.cli" in modules
    assert modules & {*HEAVY, "nats", "uvloop"} == set()


def test_recall_imports_the_bus_and_nothing_that_it_does_not_use(running: Served) -> None:
    for words in (["recall", "x"], ["recall", "x", "--json"]):
        modules = imported(running.folder, *words)

        assert "nats" in modules
        assert modules & HEAVY == set()


PAGE = {"fastapi", "itsdangerous", "nicegui", "socketio"}
ACCOUNTS_AND_WORKER = {"chromadb", "cryptography", "jwt", "ollama", "onnx", "onnxruntime"}
POSTGRES = {"psycopg", "local2.ledger.engines.postgres"}


@pytest.mark.parametrize(
    ("command", "unused"),
    [
        pytest.param(
            "local2.cli.up",
            {*PAGE, *ACCOUNTS_AND_WORKER, *POSTGRES, "h2", "opentelemetry", "prometheus_client",
             "pygments", "rich", "starlette", "tokenizers", "uvicorn"},
            id="a stack on SQLite",
        ),
        pytest.param("local2.cli.serve", PAGE, id="serving HTTP"),
    ],
)  # fmt: skip
def test_what_stays_runs_without_what_it_does_not_use(command: str, unused: set[str]) -> None:
    printing = f"import sys, {command}; print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", printing], capture_output=True, text=True, check=True
    )

    modules = set(done.stdout.split())
    assert command in modules
    assert modules & unused == set()


def test_matrices_are_multiplied_in_one_thread(tmp_path: Path) -> None:
    chosen = {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"}
    done = subprocess.run(
        [sys.executable, "-c", MULTIPLYING_MATRICES, "version"],
        cwd=tmp_path,
        env={name: value for name, value in os.environ.items() if name not in chosen},
        capture_output=True,
        text=True,
        timeout=START_SECONDS,
        check=True,
    )

    assert done.stdout.splitlines()[-1] == "1"
