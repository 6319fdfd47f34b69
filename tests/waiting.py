"""Waiting for a condition instead of sleeping for luck."""

import asyncio
import inspect
import time
from collections.abc import Callable

POLL = 0.01


async def eventually(condition: Callable[[], object], *, within: float = 30.0) -> None:
    """Return once `condition()`, awaited if necessary, is true; fail after `within` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while True:
        answer = condition()
        if inspect.isawaitable(answer):
            answer = await answer
        if answer:
            return
        if loop.time() > deadline:
            raise AssertionError(f"Still not so after {within:g} s: {answer!r}.")
        await asyncio.sleep(POLL)


def until(condition: Callable[[], object], *, within: float = 30.0) -> None:
    """Do what `eventually` does, in a test without an event loop."""
    deadline = time.monotonic() + within
    while not (answer := condition()):
        if time.monotonic() > deadline:
            raise AssertionError(f"Still not so after {within:g} s: {answer!r}.")
        time.sleep(POLL)
