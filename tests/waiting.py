"""Waiting for a condition instead of sleeping for luck."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")

POLL = 0.01


async def eventually(condition: Callable[[], T | Awaitable[T]], *, within: float = 10.0) -> T:
    """Return what `condition` returns as soon as that is true; fail after `within` seconds."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + within
    while True:
        answer = condition()
        value: T = await answer if inspect.isawaitable(answer) else answer
        if value:
            return value
        if loop.time() > deadline:
            raise AssertionError(f"Still not so after {within:g} s; the last answer was {value!r}.")
        await asyncio.sleep(POLL)
