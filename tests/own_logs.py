"""Capture what a test logs, without what a stack that tests share logs from its own thread."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import structlog
from structlog.testing import capture_logs
from structlog.typing import EventDict


@contextmanager
def own_logs() -> Iterator[list[EventDict]]:
    """Collect the events of the current thread."""
    own = threading.get_ident()

    def drop_others(_logger: object, _method: str, event: EventDict) -> EventDict:
        if threading.get_ident() != own:
            raise structlog.DropEvent
        return event

    with capture_logs([drop_others]) as events:
        yield events
