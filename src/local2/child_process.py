"""A child process of the stack: it gets its configuration from its parent, and ends with it.

The parent (`stack/supervisor.py`) sends the configuration as the first line of standard input, and
keeps that open for as long as it lives.
"""

import asyncio
import os
import sys
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from local2.errors import Local2Error
from local2.home import PRIVATE_UMASK
from local2.logs import get_logger, logging_to

log = get_logger()


class ChildConfig(msgspec.Struct, frozen=True, kw_only=True):
    """What a child has to know. Without `log_file`, it logs to standard error."""

    log_file: Path | None = None

    def to_line(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=str)

    @classmethod
    def from_line(cls, line: str) -> Self:
        return msgspec.json.decode(line, type=cls, dec_hook=lambda kind, value: kind(value))


C = TypeVar("C", bound=ChildConfig)


def run_child(name: str, config: type[C], work: Callable[[C], Coroutine[Any, Any, None]]) -> None:
    """Run the work of this process, which the parent has started for it.

    An error ends it with exit code 1, and is in its log.
    """
    os.umask(PRIVATE_UMASK)
    given = config.from_line(sys.stdin.readline())
    with logging_to(given.log_file, process=name), suppress(KeyboardInterrupt):
        try:
            asyncio.run(work(given))
        except Local2Error as error:
            log.error("child_failed", reason=str(error))  # noqa: TRY400 - the message suffices
            sys.exit(1)


def call_when_parent_ends(act: Callable[[], None]) -> None:
    """Let the loop of a child process call a function once its parent has ended.

    The parent keeps the child's standard input open, and sends nothing more.
    """
    loop = asyncio.get_running_loop()

    def closed() -> None:
        loop.remove_reader(sys.stdin.fileno())
        act()

    loop.add_reader(sys.stdin.fileno(), closed)  # it becomes readable only when it closes
