"""Waiting for a condition instead of sleeping for luck."""

import asyncio
import inspect
import time
from collections.abc import Callable, Iterator
from typing import Any


async def eventually(
    look: Callable[[], object], holds: Callable[[Any], object] = bool, *, within: float = 30.0
) -> None:
    """Return once `holds` of `look()`, awaited if necessary; fail after `within` seconds."""
    for pause in _pauses(within):
        answer = look()
        if inspect.isawaitable(answer):
            answer = await answer
        if holds(answer):
            return
        await asyncio.sleep(pause)
    raise AssertionError(f"Still not so after {within:g} s: {answer!r}.")


def wait_until(condition: Callable[[], object], *, within: float = 30.0) -> None:
    """Do the same in a test without an event loop."""
    for pause in _pauses(within):
        answer = condition()
        if answer:
            return
        time.sleep(pause)
    raise AssertionError(f"Still not so after {within:g} s: {answer!r}.")


def _pauses(within: float) -> Iterator[float]:
    """Seconds between looks: what takes long is looked at less often, and has the processor."""
    deadline = time.monotonic() + within
    pause = 0.01
    while time.monotonic() <= deadline:
        yield pause
        pause = min(1.2 * pause, 0.1)
