"""Upkeep previews, applies and undoes changes, settles what failed, and makes and reads backups."""

import re
from pathlib import Path

import httpx
from playwright.sync_api import Locator, expect

from browsers import Reader
from commands import Served
from failing import UNREADABLE, fail_to_judge, publish_turns
from http_servers import call

SOON = 30_000
"""Milliseconds in which the memory has done what a page shows then."""


def remember(client: httpx.Client, content: str) -> str:
    arguments = {"content": content, "scope": "user", "memory_type": "preference"}
    return str(call(client, "remember_fact", **arguments)["data"]["id"])


def facts_about(client: httpx.Client, words: str) -> list[str]:
    request = {"kinds": ["fact"], "words": words}
    page = client.post("/v1/services/memory.browse", json=request).json()
    return sorted(memory["content"] for memory in page["memories"])


def confirm(reader: Reader, action: str) -> None:
    reader.page.get_by_role("alertdialog").get_by_role("button", name=action).click()


def notice(reader: Reader, words: str) -> Locator:
    shown = reader.page.locator(".notice", has_text=re.compile(words))
    expect(shown).to_be_visible(timeout=SOON)
    return shown


def test_consolidation_is_previewed_applied_and_undone(ada: httpx.Client, reader: Reader) -> None:
    both = [remember(ada, content) for content in ("Ada likes cocoa.", "ada likes cocoa")]
    assert len(set(both)) == 2
    reader.open("/upkeep")
    expect(reader.page.get_by_text("It only runs when it is applied here")).to_be_visible()

    reader.page.get_by_role("button", name="Preview").click()
    planned = reader.page.locator("tr", has_text="likes cocoa")
    expect(planned).to_contain_text("merged")
    assert len(facts_about(ada, "cocoa")) == 2
    reader.check_accessibility()

    reader.page.get_by_role("button", name="Apply").click()
    confirm(reader, "Apply")
    done = notice(reader, "Done: .*merged")
    assert len(facts_about(ada, "cocoa")) == 1
    done.get_by_role("button", name="Undo").click()
    notice(reader, "Undone: [0-9]+ changes?\\.")  # other pages' facts may be merged, too
    assert len(facts_about(ada, "cocoa")) == 2


def test_the_log_of_changes_undoes_a_run(ada: httpx.Client, reader: Reader) -> None:
    id_ = remember(ada, "Ada paints in oil.")
    call(ada, "edit_memory", id=id_, content="Ada paints in ink.", reason="A slip.")
    reader.open("/upkeep?part=changes")

    row = reader.page.locator("tr", has_text="A slip.")
    expect(row).to_contain_text("edited")
    expect(row).to_contain_text("Ada paints in oil.")
    reader.check_accessibility()
    row.get_by_role("button", name="Undo").click()
    confirm(reader, "Undo")

    notice(reader, "Undone: 1 change\\.")
    assert facts_about(ada, "paints") == ["Ada paints in oil."]
    expect(reader.page.locator("tr", has_text="the edit is undone").first).to_be_visible()


def test_failed_tasks_are_tried_again_and_discarded(
    page_stack: Served, ada: httpx.Client, reader: Reader
) -> None:
    first, second = (remember(ada, f"Ada sews {number} coats.") for number in range(2))
    for id_ in (first, second):
        fail_to_judge(page_stack, id_)
    reader.open("/upkeep?part=tasks")

    failed = reader.page.locator("tr", has_text=first)
    expect(failed).to_contain_text("It was refused.")
    reader.check_accessibility()
    failed.get_by_role("button", name="Try again").click()
    notice(reader, "Tried again: 1 task\\.")
    expect(failed).to_have_count(0)

    expect(reader.page.locator("tr", has_text=second)).to_be_visible()
    reader.page.get_by_role("button", name="Discard all").click()
    confirm(reader, "Discard")
    notice(reader, "Discarded: 1 task\\.")
    expect(reader.page.locator("tr", has_text=second)).to_have_count(0)


def test_dead_letters_are_read_published_again_and_discarded(
    page_stack: Served, reader: Reader
) -> None:
    publish_turns(page_stack, {**UNREADABLE, "source": "<b>critic</b>"})
    reader.open("/upkeep?part=letters")
    row = reader.page.locator("tr", has_text="<b>critic</b>")
    row.click()
    drawer = reader.page.locator(".drawer")
    expect(drawer).to_contain_text("What is gold?")
    reader.check_accessibility()

    drawer.get_by_role("button", name="Publish again").click()
    notice(reader, "Published again")
    expect(drawer).to_have_count(0)
    row.click()  # it is still unreadable, and becomes another letter
    drawer.get_by_role("button", name="Discard").click()
    confirm(reader, "Discard")

    notice(reader, "Discarded")
    expect(reader.page.get_by_text("Every message could be stored.")).to_be_visible()


def test_the_dry_run_of_retention_is_shown(reader: Reader) -> None:
    reader.open("/upkeep?part=retention")

    expect(reader.page.locator("section")).to_contain_text("would be deleted if it were on")
    expect(reader.page.get_by_text("Nothing is due.")).to_be_visible()
    reader.check_accessibility()


def test_a_backup_is_made_listed_and_verified(
    ada: httpx.Client, reader: Reader, tmp_path: Path
) -> None:
    remember(ada, "Ada reads maps.")
    reader.open("/upkeep?part=backups")
    reader.page.get_by_label("Folder on the machine").fill(str(tmp_path / "backups"))
    reader.page.get_by_role("button", name="Make a backup").click()

    made = reader.page.locator("tr", has_text="records")
    expect(made).to_be_visible(timeout=SOON)
    reader.check_accessibility()
    made.get_by_role("button", name="Verify").click()

    expect(reader.page.locator(".tag", has_text="intact")).to_be_visible(timeout=SOON)
