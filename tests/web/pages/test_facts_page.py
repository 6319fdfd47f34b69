"""Facts: a timeline by owner, and contradictions that are settled."""

from collections.abc import Iterator

import httpx
import pytest
from playwright.sync_api import expect

from browsers import PATIENCE, Reader
from holding import held
from http_servers import HttpServer, call
from local2.memory.relations import Relations

MAST = "The mast is made of spruce."
OTHER_MAST = "The mast is made of carbon. <b onclick=alert(1)>x</b>"


@pytest.fixture(scope="module")
def mia(pages: HttpServer) -> Iterator[httpx.Client]:
    """Another user, who has stated two facts that contradict each other, twice."""
    with pages.client(**{"Local2-User": "mia"}) as client:
        for older, newer in ((MAST, OTHER_MAST), ("The sail is red.", "The sail is blue.")):
            first, second = [
                str(call(client, "remember_fact", content=content, scope="user")["data"]["id"])
                for content in (older, newer)
            ]
            call(client, "relate", source=second, type="contradicts", target=first)
        yield client


def test_the_facts_of_an_owner_are_a_timeline(reader: Reader, mia: httpx.Client) -> None:
    call(mia, "save_topic", topic="user.port", content="Genoa")
    call(mia, "save_topic", topic="user.port", content="Nice")
    reader.open("/facts?owner=mia")

    timeline = reader.page.locator(".timeline")
    expect(timeline.locator("li").first).to_contain_text("Nice")
    expect(timeline.locator("li.past")).to_contain_text("replaced")
    expect(timeline).to_contain_text(OTHER_MAST)
    reader.check_accessibility()
    timeline.get_by_role("button", name="Nice").click()
    expect(reader.page.get_by_role("dialog")).to_contain_text("user.port")


@pytest.mark.usefixtures("mia")
def test_a_choice_is_not_overtaken_by_the_answer_to_an_earlier_one(
    reader: Reader, pages: HttpServer
) -> None:
    with pages.client(**{"Local2-User": "noa"}) as noa:
        call(noa, "remember_fact", content="Noa rows.", scope="user")
    reader.open("/facts")
    timeline, choice = reader.page.locator(".timeline"), reader.page.get_by_role("combobox")
    with held(Relations, "of") as is_asked:
        choice.click()
        reader.page.get_by_role("option", name="mia").click()
        assert is_asked.wait(PATIENCE / 1_000)
        choice.click()
        reader.page.get_by_role("option", name="noa").click()
        expect(timeline).to_contain_text("Noa rows.")

    reader.page.get_by_role("button", name="Noa rows.").click()
    expect(reader.page.get_by_role("dialog")).to_contain_text("Noa rows.")
    expect(timeline).to_contain_text("Noa rows.")


@pytest.mark.usefixtures("mia")
def test_a_contradiction_is_settled_either_way_and_brought_back(reader: Reader) -> None:
    reader.open("/facts?owner=mia")
    waiting = reader.page.locator(".section", has_text="Waiting for a decision")
    expect(waiting.locator(".contradiction")).to_have_count(2)

    later = waiting.locator(".contradiction").first.locator(".panel").last
    later.get_by_role("button", name="This holds").click()
    expect(waiting.locator(".contradiction")).to_have_count(1)
    reader.page.get_by_role("button", name="Undo").click()
    expect(waiting.locator(".contradiction")).to_have_count(2)
    earlier = waiting.locator(".contradiction").last.locator(".panel").first
    earlier.get_by_role("button", name="This holds").click()
    expect(waiting.locator(".contradiction")).to_have_count(1)

    reader.open("/facts?owner=mia")
    expect(waiting.locator(".contradiction")).to_have_count(1)
    expect(waiting.get_by_text("The sail")).to_have_count(2)


def test_contradictions_are_settled_one_after_another_with_keys_alone(
    reader: Reader, mia: httpx.Client
) -> None:
    for older, newer in (("The keel is iron.", "The keel is lead."), ("One oar.", "Two oars.")):
        first, second = [
            str(call(mia, "remember_fact", content=content, scope="user")["data"]["id"])
            for content in (older, newer)
        ]
        call(mia, "relate", source=second, type="contradicts", target=first)
    reader.open("/facts?owner=mia")
    waiting = reader.page.locator(".contradiction")
    number = waiting.count()
    reader.page.get_by_role("combobox").focus()
    reader.page.keyboard.press("Tab")
    for left in range(number - 1, -1, -1):
        expect(waiting.first.get_by_role("button").first).to_be_focused()
        reader.page.keyboard.press("Enter")
        expect(waiting).to_have_count(left)


def test_a_fact_that_a_message_denies_still_holds_once_it_is_stated_again(
    reader: Reader, mia: httpx.Client
) -> None:
    fact = call(mia, "remember_fact", content="Mia has a dinghy.", scope="user")["data"]["id"]
    said = [{"role": "user", "content": "I have no dinghy."}]
    message = call(mia, "ingest", messages=said, session_id="denial")["data"]["ids"][0]
    call(mia, "relate", source=message, type="contradicts", target=fact)
    reader.open("/facts?owner=mia")
    denied = reader.page.locator(".contradiction", has_text="Mia has a dinghy.")
    expect(denied).to_contain_text("I have no dinghy.")

    denied.locator(".panel", has_text="Stands").get_by_role("button", name="This holds").click()

    expect(denied).to_have_count(0)
