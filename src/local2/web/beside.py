"""The page beside a stack (`web: on`): a child process of `local2 up`, which ends with it."""

import os
import signal

from local2.child_process import ChildConfig, call_when_parent_ends, run_child
from local2.logs import get_logger
from local2.settings import Settings
from local2.web.pages.links import PageLinks
from local2.web.server import serve

log = get_logger()


class PageConfig(ChildConfig, frozen=True, kw_only=True):
    """The settings of the stack, and the links, of which the stack prints one."""

    settings: Settings
    links: PageLinks


async def serve_page(config: PageConfig) -> None:
    """Serve the page until the parent ends."""
    call_when_parent_ends(lambda: os.kill(os.getpid(), signal.SIGTERM))
    await serve(
        config.settings,
        lambda address: log.info("page_served", url=address.url),
        with_pages=True,
        page_links=config.links,
    )


if __name__ == "__main__":
    run_child("page", PageConfig, serve_page)
