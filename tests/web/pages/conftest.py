"""One stack, one `local2 web` and one window of a browser for all tests of the pages."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import msgspec
import pytest
from playwright.sync_api import Browser

from browsers import WIDE, Reader, chromium
from commands import Served, served
from http_servers import HttpServer, http_server
from stacks import settings_in


@pytest.fixture(scope="package")
def page_stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    settings = settings_in(tmp_path_factory.mktemp("pages"))
    # It settles contradictions by itself a minute after its start, while a test looks at them.
    memory = msgspec.structs.replace(settings.memory, consolidation_hours=0)
    with served(msgspec.structs.replace(settings, memory=memory)) as running:
        yield running


@pytest.fixture(scope="package")
def pages(page_stack: Served) -> Iterator[HttpServer]:
    """The server of the pages; ada looks at them."""
    with http_server(page_stack.folder, "web") as running:
        yield running


@pytest.fixture(scope="package")
def ada(pages: HttpServer) -> Iterator[httpx.Client]:
    """A client that stores what tests look at, and reads what pages have changed."""
    with pages.client() as client:
        yield client


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with chromium() as running:
        yield running


@pytest.fixture(scope="package")
def signed_in(
    browser: Browser, pages: HttpServer, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """The cookies of a browser that has used the link, which works only once."""
    cookies = tmp_path_factory.mktemp("cookies") / "ada.json"
    assert pages.page is not None
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(pages.page)
        page.wait_for_url(lambda address: "sign-in" not in address)
        context.storage_state(path=cookies)
    return cookies


@pytest.fixture(scope="package")
def window(browser: Browser, pages: HttpServer, signed_in: Path) -> Iterator[Reader]:
    """One window: each new one would load and compile the pages' scripts again."""
    with browser.new_context(storage_state=signed_in) as context:
        yield Reader(context.new_page(), pages.url)


@pytest.fixture
def reader(window: Reader) -> Iterator[Reader]:
    window.show("light", WIDE)
    yield window
    window.leave()
