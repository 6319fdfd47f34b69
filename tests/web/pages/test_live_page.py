"""Live shows what passes by on the bus, filtered and paused, and one request as a waterfall."""

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import count

import httpx
import msgspec
import pytest
from anyio.from_thread import start_blocking_portal
from playwright.sync_api import Locator, expect

from browsers import Reader
from commands import Served
from failing import publish_turns
from http_servers import call
from local2.bus.connection import connect
from local2.protocol import subjects
from local2.protocol.envelope import Envelope, encode, new_id, seal
from local2.web.pages.live import Seen, time_of_id, waterfall_of

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
TURN = {
    "source": "guide",
    "query_id": "live1",
    "payload": {"query": "Who paints <img src=x onerror=alert(1)>?", "answer": "Ada."},
}


PLACES = (0, 1, 9, 19)
"""Rows that are clicked while others come: a new one moves each of them."""


class Streamed(msgspec.Struct):
    number: int


def test_what_is_published_appears_and_is_filtered(ada: httpx.Client, reader: Reader) -> None:
    reader.open("/live")
    expect(reader.page.get_by_text("Nothing passes by.")).to_be_visible()

    call(ada, "remember_fact", content="Ada grows beans.", scope="user")
    rows = reader.page.locator("[data-row]")
    result = rows.filter(has_text="tool.result.remember_fact")
    expect(result).to_have_count(1)
    expect(rows.filter(has_text="memory.saved")).not_to_have_count(0)
    reader.check_accessibility()

    reader.page.get_by_label("Filter").fill("remember_fact ok")
    expect(rows).to_have_count(1)
    expect(reader.page).to_have_url(re.compile("words=remember_fact"))


def test_a_paused_page_says_how_much_has_passed(ada: httpx.Client, reader: Reader) -> None:
    reader.open("/live")
    reader.page.get_by_label("Filter").focus()
    reader.page.keyboard.press("Tab")
    pause = reader.page.get_by_role("button", name="Pause")
    expect(pause).to_be_focused()
    expect(pause).not_to_have_css("box-shadow", "none")  # it shows that it has the focus
    reader.page.keyboard.press("Enter")

    call(ada, "remember_fact", content="Ada grows peas.", scope="user")
    expect(reader.page.get_by_text("shown when you go on")).to_be_visible()
    expect(reader.page.locator("[data-row]")).to_have_count(0)

    reader.page.get_by_role("button", name="Go on").click()
    expect(reader.page.locator("[data-row]", has_text="remember_fact")).to_have_count(1)


def test_a_request_is_drawn_as_a_waterfall(page_stack: Served, reader: Reader) -> None:
    reader.open("/live")
    publish_turns(page_stack, TURN)
    rows = reader.page.locator("[data-row]")
    rows.filter(has_text="response.generation").click()

    drawer = reader.page.locator(".drawer")
    expect(drawer).to_contain_text("onerror=alert(1)")
    expect(drawer.locator(".waterfall li")).to_contain_text(["response.generation"])
    reader.check_accessibility()


@pytest.fixture
def stream(page_stack: Served) -> Iterator[None]:
    """Messages that pass by, 20 in a second."""

    async def publish(end: asyncio.Event) -> None:
        numbers = count()
        async with connect(page_stack.url, name="test") as bus:
            while not end.is_set():
                payload = Streamed(number=next(numbers))
                await bus.publish(
                    subjects.MEMORY_SAVED, encode(seal(payload, type="event", source="test"))
                )
                await asyncio.sleep(0.05)

    with start_blocking_portal() as portal:  # Playwright has the loop of this thread
        end = portal.call(asyncio.Event)
        publishing = portal.start_task_soon(publish, end)
        yield
        portal.call(end.set)
        publishing.result()


@pytest.mark.usefixtures("stream")
def test_rows_can_be_clicked_and_keep_the_focus_while_messages_come(reader: Reader) -> None:
    reader.open("/live")
    rows = reader.page.locator("[data-row]")
    drawer = reader.page.locator(".drawer")
    for place in PLACES:
        newest = words_of(rows.first)
        expect(rows.first).not_to_contain_text(newest)  # they flow
        rows.nth(place).hover()
        aimed = words_of(reader.page.locator("[data-row]:hover"))
        reader.page.mouse.down()
        reader.page.mouse.up()
        expect(drawer.locator("pre")).to_have_text(aimed)
        reader.page.keyboard.press("Escape")
        expect(drawer).to_have_count(0)
        expect(rows.filter(has_text=aimed)).to_be_focused()
        reader.page.mouse.move(0, 0)
        if place != PLACES[-1]:
            reader.page.locator("h1").click()
    more = reader.page.get_by_text("shown when you leave the table")
    expect(more).to_have_text(re.compile("[3-9][0-9] more"))
    expect(rows.filter(has_text=aimed)).to_be_focused()


def words_of(row: Locator) -> str:
    """The last cell of a row, which tells it from others."""
    return row.locator("td").last.inner_text()


def seen(subject: str, milliseconds: int, correlation_id: str | None = None) -> Seen:
    return Seen(
        number=milliseconds,
        at=NOON + timedelta(milliseconds=milliseconds),
        subject=subject,
        payload="{}",
        envelope=Envelope(payload=None, query_id="q1", correlation_id=correlation_id),
    )


def id_at(milliseconds: int) -> str:
    """A UUIDv7 that was made so long after noon."""
    since_1970 = int(NOON.timestamp() * 1_000) + milliseconds
    return f"{since_1970:012x}7{'0' * 3}8{'0' * 15}"


def test_a_waterfall_has_a_line_for_each_call_and_one_for_the_streamed_answer() -> None:
    waterfall = waterfall_of(
        [
            seen("query.received", 0),
            seen("tool.result.recall", 90, id_at(20)),
            seen("response.delta", 100),
            seen("response.delta", 140),
            seen("response.generation", 150, "no UUID"),
        ]
    )

    lines = [
        (
            line.name,
            round((line.begin - NOON).total_seconds() * 1_000),
            round((line.end - NOON).total_seconds() * 1_000),
        )
        for line in waterfall
    ]
    assert lines == [
        ("query.received", 0, 0),
        ("tool.result.recall", 20, 90),
        ("answer, streamed", 100, 140),
        ("response.generation", 150, 150),
    ]


@pytest.mark.parametrize("id_", ["", "q1", "3d813cbb-47fb-42ba-91df-831e1593ac29"])
def test_only_some_ids_have_a_time(id_: str) -> None:
    made = time_of_id(new_id())

    assert made is not None
    assert abs(made - datetime.now(UTC)) < timedelta(hours=1)
    assert time_of_id(id_) is None
