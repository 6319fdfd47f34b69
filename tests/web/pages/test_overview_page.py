"""Overview shows whether everything works, what there is and how it grows, and stays up to date."""

import re

import httpx
from playwright.sync_api import expect

from browsers import Reader
from http_servers import call

SOON = 30_000
"""Milliseconds in which a page shows what has changed."""


def store(client: httpx.Client, content: str) -> None:
    call(client, "remember_fact", content=content, scope="user")


def test_an_overview_says_what_works_and_what_there_is(ada: httpx.Client, reader: Reader) -> None:
    store(ada, "Ada prefers the window seat.")
    reader.open("/overview")
    page = reader.page

    health = page.locator("section", has=page.get_by_role("heading", name="Health"))
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
    works = reader.page.get_by_role("button", name=re.compile("What works"))
    works.press("Enter")
    opened = reader.page.get_by_text("every message could be stored")
    expect(opened).to_be_visible()

    store(ada, "Ada moved to the aisle.")

    expect(records).to_have_text(f"{before + 1:,}", timeout=SOON)
    expect(opened).to_be_visible()
    expect(works).to_be_focused()
