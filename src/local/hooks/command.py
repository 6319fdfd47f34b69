"""One hook: reads what happened, acts on it, and ends well, whatever goes wrong, in good time."""

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import NoReturn

BEGAN = time.monotonic()
LONGEST = 2.0
"""Seconds after which a hook ends, whatever it is doing."""
LONGEST_PROMPT = 0.28


def main(arguments: Sequence[str]) -> NoReturn:
    """Run a hook: CLIENT EVENT [--home DIR] [--user NAME]. Exits with 0, and writes all or nothing."""
    signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, LONGEST)
    try:
        output = _run(arguments)
        signal.setitimer(signal.ITIMER_REAL, 0)
        while output:
            output = output[os.write(1, output) :]
    finally:
        os._exit(0)


def _give_up(_: int, __: FrameType | None) -> None:
    os._exit(0)


def _run(arguments: Sequence[str]) -> bytes:
    """What the hook writes; problems go to its log."""
    from local.hooks.log import log_problem

    data_dir = Path(".local2")
    where = " ".join(arguments[:2])
    try:
        ...
    except Exception as error:
        log_problem(data_dir, where, error)
        return b""
