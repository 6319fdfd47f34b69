"""Logging: structlog events, rendered and written by a dedicated thread.

The event loop only builds a dict and puts it into a queue. The thread renders and writes events in
batches, because waking it for each event would cost a request more than the event itself. A kill
can lose the events of the last BATCH_DELAY seconds. Each event is one line: readable in a terminal,
JSON otherwise. The content of memories is logged at debug level only.

Logging never blocks. While the log accepts nothing, like a full pipe or disk, up to MAX_WAITING
events wait and further ones are dropped. Once it accepts events again, the number of dropped events
is logged (decision 0018).

structlog is imported for the first event, because most commands log nothing, and the import takes
longer than their work.
"""

# ruff: noqa: PLC0415

import atexit
import hashlib
import json
import os
import queue
import sys
import threading
import time
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import msgspec

from local2.errors import UnwritableError

BATCH_DELAY = 0.05
"""Seconds that an event waits to be written with others. A longer delay saves wakeups, but a kill
loses more events."""
MAX_WAITING = 10_000
"""Maximum number of events that wait to be written; bounds memory while the log accepts nothing."""
STANDARD_ERROR = 2
NEWLINE = ord("\n")
STOP_PATIENCE = 1.0
"""Maximum seconds that a log which accepts nothing may delay the exit of the process."""
MAX_VALUE = 10_000
"""Maximum characters of one value: enough for a traceback, the longest legitimate value."""

HASHED_FIELDS = frozenset({"session_id", "query_id"})
"""Fields that are logged as short digests: clients choose their values, which may identify a
person, and logs are not erased."""

Event = MutableMapping[str, Any]

_deferred: Callable[[], None] | None = None
"""Configures structlog once an event is logged; None if it is configured, or nobody asked."""


class _Logger:
    """structlog's logger."""

    def __getattr__(self, name: str) -> Any:
        return getattr(_structlog().get_logger(), name)


def get_logger() -> Any:
    """A logger for modules that commands import; elsewhere, structlog's is the same."""
    return _Logger()


def is_configured() -> bool:
    """Whether somebody has decided where events go."""
    imported = sys.modules.get("structlog")
    return _deferred is not None or (imported is not None and bool(imported.is_configured()))


def _structlog() -> Any:
    global _deferred
    import structlog

    if _deferred is not None:
        configure, _deferred = _deferred, None
        configure()
    return structlog


class _Writer:
    """A thread that renders and writes queued events in batches.

    It bypasses Python's buffered files, because a thread that hangs in one of them keeps the
    process from exiting.
    """

    def __init__(self, descriptor: int, *, readable: bool) -> None:
        self._descriptor = descriptor
        self._readable = readable
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._overflowed = 0
        self._lost = 0
        self._reported = 0
        self._failure = "It accepted nothing for too long."
        self._in_line = False
        """Whether the last write ended within a line."""
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="logs", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @cached_property
    def _render(self) -> Callable[[object, str, Event], str]:
        if not self._readable:
            return _render_json
        import structlog

        return structlog.dev.ConsoleRenderer()

    def put(self, event: Event) -> None:
        if self._events.qsize() < MAX_WAITING:
            self._events.put(event)
        else:
            self._overflowed += 1

    def close(self) -> None:
        """Write the queued events and stop; a second call does nothing.

        If the log accepts nothing, the thread is abandoned, and exits with the process.
        """
        atexit.unregister(self.close)
        self._closing.set()
        if self._thread.is_alive():
            self._events.put(None)
            self._thread.join(STOP_PATIENCE)

    def _run(self) -> None:
        try:
            for batch in self._batches():
                self._write_or_drop(batch)
            self._write_or_drop([])
        finally:
            os.close(self._descriptor)

    def _write_or_drop(self, batch: list[Event]) -> None:
        """Write events, preceded by a report of those dropped since the last report."""
        dropped = self._overflowed + self._lost - self._reported
        if dropped:
            report: Event = {
                "event": "log_events_dropped",
                "count": dropped,
                "reason": self._failure,
                "timestamp": time.time(),
                "level": "warning",
            }
            if self._write([report]) == 0:
                self._reported += dropped
                dropped = 0
        self._lost += len(batch) if dropped else self._write(batch)

    def _write(self, events: list[Event]) -> int:
        """Write events; return how many were not written. Terminate an incomplete line first."""
        lines = "".join(map(self._render_line, events)).encode("utf-8", "backslashreplace")
        left = memoryview(b"\n" + lines if self._in_line else lines)
        try:
            while left:
                written = os.write(self._descriptor, left)
                self._in_line = left[written - 1] != NEWLINE
                left = left[written:]
        except OSError as error:
            self._failure = f"{error.strerror}."
        return min(len(events), bytes(left).count(NEWLINE))

    def _batches(self) -> Iterator[list[Event]]:
        while (event := self._events.get()) is not None:
            self._closing.wait(BATCH_DELAY)
            batch = [event]
            try:
                while (event := self._events.get_nowait()) is not None:
                    batch.append(event)
            except queue.Empty:
                yield batch
            else:
                yield batch
                return

    def _render_line(self, event: Event) -> str:
        moment = datetime.fromtimestamp(event["timestamp"], UTC)
        event["timestamp"] = moment.isoformat(timespec="milliseconds")
        for name, value in event.items():
            if isinstance(value, str) and len(value) > MAX_VALUE:
                event[name] = f"{value[:MAX_VALUE]} … ({len(value)} characters)"
        return f"{self._render(None, event['level'], event)}\n"


def _render_json(_logger: object, _level: str, event: Event) -> str:
    try:
        return msgspec.json.encode(event, enc_hook=str).decode()
    except (TypeError, ValueError):  # e.g. a text that is not Unicode
        return json.dumps(event, default=str, skipkeys=True)


class _QueueLogger:
    """The end of structlog's chain: passes events to the writer thread."""

    def __init__(self, writer: _Writer) -> None:
        self.debug = self.info = self.warning = self.error = self.msg = writer.put


@contextmanager
def logging_to(
    target: Path | None = None, *, level: str = "info", process: str = "local2"
) -> Iterator[None]:
    """Send structlog's events to a file or to standard error while the context lasts.

    Args:
        target: The file to append JSON lines to. None means standard error, with readable events
            if it is a terminal, and JSON lines otherwise.
        level: Events below this level are dropped at almost no cost.
        process: Added to every event, because a stack has several processes.

    Raises:
        UnwritableError: The file cannot be created or written to.
    """
    if target is None:
        descriptor = os.dup(STANDARD_ERROR)
        writer = _Writer(descriptor, readable=os.isatty(descriptor))
    else:
        writer = _Writer(open_log(target), readable=False)
    try:
        with _configured(partial(_configure, writer, level, process)):
            yield
    finally:
        writer.close()


def open_log(file: Path) -> int:
    """Open a file to which logs are appended, and which only its owner may read.

    Raises:
        UnwritableError: It cannot be created or written to.
    """
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return os.open(file, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnwritableError(file, error) from error


@contextmanager
def _configured(configure: Callable[[], None]) -> Iterator[None]:
    """Configure structlog while the context lasts, as soon as it is imported."""
    global _deferred  # noqa: PLW0603
    outer, before = _deferred, None
    if (structlog := sys.modules.get("structlog")) is None:
        _deferred = configure
    else:
        before = structlog.get_config() if structlog.is_configured() else None
        configure()
    try:
        yield
    finally:
        if _deferred is configure:
            _deferred = outer
        elif before is not None:
            _structlog().configure(**before)
        elif outer is not None:
            _deferred = None
            outer()
        else:
            _structlog().reset_defaults()


def _configure(writer: _Writer, level: str, process: str) -> None:
    import structlog

    def stamp(_logger: object, level_: str, event: Event) -> Event:
        event["timestamp"] = time.time()
        event["level"] = level_
        event["process"] = process
        for name in HASHED_FIELDS & event.keys():
            if event[name] is not None:
                event[name] = hashlib.blake2b(str(event[name]).encode(), digest_size=4).hexdigest()
        return event

    def hand_over(_logger: object, _name: str, event: Event) -> tuple[tuple[Event], dict[str, Any]]:
        return (event,), {}

    structlog.configure(
        processors=[stamp, structlog.processors.format_exc_info, hand_over],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_: _QueueLogger(writer),
        cache_logger_on_first_use=False,
    )
