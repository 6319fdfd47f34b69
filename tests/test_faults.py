"""Faults of a live stack under load: acknowledged writes exist exactly once, and it recovers.

`uv run benchmarks faults` makes hundreds of them, at other moments. Kills are in `test_crash.py`.
"""

import sys
from pathlib import Path

import pytest

if sys.platform != "linux":
    pytest.skip("Limits and children of other processes are Linux's.", allow_module_level=True)

from faults.kinds import FAULTS
from faults.target import fault_target_in
from suite.faults import suffer

NAMES = (
    "vector worker: SIGSTOP",
    "nats-server: SIGSTOP",
    "nats-server: its port taken for a moment",
    "stack: SIGSTOP",
    "ledger locked by another process",
    "disk full for every process",
    "Chroma folder noise, running",
    "ledger: flipped bytes",
    "write-ahead log: flipped bytes",
    "models hang",
    "models crash",
    "models answer garbage",
    "clock an hour back",
    "clock a year ahead",
)


@pytest.mark.timeout(180)
async def test_faults_lose_and_duplicate_nothing_and_the_stack_recovers(tmp_path: Path) -> None:
    """Afterwards it writes, stores turns, searches by meaning, and `doctor` finds no problem."""
    faults = [fault for fault in FAULTS if fault.name in NAMES]
    async with fault_target_in(tmp_path) as target:
        results = await suffer(target, faults, seed=1)

    assert len(results.suffered) == len(NAMES)
    assert [one for one in results.suffered if one.problems] == []
    assert [one for one in results.suffered if one.lost or one.doubled] == []
    assert sum(one.acknowledged for one in results.suffered) > 0
    assert not results.answers.get("not found"), results.answers
    assert results.settled, "every record is in the index"
