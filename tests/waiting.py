"""Waiting for a condition instead of sleeping for luck."""

import asyncio
import inspect
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
