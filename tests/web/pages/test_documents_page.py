"""Documents: all of them, and the chunks of each."""

import httpx
import pytest
from playwright.sync_api import expect

from browsers import PATIENCE, Reader
from holding import held
from http_servers import call
from local2.memory.intake.documents import Documents
from local2.web.pages.documents import PAGE_SIZE

HOSTILE = "<script>alert(1)</script>"


@pytest.fixture(scope="module", autouse=True)
def documents(ada: httpx.Client) -> None:
    """A guide with more chunks than a page shows, and a short text with a hostile name."""
    sections = "\n\n".join(
        f"## Part {number}\n\nStep {number} of the guide to rigging a mast."
        for number in range(1, PAGE_SIZE + 11)
    )
    call(
        ada,
        "add_document",
        title="Rigging",
        source="rigging.md",
        content=f"# Rigging\n\n{sections}",
    )
    call(ada, "add_document", title=HOSTILE, source=f"a {HOSTILE}.md", content=f"Sails. {HOSTILE}")
    for week in (10, 2, 1):
        title = f"week {week}"
        call(ada, "add_document", title=title, source=title, content=f"Log of week {week}.")


def test_every_document_is_listed_and_shows_its_chunks_page_by_page(reader: Reader) -> None:
    reader.open("/documents")
    listed = reader.page.locator(".list-row")
    expect(listed.first).to_contain_text(HOSTILE)
    expect(reader.page.locator(".chunk")).to_contain_text(f"Sails. {HOSTILE}")

    listed.filter(has_text="Rigging").click()
    chunks = reader.page.locator(".chunk")
    expect(chunks).to_have_count(PAGE_SIZE)
    expect(chunks.first).to_contain_text("Part 1")
    reader.check_accessibility()
    reader.page.get_by_role("button", name="After").click()
    expect(chunks).to_have_count(10)
    expect(chunks.last).to_contain_text(f"Step {PAGE_SIZE + 10} of the guide")


def test_a_document_is_not_overtaken_by_one_that_was_chosen_earlier(reader: Reader) -> None:
    reader.open("/documents?source=rigging.md")
    rows, chunk = reader.page.locator(".list-row"), reader.page.locator(".chunk").first
    with held(Documents, "chunks") as is_asked:
        rows.filter(has_text="week 1").first.click()
        assert is_asked.wait(PATIENCE / 1_000)
        rows.filter(has_text="week 2").click()
        expect(chunk).to_contain_text("Log of week 2.")

    chunk.get_by_role("button").click()
    expect(reader.page.get_by_role("dialog")).to_contain_text("Log of week 2.")
    expect(chunk).to_contain_text("Log of week 2.")


def test_documents_are_in_the_order_in_which_people_count(reader: Reader) -> None:
    reader.open("/documents")
    weeks = reader.page.locator(".list-row .cut-text").filter(has_text="week")
    expect(weeks).to_have_text(["week 1", "week 2", "week 10"])


def test_a_document_is_in_the_address_and_a_chunk_opens(reader: Reader) -> None:
    reader.open("/documents?source=rigging.md")
    first = reader.page.locator(".chunk").first
    expect(first).to_contain_text("Step 1 of the guide")

    first.get_by_role("button").click()

    expect(reader.page.get_by_role("dialog")).to_contain_text("Step 1 of the guide")
