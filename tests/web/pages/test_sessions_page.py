"""Sessions: conversations with their tools' outputs, what was shown before answers, and ratings."""

from collections.abc import Sequence
from datetime import timedelta
from functools import partial

import httpx
import pytest
from anyio.from_thread import start_blocking_portal
from playwright.sync_api import WebSocketRoute, expect

from browsers import PATIENCE, Reader
from commands import Served
from harness.fill import write_records
from holding import held
from http_servers import HttpServer, call
from local2.bus.connection import Connection, connect
from local2.bus.streams import publish_durably
from local2.client.access import ask_service
from local2.ledger.records import NewRecord
from local2.memory.browsing import Browsing
from local2.protocol.envelope import Sender, encode, seal, utc_now
from local2.protocol.memory_tools import MAX_LIMIT
from local2.protocol.payloads import Generation, ToolCallRecord
from local2.protocol.services import SHOWN
from local2.protocol.showings import MAX_SHOWINGS, FindShowings
from local2.protocol.subjects import RESPONSE_GENERATION
from local2.web.pages.sessions import SHOWN_MESSAGES
from waiting import eventually, wait_until

SESSION = "harbour-talk"
CONTENT = "Ada's harbour is Genoa."
ADA = Sender(user="ada")


@pytest.fixture(scope="module")
def turn(ada: httpx.Client, page_stack: Served) -> Generation:
    """A turn with a tool's output, whose agent had been shown a memory."""
    fact = call(ada, "remember_fact", content=CONTENT, scope="user")["data"]["id"]
    made = Generation(
        query="Which harbour do I use? <img src=x onerror=alert(1)>",
        answer="You use Genoa.",
        session_id=SESSION,
        query_id="harbour-query",
        tool_calls=[ToolCallRecord(name="weather", content="Genoa: 21 degrees.", id="call-1")],
        shown=[fact],
    )

    store(page_stack, [made])
    return made


def store(running: Served, turns: Sequence[Generation]) -> None:
    """Publish ada's turns, and wait until the memory has stored them."""

    async def publish() -> None:
        async with connect(running.url, name="test") as bus:
            for turn in turns:
                message = seal(turn, type="response", source="agent", user="ada")
                await publish_durably(bus, RESPONSE_GENERATION, encode(message))
            for turn in turns:
                await eventually(partial(is_stored, bus, turn))

    with start_blocking_portal() as portal:  # Playwright has the loop of this thread
        portal.call(publish)


async def is_stored(bus: Connection, turn: Generation) -> bool:
    page = await ask_service(bus, SHOWN, FindShowings(query_id=turn.query_id), ADA)
    return bool(page.showings)


def withhold_events(socket: WebSocketRoute) -> None:
    """Let the server answer as before, but not to what the reader does."""
    server = socket.connect_to_server()
    socket.on_message(lambda message: None if '"event"' in str(message) else server.send(message))


def is_rated(ada: httpx.Client, answer: str) -> bool:
    """Whether the memory has stored the rating of this answer."""
    body = {"words": answer, "kinds": ["chat_message"]}
    (found,) = ada.post("/v1/services/memory.browse", json=body).json()["memories"]
    return bool(found.get("score"))


def test_a_conversation_shows_tools_outputs_and_what_was_shown_before_an_answer(
    reader: Reader, turn: Generation
) -> None:
    reader.open(f"/sessions?id={SESSION}")
    chat = reader.page.locator(".section")
    expect(chat).to_contain_text(turn.query)
    expect(chat).to_contain_text(turn.answer)

    chat.get_by_text("Answer of weather").click()
    expect(chat).to_contain_text("Genoa: 21 degrees.")
    shown = chat.locator(".of-turn")
    shown.get_by_text("Shown before this answer: 1").click()
    shown.get_by_role("button", name=CONTENT).click()
    expect(reader.page.get_by_role("dialog")).to_contain_text(CONTENT)


@pytest.mark.usefixtures("turn")
def test_what_opens_waits_for_no_answer_of_the_server(reader: Reader, pages: HttpServer) -> None:
    """Else what is below moves under the pointer later, and a click that began there is lost."""
    with reader.page.context.new_page() as page:
        page.route_web_socket("**/socket.io/**", withhold_events)
        other = Reader(page, pages.url)
        other.open(f"/sessions?id={SESSION}")
        for line, content in (("Answer of weather", "21 degrees."), ("Shown before", CONTENT)):
            page.get_by_text(line).click()
            expect(page.locator(".section").get_by_text(content)).to_be_visible()
        assert not other.problems


def test_an_open_conversation_stays_as_it_is_if_it_is_chosen_again(
    reader: Reader, turn: Generation
) -> None:
    reader.open(f"/sessions?id={SESSION}&user=ada")
    said = reader.page.locator(".message", has_text=turn.answer)
    said.evaluate("element => element.dataset.kept = 'yes'")

    reader.page.locator(".list-row[aria-current=true]").click()
    reader.page.get_by_role("button", name="Good answer").click()

    expect(reader.page.locator(".notices")).to_contain_text("Rated.")
    expect(said).to_have_attribute("data-kept", "yes")


def test_a_conversation_is_not_overtaken_by_one_that_was_chosen_earlier(
    reader: Reader, ada: httpx.Client
) -> None:
    for where in ("quay", "pier"):
        said = [{"role": "user", "content": f"I am on the {where}."}]
        call(ada, "ingest", messages=said, session_id=where)
    reader.open(f"/sessions?id={SESSION}&user=ada")
    rows, chat = reader.page.locator(".list-row"), reader.page.locator(".section")
    with held(Browsing, "page") as is_asked:
        rows.filter(has_text="quay").click()
        assert is_asked.wait(PATIENCE / 1_000)
        rows.filter(has_text="pier").click()
        expect(chat).to_contain_text("I am on the pier.")

    reader.page.keyboard.press("?")  # the server opens it, and has shown before what was late
    expect(reader.page.get_by_role("dialog")).to_contain_text("Keys")
    expect(chat).to_contain_text("I am on the pier.")
    expect(reader.page.locator(".list-row[aria-current=true]")).to_contain_text("pier")


def test_sessions_are_listed_page_by_page(
    reader: Reader, page_stack: Served, turn: Generation
) -> None:
    soon = utc_now() + timedelta(minutes=1)
    later = [
        NewRecord(
            id=f"berth-{number}",
            kind="transcript",  # it is not indexed
            owner="ada",
            session_id=f"berth-{number}",
            role="user",
            content=f"Berth {number} is free.",
            event_time=soon + timedelta(seconds=number),
        )
        for number in range(51)
    ]
    with start_blocking_portal() as portal:  # Playwright has the loop of this thread
        portal.call(write_records, page_stack.folder / ".local2", later)
    reader.open("/sessions")
    listed = reader.page.locator(".list-row")
    expect(listed).to_have_count(50)
    expect(listed.first).to_contain_text("berth-50")
    expect(reader.page.locator(".list-row[aria-current=true]")).to_contain_text("berth-50")

    reader.page.get_by_role("button", name="Older").click()
    expect(listed.first).to_contain_text("berth-0")
    listed.filter(has_text=SESSION).click()
    expect(reader.page.locator(".section")).to_contain_text(turn.answer)
    reader.check_accessibility()
    reader.page.get_by_role("button", name="Newer").click()
    expect(listed.first).to_contain_text("berth-50")

    reader.open(f"/sessions?id={SESSION}")  # it is on the second page
    expect(reader.page.locator(".section")).to_contain_text(turn.answer)


def test_a_long_conversation_is_read_page_by_page(reader: Reader, page_stack: Served) -> None:
    spoken = [
        NewRecord(
            id=f"tide-{number}",
            kind="transcript",  # it is not indexed
            owner="ada",
            session_id="tides",
            role="user",
            content=f"Tide {number} is in.",
            event_time=utc_now() - timedelta(days=1) + timedelta(seconds=number),
        )
        for number in range(MAX_LIMIT + 1)
    ]
    with start_blocking_portal() as portal:
        portal.call(write_records, page_stack.folder / ".local2", spoken)
    reader.open("/sessions?id=tides&user=ada")
    messages = reader.page.locator(".message")
    pages = [range(end, end - SHOWN_MESSAGES, -1) for end in range(MAX_LIMIT, 0, -SHOWN_MESSAGES)]
    for page in pages:
        if page is not pages[0]:
            reader.page.get_by_role("button", name="Earlier messages").click()
        expect(messages.first).to_contain_text(f"Tide {page[-1]} is in.")
        expect(messages.last).to_contain_text(f"Tide {page[0]} is in.")
    reader.page.get_by_role("button", name="Later messages").click()
    expect(messages.last).to_contain_text(f"Tide {pages[-2][0]} is in.")
    reader.page.get_by_role("button", name="Earlier messages").click()

    reader.page.get_by_role("link", name="Read all").click()
    expect(reader.page.get_by_label("Session")).to_have_value("tides")


def test_earlier_messages_have_what_was_shown_before_them_and_their_ratings(
    ada: httpx.Client, reader: Reader, page_stack: Served
) -> None:
    fact = call(ada, "remember_fact", content="Ada rows on Sundays.", scope="user")["data"]["id"]
    turns = [
        Generation(
            query=f"What of boat {number}?",
            answer=f"Boat {number} is ashore.",
            session_id="boats",
            query_id=f"boat-{number}",
            shown=[fact],
        )
        for number in range(max(MAX_SHOWINGS, SHOWN_MESSAGES // 2) + 1)
    ]
    store(page_stack, turns)
    first = reader.page.locator(".message", has_text="Boat 0 is ashore.")
    of_turn = first.locator("+ .of-turn")

    def open_earliest() -> None:
        reader.open("/sessions?id=boats&user=ada")
        for _ in range(2 * len(turns) // SHOWN_MESSAGES):
            reader.page.get_by_role("button", name="Earlier messages").click()
            expect(reader.page.get_by_role("button", name="Later messages")).to_be_visible()
        expect(first).to_be_visible()

    open_earliest()
    expect(of_turn).to_contain_text("Shown before this answer: 1")
    of_turn.get_by_role("button", name="Good answer").click()
    expect(of_turn).to_contain_text("rated +1")
    wait_until(lambda: is_rated(ada, "Boat 0 is ashore."))
    open_earliest()
    expect(of_turn.get_by_text("rated +1")).to_be_visible()


def test_an_answer_is_rated_and_the_rating_stays(
    ada: httpx.Client, reader: Reader, turn: Generation
) -> None:
    reader.open(f"/sessions?id={SESSION}")
    reader.page.get_by_role("button", name="Good answer").click()

    expect(reader.page.locator(".of-turn")).to_contain_text("rated +1")
    expect(reader.page.locator(".notices")).to_contain_text("Rated.")
    wait_until(lambda: is_rated(ada, turn.answer))
    reader.open(f"/sessions?id={SESSION}")
    expect(reader.page.get_by_text("rated +1")).to_be_visible()


def test_a_question_is_asked_again_from_its_answer(reader: Reader, turn: Generation) -> None:
    reader.open(f"/sessions?id={SESSION}")
    reader.page.get_by_role("link", name="Ask this again").click()

    reader.page.wait_for_url("**/ask?**")
    expect(reader.page.get_by_label("Question")).to_have_value(turn.query)
