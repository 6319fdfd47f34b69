"""Run a benchmark by its name, or list all: `uv run benchmarks [NAME] [options]`."""

import ast
import importlib
import signal
import sys
from pathlib import Path
from types import FrameType

BENCHMARKS = Path(__file__).resolve().parent
SUITE = BENCHMARKS / "suite"
TESTS = BENCHMARKS.parent / "tests"
ENDING = (signal.SIGINT, signal.SIGTERM)
"""Ctrl-C and a supervisor end a benchmark alike."""


def main() -> None:
    name, *options = sys.argv[1:] or ["--help"]
    if name in {"-h", "--help"}:
        print(listing())
        return
    if not (SUITE / f"{name}.py").is_file():
        sys.exit(f"There is no benchmark {name!r}. `uv run benchmarks` lists all.")
    for number in ENDING:
        signal.signal(number, end)
    sys.path.append(str(TESTS))  # for the stand-ins and the kinds of harm
    sys.argv = [f"benchmarks {name}", *options]
    importlib.import_module(f"suite.{name}").main()


def end(_number: int, _frame: FrameType | None) -> None:
    """End the benchmark. Another signal would end it before its stacks and servers have ended."""
    for number in ENDING:
        signal.signal(number, lambda *_: None)
    raise KeyboardInterrupt


def listing() -> str:
    """Return how to run a benchmark, and a line about each."""
    lines = ["uv run benchmarks NAME [--json] [options; --help lists them]", ""]
    lines += [f"{path.stem:14} {summary(path)}" for path in sorted(SUITE.glob("*.py"))]
    return "\n".join(lines)


def summary(path: Path) -> str:
    """Return the first line of a module's docstring, without importing the module."""
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.partition("\n")[0]


if __name__ == "__main__":
    main()
