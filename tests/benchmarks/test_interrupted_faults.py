"""Ctrl-C ends the injection of faults after the current one; another ends it at once."""

import os
import signal

import pytest

from suite.faults import first_interrupt


async def test_only_the_second_interrupt_interrupts() -> None:
    interrupted = first_interrupt()
    os.kill(os.getpid(), signal.SIGINT)
    await interrupted.wait()

    with pytest.raises(KeyboardInterrupt):
        os.kill(os.getpid(), signal.SIGINT)
