"""Ask: what a question finds, what scores are made of, why not another memory, and comparisons."""

import re
from typing import NamedTuple

import httpx
import pytest
from playwright.sync_api import expect

from browsers import Reader
from http_servers import HttpServer, call
from local2.bus.vector_client import VectorClient
from local2.errors import VectorError
from local2.memory.recall.ranking import Shares
from local2.web.pages.ask import PARTS, as_curl, as_nats, as_python

QUESTION = "Where is the yacht Calypso moored?"


class Yacht(NamedTuple):
    """The ids of memories about a yacht."""

    moored: str
    heavy: str
    retired: str


@pytest.fixture(scope="module")
def yacht(ada: httpx.Client) -> Yacht:
    ids = [
        str(call(ada, "remember_fact", content=content, scope="user")["data"]["id"])
        for content in (
            "The yacht Calypso is moored in Genoa.",
            "The yacht Calypso weighs nine tons. <script>alert(1)</script>",
            "The yacht Calypso is moored in Nice.",
        )
    ]
    call(ada, "retire_fact", ids=[ids[2]], reason="It has left.")
    return Yacht(*ids)


def test_a_question_shows_what_is_found_with_the_parts_of_its_scores(
    reader: Reader, yacht: Yacht
) -> None:
    assert yacht.moored
    reader.open("/ask")
    expect(reader.page.locator(".empty")).to_contain_text("Ask as an agent would.")
    reader.page.get_by_label("Question").fill(QUESTION)
    reader.page.get_by_role("button", name="Ask", exact=True).click()

    first = reader.page.locator(".answers > li").first
    expect(first).to_contain_text("The yacht Calypso is moored in Genoa.")
    expect(first.locator(".parts")).to_contain_text(re.compile(r"meaning \+[01]\.\d\d"))
    widths = first.locator(".score-bar span").evaluate_all("all => all.map(one => one.offsetWidth)")
    assert sum(widths) > 100
    expect(reader.page).to_have_url(re.compile(r"/ask\?q=Where\+is"))
    reader.check_accessibility()
    first.get_by_role("button").click()
    expect(reader.page.get_by_role("dialog")).to_contain_text("moored in Genoa")


def test_with_a_dead_worker_a_question_is_answered_by_words_and_the_pages_say_so(
    reader: Reader, yacht: Yacht, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise VectorError("The vector worker is gone.")

    assert yacht.moored
    monkeypatch.setattr(VectorClient, "search", fail)
    monkeypatch.setattr(VectorClient, "status", fail)
    reader.open(f"/ask?q={QUESTION}")
    expect(reader.page.locator(".page-content .banner")).to_contain_text(
        "The search was incomplete"
    )
    expect(reader.page.locator(".answers").first).to_contain_text("moored in Genoa")
    reader.open("/overview")
    health = reader.page.locator(".finding.broken")
    expect(health.first).to_contain_text("The vector worker is gone.")
    reader.check_accessibility()


def test_every_part_of_a_score_is_explained(reader: Reader, yacht: Yacht) -> None:
    assert {*PARTS} == {*Shares.__struct_fields__}
    assert yacht.moored
    reader.open(f"/ask?q={QUESTION}")

    reader.page.get_by_text("What the parts of a score are").click()

    expect(reader.page.get_by_text(PARTS["meaning"])).to_be_visible()


def test_any_memory_is_asked_about_by_its_words_or_its_id(reader: Reader, yacht: Yacht) -> None:
    reader.open(f"/ask?q={QUESTION}&top_k=1")
    asked = reader.page.get_by_label("Id or words")

    asked.fill("nine tons")
    asked.press("Enter")
    why = reader.page.locator(".section", has_text="Why not this one?")
    expect(why).to_contain_text("took the places. It ranks as number")
    asked.fill(yacht.retired)
    asked.press("Enter")
    expect(why).to_contain_text("It was withdrawn.")
    expect(why.locator(".answers > li")).to_have_count(1)


def test_two_settings_are_compared_and_the_address_keeps_both(reader: Reader, yacht: Yacht) -> None:
    assert yacht.moored
    reader.open(f"/ask?q={QUESTION}")
    reader.page.get_by_role("button", name="Compare").click()
    columns = reader.page.locator(".answer-column")
    expect(columns).to_have_count(2)

    slider = columns.nth(1).get_by_role("slider", name="As of this day")
    slider.focus()
    slider.press("ArrowLeft")
    expect(columns.nth(1)).to_contain_text("As of the end of")
    expect(reader.page).to_have_url(re.compile("as_of2="))
    expect(slider).to_be_focused()
    expect(slider).to_have_value("-1")
    expect(columns.nth(1)).to_contain_text("Nothing is found in this setting.")
    expect(columns.nth(0)).to_contain_text("not on the other side")
    expect(reader.page).to_have_url(re.compile("compare=1.*as_of2=20"))
    reader.page.reload()
    expect(columns.nth(1)).to_contain_text("Nothing is found in this setting.")
    reader.check_accessibility()


def test_another_user_finds_and_opens_what_that_user_sees(
    reader: Reader, yacht: Yacht, pages: HttpServer
) -> None:
    assert yacht.moored
    with pages.client(**{"Local2-User": "eve"}) as eve:
        call(eve, "remember_fact", content="Eve's yacht is moored in Bari.", scope="user")

    reader.open(f"/ask?q={QUESTION}&user=eve&scope=user")

    found = reader.page.locator(".answers > li")
    expect(found).to_have_count(1)
    found.get_by_role("button").click()
    expect(reader.page.get_by_role("dialog")).to_contain_text("moored in Bari")


def test_an_address_may_have_settings_that_cannot_be_chosen(reader: Reader) -> None:
    reader.open("/ask?top_k=7&min_relevance=0.3&compare=1&as_of2=yesterday")

    expect(reader.page.get_by_label("Results, at most").first).to_have_value("7")
    expect(reader.page.get_by_label("Score, at least").first).to_have_value("0.3 of the best")
    expect(reader.page.get_by_text("As of now")).to_have_count(2)


def test_a_question_is_copied_as_a_call(reader: Reader) -> None:
    reader.open("/ask?q=Where is Ada's yacht?&session=s1&scope=session")
    reader.page.get_by_role("button", name="Copy as").click()

    dialog = reader.page.get_by_role("dialog")
    expect(dialog).to_contain_text("Authorization: Bearer $TOKEN")
    expect(dialog).to_contain_text("nats req tool.request.recall")
    expect(dialog).to_contain_text("local2.connect(user='ada', session='s1')")


def test_copies_are_quoted_for_where_they_are_pasted() -> None:
    arguments = {"query": 'Ada\'s "yacht"; rm -rf $HOME', "scope": "session"}

    assert as_nats("ada", "", arguments).endswith(
        """'{"user":"ada","payload":{"args":{"query":"Ada'"'"'s \\"yacht\\"; rm -rf $HOME","""
        """"scope":"session"}}}'"""
    )
    assert "-H 'Local2-User: ada'" in as_curl("http://127.0.0.1:1", "ada", "", arguments)
    compile(as_python("ada", "s1", arguments), "copied", "exec")
