"""The page that a stack starts beside itself, if `web` in config/http.yaml is on."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec

from local2 import loopback
from local2.errors import ConfigError, extra_to_install
from local2.settings import Settings
from local2.stack.supervisor import supervised
from local2.web.beside import PageConfig


@asynccontextmanager
async def page_beside(settings: Settings, *, log_folder: Path | None) -> AsyncIterator[str]:
    """Serve the page in a child process while the context lasts; yield the link that opens it.

    Raises:
        ConfigError: The port is taken, or what the page needs is not installed.
    """
    try:
        from local2.web.pages.signing_in import link_with, new_key  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"The page needs {error.name}.", remedy=extra_to_install("web")
        ) from error
    with loopback.listen(settings.http.port) as listener:  # whether it is free, and which one 0 is
        url, port = loopback.url_of(listener), listener.getsockname()[1]
    key = new_key()
    http = msgspec.structs.replace(settings.http, port=port)
    config = PageConfig(
        settings=msgspec.structs.replace(settings, http=http),
        key=key,
        log_file=log_folder / "page.log" if log_folder else None,
    )
    async with supervised(PageConfig.__module__, config.to_line()):
        yield link_with(url, key)
