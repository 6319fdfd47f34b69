"""Logging: structlog events, rendered and written by a thread of their own.

The event loop pays for a dict and a queue; formatting and the write happen elsewhere, many events
at once, since waking the thread for each would cost a request more than the event itself. A kill
can lose the last GATHERING seconds. One line an event: readable in a terminal, JSON otherwise.
Content of memories is logged at debug only.
"""

import atexit
import queue
import sys
import threading
import time
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TextIO

import msgspec
import structlog

from local.errors import UnwritableError

GATHERING = 0.05
"""Seconds that an event waits for others to be written with."""

LONGEST = 10_000
"""Characters of one value, such as a traceback; nothing else should be as long."""

Event = MutableMapping[str, Any]


class _Writer:
    """The thread that renders events and writes them, whatever is queued at once."""

    def __init__(self, stream: TextIO, *, readable: bool) -> None:
        self._stream = stream
        self._render = structlog.dev.ConsoleRenderer() if readable else _render_json
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    def put(self, event: Event) -> None:
        self._events.put(event)

    def close(self) -> None:
        """Write what is queued and stop; a second call does nothing."""
        atexit.unregister(self.close)
        self._closing.set()
        if self._thread.is_alive():
            self._events.put(None)
            self._thread.join()

    def _run(self) -> None:
        for batch in self._batches():
            lines = [self._line(event) for event in batch]
            self._stream.write("".join(lines))
            self._stream.flush()

    def _batches(self) -> Iterator[list[Event]]:
        while (event := self._events.get()) is not None:
            self._closing.wait(GATHERING)
            batch = [event]
            try:
                while (event := self._events.get_nowait()) is not None:
                    batch.append(event)
            except queue.Empty:
                yield batch
            else:
                yield batch
                return

    def _line(self, event: Event) -> str:
        moment = datetime.fromtimestamp(event["timestamp"], UTC)
        event["timestamp"] = moment.isoformat(timespec="milliseconds")
        for name, value in event.items():
            if isinstance(value, str) and len(value) > LONGEST:
                event[name] = f"{value[:LONGEST]} … ({len(value)} characters)"
        return f"{self._render(None, event['level'], event)}\n"


def _render_json(_logger: object, _level: str, event: Event) -> str:
    return msgspec.json.encode(event, enc_hook=str).decode()


class _QueueLogger:
    """What structlog calls at the end of its chain: hands the event to the writer's thread."""

    def __init__(self, writer: _Writer) -> None:
        self.debug = self.info = self.warning = self.error = self.msg = writer.put


@contextmanager
def logging_to(
    target: Path | None = None, *, level: str = "info", process: str = "local2"
) -> Iterator[None]:
    """Send structlog's events to a file, or to standard error while the context lasts.

    Args:
        target: A file to append JSON lines to; None means standard error, readable in a terminal.
        level: Events below it cost next to nothing and go nowhere.
        process: Bound to every event, for stacks of several processes.

    Raises:
        UnwritableError: The file cannot be made, or not be written to.
    """
    if target is None:
        stream, readable = sys.stderr, sys.stderr.isatty()
    else:
        stream, readable = _opened(target), False
    writer = _Writer(stream, readable=readable)
    before = structlog.get_config() if structlog.is_configured() else None
    _configure(writer, level, process)
    try:
        yield
    finally:
        if before is None:
            structlog.reset_defaults()
        else:
            structlog.configure(**before)
        writer.close()
        if target is not None:
            stream.close()


def _opened(target: Path) -> TextIO:
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.open("a", encoding="utf-8")
    except OSError as error:
        raise UnwritableError(target, error) from error


def _configure(writer: _Writer, level: str, process: str) -> None:
    def stamp(_logger: object, name: str, event: Event) -> Event:
        event["timestamp"] = time.time()
        event["level"] = name
        event["process"] = process
        return event

    def hand_over(_logger: object, _name: str, event: Event) -> tuple[tuple[Event], dict[str, Any]]:
        return (event,), {}

    structlog.configure(
        processors=[stamp, structlog.processors.format_exc_info, hand_over],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: _QueueLogger(writer),
        cache_logger_on_first_use=False,
    )
