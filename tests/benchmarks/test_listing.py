"""`uv run benchmarks` lists what it can run, and so does the README of the benchmarks."""

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


def test_the_readme_names_each_benchmark() -> None:
    readme = (ROOT / "benchmarks" / "README.md").read_text(encoding="utf-8")

    assert [name for name in NAMES if f"`{name}`" not in readme] == []


def test_each_benchmark_can_be_run() -> None:
    assert all(callable(importlib.import_module(f"suite.{name}").main) for name in NAMES)
