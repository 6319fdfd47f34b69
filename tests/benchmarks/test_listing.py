"""`uv run benchmarks` lists what it can run."""

import importlib
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
NAMES = sorted(path.stem for path in (ROOT / "benchmarks" / "suite").glob("*.py"))


def benchmarks(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, ROOT / "benchmarks", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_each_benchmark_is_listed_with_a_line_about_it() -> None:
    listed = benchmarks().stdout.splitlines()[2:]

    assert [line.split()[0] for line in listed] == NAMES
    assert all(line.split()[1:] for line in listed)


def test_a_benchmark_runs_by_its_name_with_its_options() -> None:
    described = benchmarks("tenants", "--help")

    assert described.stdout.startswith("usage: benchmarks tenants [-h] [--json] [--minutes N]")


def test_an_unknown_name_is_refused() -> None:
    refused = benchmarks("osmium")

    assert refused.returncode == 1
    assert "'osmium'" in refused.stderr


def test_each_benchmark_can_be_run() -> None:
    assert all(callable(importlib.import_module(f"suite.{name}").main) for name in NAMES)
