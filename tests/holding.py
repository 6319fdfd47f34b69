"""A call inside a stack that runs in the test's process, which waits until the test lets it go."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from functools import wraps
from threading import Event
from typing import Any
from unittest.mock import patch


@contextmanager
def held(owner: type, method: str) -> Iterator[Event]:
    """Let the first call of a method wait until the end; the event says that it has begun."""
    has_begun, is_over = Event(), Event()
    do = getattr(owner, method)

    @wraps(do)
    async def wait_and_do(*args: Any) -> Any:
        if not has_begun.is_set():
            has_begun.set()
            await asyncio.to_thread(is_over.wait)
        return await do(*args)

    with patch.object(owner, method, wait_and_do):
        try:
            yield has_begun
        finally:
            is_over.set()
