"""The pictures of docs/web.md: `pytest tests/web/pages/test_page_pictures.py -n0 --pictures`."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from browsers import NARROW, Reader
from commands import ROOT, served
from http_servers import HttpServer, call, http_server
from local2.web.pages.site import PAGES
from stacks import settings_in

PICTURES = ROOT / "docs" / "pictures"
TALK = [
    ("user", "My daughter Noa starts school in September. Can you remind me in August?"),
    ("assistant", "Of course. I will remind you in August that Noa starts school in September."),
    ("user", "I moved to Utrecht in May, and I work for Northwind now."),
]
FACTS = [
    ("user", "preference", "Prefers metric units and answers without small talk."),
    ("tenant", "instruction", "Deploys go out on Tuesdays, never on Fridays."),
    ("tenant", "event", "The offsite in Lisbon is on 12 March; Mara organises it."),
    ("user", "task", "Renew the passport before the trip to Japan."),
]
THINGS = [
    ("Ada", "works for", "Northwind"),
    ("Ada", "lives in", "Utrecht"),
    ("Noa", "is a daughter of", "Ada"),
    ("Mara", "works for", "Northwind"),
    ("Mara", "organises", "the offsite"),
    ("the offsite", "takes place in", "Lisbon"),
    ("Northwind", "runs", "the report service"),
    ("the invoice export", "depends on", "the report service"),
]
NOTE = (
    "The invoice export fails for accounts with more than 10,000 lines; the report service times "
    "out after 30 seconds."
)


@pytest.fixture(scope="module", autouse=True)
def wanted(request: pytest.FixtureRequest) -> None:
    if not request.config.getoption("--pictures"):
        pytest.skip("Pictures are made with --pictures.")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HttpServer]:
    with (
        served(settings_in(tmp_path_factory.mktemp("pictures"))) as stack,
        http_server(stack.folder, "web") as server,
        server.client() as ada,
    ):
        messages = [{"role": role, "content": content} for role, content in TALK]
        call(ada, "ingest", session_id="planning", messages=messages)
        call(ada, "add_document", title="Handbook", content="# Travel\n\nTrains before planes.")
        parts = ("subject", "predicate", "object")
        knowledge = [dict(zip(parts, thing, strict=True)) for thing in THINGS]
        call(ada, "add_knowledge", facts=knowledge)
        call(ada, "save_memory", content=NOTE)
        for scope, memory_type, content in FACTS:
            call(ada, "remember_fact", content=content, scope=scope, memory_type=memory_type)
        call(ada, "save_topic", topic="user.editor", content="Helix in the terminal")
        call(ada, "save_topic", topic="user.editor", content="Zed at work, Helix in the terminal")
        yield server


def test_pictures(server: HttpServer, browser: Browser) -> None:
    PICTURES.mkdir(exist_ok=True)
    with browser.new_context(viewport={"width": 1_280, "height": 760}) as context:
        reader = Reader(context.new_page(), server.url)
        page = reader.page
        page.goto(str(server.page))
        page.wait_for_url(lambda address: "sign-in" not in address)
        document = (ROOT / "docs" / "web.md").read_text(encoding="utf-8")
        for shown in PAGES:
            if f"pictures/{shown.title.lower()}.png" not in document:
                continue
            reader.open(shown.path)
            if shown.path == "/overview":  # what is counted is shown later
                page.locator(".growth").wait_for()
            page.screenshot(path=PICTURES / f"{shown.title.lower()}.png")
        reader.open("/memories")
        page.get_by_text("Zed at work").click()
        expect(page.get_by_text("Versions (2)")).to_be_visible()
        reader.settle()
        page.screenshot(path=PICTURES / "memory.png")
        page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
        page.emulate_media(color_scheme="dark")
        reader.open("/memories")
        page.screenshot(path=PICTURES / "narrow.png")
        assert not reader.problems
