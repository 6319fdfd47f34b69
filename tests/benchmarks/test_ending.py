"""A benchmark ends by a signal once, and closes what it has opened, however often it is told to."""

import runpy
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

MAIN = Path(__file__).parents[2] / "benchmarks" / "__main__.py"


@pytest.fixture(autouse=True)
def signals_as_before() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_only_the_first_signal_interrupts_it(first: signal.Signals) -> None:
    signal.signal(first, runpy.run_path(str(MAIN))["end"])

    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(first)

    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(signal.SIGTERM)
