"""The page that a stack starts beside itself, if `web` in config/http.yaml is on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from local2 import loopback
from local2.errors import ConfigError
from local2.settings import Settings
from local2.stack.supervisor import supervised
from local2.web.server import listen, with_extra


@asynccontextmanager
async def page_beside(
    settings: Settings, *, by_tenant: bool, log_folder: Path | None
) -> AsyncIterator[str]:
    """Serve the page in a child process while the context lasts; yield the link that opens it.

    `by_tenant`: whether the stack has accounts; the page is then of the tenant of its credentials.

    Raises:
        ConfigError: The port is taken, what the page needs is not installed, or it has no
            credentials on a stack with accounts.
    """
    if by_tenant and settings.bus.credentials is None:
        raise ConfigError(
            "The page is not started: on a stack with accounts, it is one tenant's, and needs an "
            "agent of its own there.",
            remedy="Add one with `local2 tenants add TENANT --agent web --role admin`, and start "
            "the stack with LOCAL2_BUS__CREDENTIALS=config/nats/TENANT/web.nk.",
        )
    with with_extra():
        from local2.web.beside import PageConfig  # noqa: PLC0415
        from local2.web.pages.links import PageLinks  # noqa: PLC0415
    with listen(settings) as listener:  # whether it is free, and which one 0 is
        url, port = loopback.url_of(listener), listener.getsockname()[1]
    links = PageLinks.for_server(url, has_accounts=settings.bus.credentials is not None)
    http = msgspec.structs.replace(settings.http, port=port)
    config = PageConfig(
        settings=msgspec.structs.replace(settings, http=http),
        links=links,
        log_file=log_folder / "page.log" if log_folder else None,
    )
    async with supervised(PageConfig.__module__, config.to_line()):
        yield links.make_link()
