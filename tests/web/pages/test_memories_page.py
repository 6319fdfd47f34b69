"""Memories are found, read, and mended on the page; what they say is never more than text."""

import sqlite3
from contextlib import closing
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import Locator, expect

from browsers import NARROW, PATIENCE, Reader
from commands import Served
from holding import held
from http_servers import call
from local2.ledger.operations.browsing import MAX_READ
from local2.memory.facts import Facts
from waiting import wait_until

HOSTILE = (
    "<img src=x onerror=alert(1)><script>alert(2)</script>"
    '"><svg onload=alert(3)>{{ alert(4) }}${alert(5)}`javascript:alert(6)`</td></table>'
)
MANY, AT_ONCE = 100_000, 10_000
RARE = MANY - 4 * MAX_READ
INSERT_CROWD = """
WITH RECURSIVE number (n) AS (
    SELECT :first UNION ALL SELECT n + 1 FROM number WHERE n + 1 < :end)
INSERT INTO record (tenant, id, kind, owner, scope, memory_type, agent, topic, folded_topic,
                    content, event_time)
SELECT 'default', :user || n, 'fact', :user, 'user', 'task', iif(n = :rare, 'rare', 'robot'),
       'user.thousand_' || (n / 1000) || '.' || n, 'user.thousand_' || (n / 1000) || '.' || n,
       'Row ' || n || ' of the crowd.',
       strftime('%Y-%m-%dT%H:%M:%f+00:00', '2026-01-01', '+' || n || ' seconds')
FROM number
"""


def stored(ada: httpx.Client, content: str, **arguments: object) -> str:
    """Store a fact of ada's that no other test finds; return its id."""
    answer = call(ada, "remember_fact", content=content, **{"scope": "user", **arguments})
    return str(answer["data"]["id"])


def unique(word: str) -> str:
    return f"{word}{uuid4().hex[:8]}"


def search(reader: Reader, words: str) -> None:
    reader.open(f"/memories?words={words}")


def rows(reader: Reader) -> Locator:
    return reader.page.locator("[data-row]")


def drawer(reader: Reader) -> Locator:
    return reader.page.locator(".drawer")


def press(reader: Reader, button: str) -> None:
    reader.page.get_by_role("button", name=button, exact=True).click()


def state_of(ada: httpx.Client, words: str) -> list[tuple[str, str]]:
    """What the memory has with these words: contents and states."""
    states = ["active", "replaced", "retired", "hidden"]
    body = {"words": words, "states": states}
    answer = ada.post("/v1/services/memory.browse", json=body)
    assert answer.status_code == 200, answer.text
    return sorted((found["content"], found["state"]) for found in answer.json()["memories"])


def test_words_and_filters_are_in_the_address(reader: Reader, ada: httpx.Client) -> None:
    word = unique("kestrel")
    stored(ada, f"The {word} nests on the tower.", memory_type="event")
    stored(ada, f"The {word} is counted every week.", memory_type="instruction")
    reader.open("/memories")
    reader.page.keyboard.press("/")
    reader.page.keyboard.type(word)
    expect(rows(reader)).to_have_count(2)
    reader.page.get_by_text("More filters").click()
    reader.page.get_by_label("Type of fact").click()
    reader.page.get_by_role("option", name="event").click()
    expect(rows(reader)).to_have_count(1)
    assert f"words={word}" in reader.page.url
    assert "types=event" in reader.page.url
    reader.page.reload()
    expect(rows(reader)).to_have_count(1)
    expect(rows(reader)).to_contain_text("nests on the tower")


def test_a_filter_that_is_none_says_so(reader: Reader) -> None:
    reader.open("/memories?kinds=nonsense")
    said = "The filter kinds in the address: Invalid enum value 'nonsense'."
    expect(reader.page.locator(".empty")).to_contain_text(said)


def test_an_address_with_a_memory_that_is_gone_says_so_beside_the_table(
    reader: Reader, ada: httpx.Client
) -> None:
    word = unique("wagtail")
    stored(ada, f"The {word} is back.")
    reader.open(f"/memories?words={word}&id=gone")
    expect(reader.page.locator(".notice.wrong")).to_contain_text("there is no memory with this id")
    expect(rows(reader)).to_have_count(1)


def test_an_empty_result_says_what_to_do(reader: Reader) -> None:
    search(reader, unique("nothing"))
    expect(reader.page.locator(".empty")).to_contain_text("Nothing matches")


def test_a_text_is_in_the_direction_of_its_script(reader: Reader, ada: httpx.Client) -> None:
    word = unique("x")
    stored(ada, f"تفضل آدا الشاي على القهوة {word}.")
    search(reader, word)
    text = rows(reader).locator(".two-lines")
    first, last = text.evaluate(
        """(element) => [0, element.firstChild.length - 1].map((place) => {
          const range = document.createRange();
          range.setStart(element.firstChild, place);
          range.setEnd(element.firstChild, place + 1);
          return range.getBoundingClientRect().left;
        })"""
    )
    assert last < first


def test_a_message_without_text_says_so(reader: Reader, ada: httpx.Client) -> None:
    session = unique("calling")
    calls = [{"id": "1", "name": "calendar", "args": {}}]
    message = {"role": "assistant", "content": "", "tool_calls": calls}
    call(ada, "ingest", session_id=session, messages=[message])
    reader.open(f"/memories?session_id={session}")
    expect(rows(reader)).to_contain_text("(no text)")
    rows(reader).click()
    expect(drawer(reader).locator(".memory-text")).to_have_text("(no text)")


def test_a_memory_is_opened_by_keys_and_shows_its_versions(
    reader: Reader, ada: httpx.Client
) -> None:
    key = f"user.{unique('editor')}"
    call(ada, "save_topic", topic=key, content="Helix in the terminal")
    call(ada, "save_topic", topic=key, content="Zed in the terminal")
    reader.open(f"/memories?topic={key}")
    reader.page.keyboard.press("/")
    reader.page.keyboard.press("ArrowDown")
    reader.page.keyboard.press("Enter")
    opened = drawer(reader)
    expect(opened.locator(".memory-text")).to_have_text("Zed in the terminal")
    expect(opened.get_by_text("Versions (2)")).to_be_visible()
    expect(opened.locator("del")).to_have_text("Helix")
    expect(opened.locator("ins")).to_have_text("Zed")
    reader.check_accessibility()
    reader.page.keyboard.press("Escape")
    expect(opened).to_have_count(0)
    expect(rows(reader)).to_be_focused()


def test_a_fact_shows_the_message_that_it_comes_from(reader: Reader, ada: httpx.Client) -> None:
    name = unique("Noa").capitalize()
    said = f"My daughter is called {name} and starts school in May."
    call(ada, "ingest", session_id=name, messages=[{"role": "user", "content": said}])
    wait_until(lambda: [found for found in state_of(ada, name) if found[0] != said])
    reader.open(f"/memories?words={name}&kinds=fact")
    rows(reader).first.click()
    expect(drawer(reader).locator("blockquote")).to_contain_text(said)


def test_an_edit_is_a_new_version_and_its_notice_undoes_it(
    reader: Reader, ada: httpx.Client
) -> None:
    word = unique("osprey")
    stored(ada, f"The {word} eats rabbits.")
    search(reader, word)
    rows(reader).click()
    press(reader, "Edit")
    reader.page.get_by_label("Text").fill(f"The {word} eats fish.")
    press(reader, "Save")
    expect(reader.page.locator(".dialog")).to_have_count(0)
    expect(rows(reader)).to_contain_text("eats fish")
    assert state_of(ada, word) == [
        (f"The {word} eats fish.", "active"),
        (f"The {word} eats rabbits.", "replaced"),
    ]
    reader.page.keyboard.press("n")  # leads to the newest notice
    expect(reader.page.get_by_role("button", name="Undo")).to_be_focused()
    reader.page.keyboard.press("Enter")
    expect(rows(reader)).to_contain_text("eats rabbits")
    expect(rows(reader)).to_be_focused()
    assert (f"The {word} eats rabbits.", "active") in state_of(ada, word)


def test_what_is_being_saved_is_not_cancelled_and_told(reader: Reader, ada: httpx.Client) -> None:
    word = unique("merlin")
    stored(ada, f"The {word} hunts larks.")
    search(reader, word)
    rows(reader).click()
    press(reader, "Edit")
    reader.page.get_by_label("Text").fill(f"The {word} hunts pipits.")
    with held(Facts, "edit") as is_saving:
        press(reader, "Save")
        assert is_saving.wait(PATIENCE / 1_000)
        expect(reader.page.get_by_role("button", name="Cancel")).to_be_disabled()
        reader.page.keyboard.press("Escape")
        expect(reader.page.locator(".dialog")).to_be_visible()

    expect(reader.page.locator(".notices")).to_contain_text("Edited.")
    expect(rows(reader)).to_contain_text("hunts pipits")


def test_what_is_written_stays_if_it_cannot_be_saved(reader: Reader, ada: httpx.Client) -> None:
    word = unique("kestrel")
    stored(ada, f"The {word} hovers.")
    search(reader, word)
    rows(reader).click()
    press(reader, "Edit")
    written = reader.page.get_by_label("Text")
    written.fill(f"The {word} hovers in the wind.")
    (found,) = call(ada, "recall", query=word, top_k=1)["data"]["items"]
    call(ada, "retire_fact", ids=[found["id"]], reason="It flew off.")
    press(reader, "Save")
    expect(reader.page.locator(".notice.wrong")).to_be_visible()
    expect(written).to_have_value(f"The {word} hovers in the wind.")
    press(reader, "Cancel")
    expect(written).to_have_count(0)


@pytest.mark.parametrize(("button", "state"), [("Retire", "retired"), ("Never recall", "hidden")])
def test_what_is_taken_out_is_asked_why_and_comes_back(
    reader: Reader, ada: httpx.Client, button: str, state: str
) -> None:
    word = unique("heron")
    content = f"The {word} fishes at dawn."
    stored(ada, content)
    search(reader, word)
    rows(reader).click()
    asking = drawer(reader).get_by_role("button", name=button)
    asking.focus()
    reader.page.keyboard.press("Enter")
    question = reader.page.locator(".dialog")
    expect(question.get_by_label("Why")).to_be_focused()
    reader.page.keyboard.press("Escape")
    expect(question).to_have_count(0)
    expect(asking).to_be_focused()
    reader.page.keyboard.press("Enter")
    question.get_by_label("Why").fill("It moved away.")
    question.get_by_role("button", name=button).click()
    expect(reader.page.locator(".empty")).to_be_visible()
    assert state_of(ada, word) == [(content, state)]
    press(reader, "Undo")
    expect(rows(reader)).to_have_count(1)
    assert state_of(ada, word) == [(content, "active")]


def test_a_pinned_memory_says_so(reader: Reader, ada: httpx.Client) -> None:
    word = unique("swift")
    stored(ada, f"The {word} sleeps on the wing.")
    search(reader, word)
    expect(rows(reader)).not_to_contain_text("pinned")
    rows(reader).click()
    press(reader, "Pin")
    expect(rows(reader)).to_contain_text("pinned")
    rows(reader).click()
    press(reader, "Unpin")
    expect(rows(reader)).not_to_contain_text("pinned")


def test_forgetting_counts_first_and_erases_only_when_confirmed(
    reader: Reader, ada: httpx.Client
) -> None:
    word = unique("raven")
    stored(ada, f"The {word} knows the code.")
    search(reader, word)
    rows(reader).click()
    press(reader, "Forget")
    question = reader.page.get_by_role("alertdialog")
    expect(question).to_contain_text("facts: 1")
    question.get_by_role("button", name="Cancel").click()
    expect(question).to_have_count(0)
    assert len(state_of(ada, word)) == 1
    press(reader, "Forget")
    question.get_by_role("button", name="Forget").click()
    expect(reader.page.locator(".notice")).to_contain_text("erased for good")
    assert state_of(ada, word) == []


def test_an_error_is_a_notice_and_the_page_goes_on(reader: Reader, ada: httpx.Client) -> None:
    word = unique("stork")
    id_ = stored(ada, f"The {word} is late.")
    search(reader, word)
    rows(reader).click()
    call(ada, "forget", id=id_)
    press(reader, "Pin")
    notice = reader.page.locator(".notice.wrong")
    expect(notice).to_contain_text("there is no fact with this id")
    notice.get_by_role("button", name="Close").click()
    expect(notice).to_have_count(0)
    reader.page.keyboard.press("Escape")
    expect(drawer(reader)).to_have_count(0)


def test_hostile_texts_are_text_everywhere(reader: Reader, ada: httpx.Client) -> None:
    word = unique("magpie")
    session = f"{word}{HOSTILE}"[:200]
    call(ada, "ingest", session_id=session, messages=[{"role": "user", "content": word + HOSTILE}])
    key = f"user.{word}"
    call(ada, "save_topic", topic=key, content=f"{word} {HOSTILE}")
    call(ada, "save_topic", topic=key, content=f"{HOSTILE} {word} again")
    with httpx.Client(
        base_url=ada.base_url,
        headers={**ada.headers, "Local2-User": "%3Cimg%20src%3Dx%20onerror%3Dalert(7)%3E"},
        trust_env=False,
    ) as mallory:
        stored(mallory, f"{word} {HOSTILE}")
    reader.open(f"/memories?words={word}")
    for number in range(rows(reader).count()):
        rows(reader).nth(number).click()
        expect(drawer(reader).locator(".memory-text")).to_contain_text("<script>alert(2)</script>")
        reader.page.keyboard.press("Escape")
        expect(drawer(reader)).to_have_count(0)
    assert rows(reader).count() >= 3
    reader.open(f"/memories?words={HOSTILE}".replace("#", ""))
    assert reader.page.locator("img[src=x], svg[onload]").count() == 0


def test_many_memories_are_changed_and_brought_back_at_once(
    reader: Reader, ada: httpx.Client
) -> None:
    word = unique("finch")
    contents = [f"The {word} number {number} sings." for number in range(3)]
    for content, scope in zip(contents, ("user", "user", "tenant"), strict=True):
        stored(ada, content, scope=scope)
    search(reader, word)
    for number in range(2):
        rows(reader).nth(number).get_by_role("checkbox").check()
    expect(reader.page.locator(".chosen")).to_contain_text("2 chosen")
    for number, is_chosen in enumerate((True, True, False)):
        box = rows(reader).nth(number).get_by_role("checkbox")
        expect(box).to_be_checked(checked=is_chosen)
    expect(rows(reader).nth(1).get_by_role("checkbox")).to_be_focused()
    reader.page.set_viewport_size({"width": NARROW[0], "height": NARROW[1]})
    rows(reader).nth(2).get_by_role("checkbox").check()
    rows(reader).nth(2).get_by_role("checkbox").uncheck()
    press(reader, "Retire")
    reader.page.locator(".dialog").get_by_role("button", name="Retire").click()
    expect(rows(reader)).to_have_count(1)
    press(reader, "Undo")
    expect(rows(reader)).to_have_count(3)
    assert state_of(ada, word) == [(content, "active") for content in contents]


def test_a_change_that_fails_for_one_of_many_changes_none(
    reader: Reader, ada: httpx.Client
) -> None:
    word = unique("heron")
    stored(ada, f"The {word} stays.", scope="tenant")
    gone = stored(ada, f"The {word} left.")
    search(reader, word)
    for number in range(2):
        rows(reader).nth(number).get_by_role("checkbox").check()
    call(ada, "forget", id=gone)
    press(reader, "Never recall")
    reader.page.locator(".dialog").get_by_role("button", name="Never recall").click()
    expect(reader.page.locator(".notice.wrong")).to_contain_text("with this id")
    assert state_of(ada, word) == [(f"The {word} stays.", "active")]


@pytest.fixture(scope="module")
def crowd(page_stack: Served) -> str:
    """A user with very many tasks, which are not indexed; each thousand shares a topic.

    They are rows made by SQL: to store each as a memory would take longer than all other tests.
    """
    user = unique("crowd")
    ledger = page_stack.folder / ".local2" / "ledger.sqlite3"
    with closing(sqlite3.connect(ledger, timeout=30, isolation_level=None)) as connection:
        for first in range(0, MANY, AT_ONCE):  # the stack writes in between
            asked = {"user": user, "first": first, "end": first + AT_ONCE, "rare": RARE}
            connection.execute(INSERT_CROWD, asked)
    return user


def test_very_many_memories_are_shown_page_by_page(reader: Reader, crowd: str) -> None:
    reader.open(f"/memories?of={crowd}")
    expect(rows(reader)).to_have_count(50)
    expect(rows(reader).first).to_contain_text(f"Row {MANY - 1} ")
    for newest in (MANY - 51, MANY - 101):
        press(reader, "Older")
        expect(rows(reader).first).to_contain_text(f"Row {newest} ")
        expect(rows(reader).first).to_be_focused()
        expect(rows(reader)).to_have_count(50)
    press(reader, "Newer")
    expect(rows(reader).first).to_contain_text(f"Row {MANY - 51} ")


def test_among_very_many_memories_a_few_are_found_by_words_topics_agents_and_times(
    reader: Reader, crowd: str
) -> None:
    reader.open(f"/memories?of={crowd}&words=row+42042")
    expect(rows(reader)).to_have_count(1)
    expect(rows(reader)).to_contain_text("Row 42042 ")
    reader.open(f"/memories?of={crowd}&topic=user.thousand_98.")
    expect(rows(reader).first).to_contain_text("Row 98999 ")
    # More records are passed over than one look reads.
    reader.open(f"/memories?of={crowd}&agent=rare")
    expect(rows(reader)).to_have_count(1)
    expect(rows(reader)).to_contain_text(f"Row {RARE} ")
    # The last pages.
    reader.open(f"/memories?of={crowd}&until=2026-01-01T00:01:09Z")
    expect(rows(reader).first).to_contain_text("Row 69 ")
    press(reader, "Older")
    expect(rows(reader)).to_have_count(20)
    expect(rows(reader).last).to_contain_text("Row 0 ")
    expect(reader.page.get_by_role("button", name="Older")).to_have_count(0)


def test_very_many_memories_are_counted(reader: Reader, ada: httpx.Client, crowd: str) -> None:
    assert crowd
    reader.open("/overview")
    counts = ada.post("/v1/services/memory.overview.all").json()["counts"]
    facts = sum(count["active"] for count in counts if count["kind"] == "fact")

    assert facts >= MANY
    shown = reader.page.locator("tr", has=reader.page.locator(".swatch"), has_text="fact")
    expect(shown).to_contain_text(f"{facts:,}")
