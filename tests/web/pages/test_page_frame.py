"""What all pages share: signing in, navigation, keys, light and dark, and a stack that is gone."""

import asyncio
import base64
import re
import socket
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
from anyio.from_thread import start_blocking_portal
from nicegui import Client, background_tasks, core, ui
from playwright.sync_api import Browser, expect
from starlette.requests import Request

from browsers import NARROW, PATIENCE, Reader
from commands import served
from http_servers import HttpServer, call, http_server
from local2.client.stack_tools import StackTools
from local2.protocol.envelope import Sender
from local2.settings import BusSettings, Settings
from local2.web.pages.frame import Page, Viewer, said, show_page
from local2.web.pages.site import ALL_RIGHTS, PAGES
from stacks import settings_in

NOW = datetime(2026, 3, 12, 12, 0, tzinfo=UTC)


@pytest.mark.parametrize("page", PAGES, ids=[page.title for page in PAGES])
def test_every_page_is_readable_and_accessible_in_the_dark_on_a_narrow_screen(
    page: Page, reader: Reader
) -> None:
    """The tests of each page check it in the light on a wide one: colours depend on no width."""
    reader.show("dark", NARROW)
    reader.open(page.path)
    expect(reader.page.locator("h1")).to_have_text(page.title)
    expect(reader.page.locator(".page-head")).to_contain_text(page.about)
    reader.check_accessibility()
    reader.check_width()


def long_name(of: str, length: int = 80) -> str:
    """A name without spaces, such as a program makes up."""
    return f"{of}_{'0123456789' * length}"[:length]


def test_long_names_make_no_page_wider_than_a_narrow_screen(
    reader: Reader, pages: HttpServer
) -> None:
    user, source, thing = long_name("user"), long_name("file", 500), long_name("thing")
    headers = {
        "Local2-User": user,
        "Local2-Agent": long_name("agent", 60),
        "Local2-Session": long_name("session"),
    }
    with pages.client(**headers) as client:
        saved = call(client, "save_topic", topic=long_name("user.topic"), content=long_name("text"))
        call(client, "edit_memory", id=saved["data"]["id"], content="x", reason=long_name("reason"))
        triplet = {"subject": thing, "predicate": long_name("verb", 50), "object": "Ada"}
        call(client, "add_knowledge", facts=[triplet])
        text = f"# {long_name('heading')}\n\n{long_name('word')}"
        call(client, "add_document", title=long_name("title"), content=text, source=source)
    reader.show("light", NARROW)
    for path in (
        f"/memories?of={user}",
        f"/ask?q=heading+topic&user={user}",
        f"/facts?owner={user}",
        f"/graph?thing={thing}&user={user}",
        f"/documents?source={source}",
        f"/sessions?id={long_name('session')}&user={user}",
    ):
        reader.open(path)
        expect(reader.page.locator(".page-content.ready")).to_contain_text("0123456789")
        reader.check_width()


def test_pages_are_reached_by_keys_and_the_keys_are_listed(reader: Reader) -> None:
    assert len({page.key for page in PAGES}) == len(PAGES)
    reader.open("/")
    for page in PAGES[1::4]:
        reader.page.keyboard.press("g")
        reader.page.keyboard.press(page.key)
        reader.page.wait_for_url(f"**{page.path}")
        reader.page.locator(".page-content.ready").wait_for()
    reader.page.keyboard.press("?")
    keys = reader.page.get_by_role("dialog")
    expect(keys).to_contain_text("Move in a table")
    reader.page.keyboard.press("Escape")
    expect(keys).to_have_count(0)


def test_the_menu_of_a_narrow_screen_opens(reader: Reader) -> None:
    reader.show("light", NARROW)
    reader.open("/")
    navigation = reader.page.get_by_role("navigation")
    expect(navigation).to_be_hidden()
    menu = reader.page.get_by_role("button", name="Menu")
    menu.click()
    expect(navigation).to_be_visible()
    reader.page.keyboard.press("Escape")
    expect(navigation).to_be_hidden()
    expect(menu).to_be_focused()


def test_the_choice_between_light_and_dark_stays(reader: Reader) -> None:
    reader.open("/")
    expect(reader.page.locator("body")).to_have_class(re.compile("body--light"))
    reader.page.keyboard.press("t")
    expect(reader.page.locator("body")).to_have_class(re.compile("body--dark"))
    reader.page.reload()
    expect(reader.page.locator("body")).to_have_class(re.compile("body--dark"))


def test_a_link_works_once(browser: Browser, pages: HttpServer, signed_in: Path) -> None:
    assert signed_in.exists()  # it was used
    with browser.new_context() as context:
        page = context.new_page()
        page.goto(str(pages.page))
        expect(page.get_by_role("alert")).to_contain_text("used before")
        page.goto(f"{pages.url}/memories")
        expect(page).to_have_url(f"{pages.url}/sign-in")


def test_a_used_link_opens_the_page_for_who_has_signed_in(
    reader: Reader, pages: HttpServer
) -> None:
    reader.page.goto(str(pages.page))
    expect(reader.page).to_have_url(f"{pages.url}/overview")


@pytest.mark.parametrize(
    ("ago", "expected"),
    [
        (timedelta(seconds=5), "just now"),
        (timedelta(seconds=61), "1 minute ago"),
        (timedelta(hours=2), "2 hours ago"),
        (timedelta(days=1, hours=1), "yesterday"),
        (timedelta(days=3), "3 days ago"),
        (timedelta(days=30), "10 Feb"),
        (timedelta(days=400), "5 Feb 2025"),
        (-timedelta(days=2), "14 Mar 2026"),
    ],
)
def test_times_are_said_as_people_say_them(ago: timedelta, expected: str) -> None:
    assert said(NOW - ago, NOW) == expected


def run_nicegui(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the timers of pages run in the loop of the test."""
    monkeypatch.setattr(core, "loop", asyncio.get_running_loop())
    monkeypatch.setattr(type(core.app), "is_stopped", False)


def page_for(caller: Sender, show: Callable[[Viewer], Awaitable[None]]) -> Client:
    """A page of NiceGUI in the loop of the test, for a browser that is still to come."""
    link = cast("StackTools", SimpleNamespace(is_reached=True, calls=lambda *_: None))
    page = PAGES[0]._replace(show=show)
    request = Request({"type": "http", "path": page.path, "headers": []})
    with Client(ui.page(page.path), request=request) as client:
        show_page(page, PAGES, Viewer(link, Settings(), caller, ALL_RIGHTS, {}))
    return client


def test_a_page_leads_to_signing_in_when_its_token_has_expired(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    claims = base64.urlsafe_b64encode(b'{"exp": 1, "sub": "ada"}').decode()

    async def nothing(*_: object) -> None:
        pass

    async def open_it() -> str:
        run_nicegui(monkeypatch)
        led: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        monkeypatch.setattr(ui.navigate, "to", led.set_result)
        client = page_for(Sender(user="ada", token=f"e30.{claims}.e30"), nothing)
        monkeypatch.setattr(client, "connected", nothing)  # a browser has come
        try:
            async with asyncio.timeout(PATIENCE / 1_000):
                return await led
        finally:
            client.delete()
            await asyncio.gather(*background_tasks.running_tasks)

    with start_blocking_portal() as portal:  # Playwright has the loop of this thread
        assert portal.call(open_it) == "/sign-in?expired"


def test_nothing_is_read_for_a_page_that_no_browser_came_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Such as one that a program without scripts has fetched: NiceGUI deletes it a minute later."""
    read: list[Viewer] = []
    failed: list[Exception] = []

    async def read_it(viewer: Viewer) -> None:
        read.append(viewer)

    async def fetch_and_delete() -> None:
        run_nicegui(monkeypatch)
        monkeypatch.setattr(core.app, "handle_exception", failed.append)
        client = page_for(Sender(), read_it)
        await asyncio.sleep(0)  # what waits for the browser has begun to
        client.delete()
        await asyncio.gather(*background_tasks.running_tasks)

    with start_blocking_portal() as portal:  # Playwright has the loop of this thread
        portal.call(fetch_and_delete)
    assert (read, failed) == ([], [])


def test_a_page_waits_for_a_stack_that_is_gone_and_goes_on(
    browser: Browser, tmp_path: Path
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = msgspec.structs.replace(settings_in(tmp_path), bus=BusSettings(port=port))
    url = f"nats://127.0.0.1:{port}"
    with ExitStack() as resources:
        first = resources.enter_context(ExitStack())
        first.enter_context(served(settings))
        server = resources.enter_context(http_server(tmp_path, "web", LOCAL2_BUS__URL=url))
        context = resources.enter_context(browser.new_context())
        reader = Reader(context.new_page(), server.url)
        reader.page.goto(str(server.page))
        reader.page.wait_for_url(lambda address: "sign-in" not in address)
        reader.open("/memories")
        banner = reader.page.get_by_text("The memory is not running.")
        expect(reader.page.locator(".empty")).to_contain_text("Nothing is remembered yet")
        expect(reader.page.locator(".empty code", has_text="local2 chat")).to_be_visible()
        expect(banner).to_be_hidden()
        search = reader.page.get_by_label("Search")
        search.fill("stack")
        expect(reader.page.locator(".empty")).to_contain_text("Nothing matches")
        live = Reader(context.new_page(), server.url)
        live.open("/live")
        live.page.get_by_role("button", name="Pause").click()
        live.page.get_by_label("Filter").fill("remember_fact")
        expect(live.page).to_have_url(re.compile("words=remember_fact"))
        with server.client() as ada:  # the page shows it only once it reads again
            call(ada, "remember_fact", content="The stack is back.", scope="user")
        expect(live.page.get_by_text("more, shown when you go on")).to_be_visible()
        first.close()
        expect(banner).to_be_visible()
        live_banner = live.page.get_by_text("The memory is not running.")
        expect(live_banner).to_be_visible()
        with served(settings):
            expect(banner).to_be_hidden()
            expect(reader.page.locator("[data-row]")).to_contain_text("The stack is back.")
            expect(search).to_have_value("stack")
            expect(search).to_be_focused()
            expect(live_banner).to_be_hidden()
            with server.client() as ada:
                call(ada, "remember_fact", content="Live goes on.", scope="user")
            live.page.get_by_role("button", name="Go on").click()
            results = live.page.locator("[data-row]", has_text="tool.result.remember_fact")
            expect(results).to_have_count(2)
            live.page.close()
            reader.page.locator("[data-row]").click()
            reader.page.get_by_role("button", name="Edit").click()
            written = reader.page.get_by_label("Text")
            written.fill("The stack was gone twice.")
        expect(banner).to_be_visible()
        with served(settings):
            expect(banner).to_be_hidden()
            expect(written).to_have_value("The stack was gone twice.")
            reader.page.get_by_role("button", name="Save").click()
            expect(reader.page.locator("[data-row]")).to_contain_text("The stack was gone twice.")
        assert reader.problems == []
