"""Overview shows whether everything works, what there is and how it grows, and stays up to date."""

import re
from threading import Event
from typing import get_args

import httpx
import pytest
from playwright.sync_api import Locator, expect

from browsers import PATIENCE, Reader
from http_servers import call
from local2.agents.findings import check_disk
from local2.errors import UnavailableError
from local2.protocol.maintenance import CheckResult
from local2.protocol.memories import Kind
from local2.settings import MemorySettings

CHECK_DISK = "local2.agents.services.check_disk"
SOON = 30_000
"""Milliseconds in which a page shows what has changed."""


def store(client: httpx.Client, content: str) -> None:
    call(client, "remember_fact", content=content, scope="user")


def health_of(reader: Reader) -> Locator:
    return reader.page.locator("section", has=reader.page.get_by_role("heading", name="Health"))


def test_an_overview_says_what_works_and_what_there_is(ada: httpx.Client, reader: Reader) -> None:
    store(ada, "Ada prefers the window seat.")
    reader.open("/overview")
    page, health = reader.page, health_of(reader)

    expect(health).to_contain_text("none are scheduled")
    expect(health.locator("code", has_text="local2 backup DIR")).to_be_visible()
    unscheduled = health.locator(".finding", has_text="none are scheduled")
    to_backups = unscheduled.get_by_role("link", name="Open in Upkeep")
    expect(to_backups).to_have_attribute("href", "/upkeep?part=backups")
    health.get_by_text(re.compile("What works")).click()
    expect(health).to_contain_text("every message could be stored")
    expect(page.get_by_role("img", name=re.compile("memories in 30 days"))).to_be_visible()
    fact = page.locator("tr", has_text=re.compile(r"^\s*fact"))
    expect(fact).to_contain_text("just now")
    expect(page.locator("dl", has_text="Meaning of texts")).to_contain_text("MiniLM")
    reader.check_accessibility()


def test_an_overview_follows_what_changes(ada: httpx.Client, reader: Reader) -> None:
    reader.open("/overview")
    records = reader.page.locator("dt", has_text=re.compile("^Records$")).locator("+ dd")
    before = int(records.inner_text().replace(",", ""))
    works = reader.page.locator("summary", has_text="What works")
    works.press("Enter")
    opened = reader.page.get_by_text("every message could be stored")
    expect(opened).to_be_visible()

    store(ada, "Ada moved to the aisle.")

    expect(records).to_have_text(f"{before + 1:,}", timeout=SOON)
    expect(opened).to_be_visible()
    expect(works).to_be_focused()


def test_an_overview_is_there_before_it_is_known_what_works(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Event()

    def look_long(settings: MemorySettings, _: int | None) -> CheckResult:
        looked.wait(PATIENCE / 1_000)
        return check_disk(settings, None)

    monkeypatch.setattr(CHECK_DISK, look_long)
    try:
        reader.open("/overview")
        expect(health_of(reader)).to_contain_text("Looking …")
    finally:
        looked.set()
    expect(health_of(reader)).to_contain_text("The memory works.")
    expect(reader.page.get_by_text("Looking …")).to_have_count(0)


def test_an_overview_says_that_the_memory_does_not_answer_and_goes_on(
    reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: MemorySettings, __: int | None) -> CheckResult:
        raise UnavailableError("The stack is busy.", remedy="Wait a moment.")

    with monkeypatch.context() as failing:
        failing.setattr(CHECK_DISK, fail)
        reader.open("/overview")
        expect(health_of(reader).locator(".broken")).to_contain_text("The stack is busy.")
        expect(health_of(reader)).to_contain_text("Wait a moment.")
    expect(health_of(reader)).to_contain_text("The memory works.")
    expect(reader.page.locator(".notice")).to_have_count(0)


def test_each_kind_has_a_colour_of_its_own(reader: Reader) -> None:
    reader.open("/overview")
    colours = reader.page.evaluate(
        """(number) => [...Array(number).keys()].map((kind) => {
          const swatch = document.createElement("span");
          swatch.className = `shade-${kind}`;
          document.body.append(swatch);
          return getComputedStyle(swatch).backgroundColor;
        })""",
        len(get_args(Kind)),
    )

    assert len(set(colours)) == len(get_args(Kind))
    assert "rgba(0, 0, 0, 0)" not in colours
