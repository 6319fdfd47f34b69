"""The page beside a stack (`web: on`): a child process of `local2 up`, which ends with it.

Its parent sends the configuration as the first line of standard input, and keeps that open.
"""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Self

import msgspec

from local2.background import call_when_parent_ends
from local2.errors import Local2Error
from local2.home import PRIVATE_UMASK
from local2.logs import get_logger, logging_to
from local2.settings import Settings
from local2.web.pages.links import PageLinks
from local2.web.server import serve

NAME = "page"

log = get_logger()


class PageConfig(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of the stack, and the links, of which the stack prints one."""

    settings: Settings
    links: PageLinks
    log_file: Path | None

    def to_line(self) -> bytes:
        return msgspec.json.encode(self, enc_hook=str)

    @classmethod
    def from_line(cls, line: str) -> Self:
        return msgspec.json.decode(line, type=cls, dec_hook=lambda kind, value: kind(value))


async def _serve(config: PageConfig) -> None:
    call_when_parent_ends(lambda: os.kill(os.getpid(), signal.SIGTERM))
    await serve(
        config.settings,
        lambda address: log.info("page_served", url=address.url),
        with_pages=True,
        page_links=config.links,
    )


def main() -> None:
    """Run the child process."""
    os.umask(PRIVATE_UMASK)
    config = PageConfig.from_line(sys.stdin.readline())
    with logging_to(config.log_file, process=NAME):
        try:
            asyncio.run(_serve(config))
        except Local2Error as error:
            log.error("page_failed", reason=str(error))  # noqa: TRY400 - the message suffices
            sys.exit(1)


if __name__ == "__main__":
    main()
