"""Other teams' tools may answer on `tool.result.<tool>` alone, as the protocol allows."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec
import pytest

from calling import RICHARD
from factories import ConnectBus
from local2.bus import connection
from local2.bus.connection import BusMessage, Connection
from local2.bus.tool_calls import RELIED_ON_AGAIN
from local2.bus.tool_host import ToolHost
from local2.client.tools import call_tool
from local2.protocol.envelope import Sender
from local2.protocol.payloads import ToolResult
from note_tool import Notes
from waiting import eventually

IN_TURN = msgspec.structs.replace(RICHARD, query_id="q1")

Answer = Callable[[dict[str, Any]], Awaitable[None]]
Serve = Callable[[Answer], Awaitable[Connection]]


@pytest.fixture
async def serve(connect_bus: ConnectBus) -> Serve:
    """Serve `weather` from another connection, passing each request to `answer`."""

    async def start(answer: Answer) -> Connection:
        theirs = await connect_bus()

        async def pass_to_answer(message: BusMessage) -> None:
            await answer({**json.loads(message.data), "reply": message.reply})

        await theirs.subscribe("tool.request.weather", pass_to_answer)
        await theirs.flush()
        return theirs

    return start


async def publish(bus: Connection, payload: object, **envelope: object) -> None:
    message = json.dumps({**envelope, "payload": payload}).encode()
    await bus.publish("tool.result.weather", message)


async def weather(
    bus: Connection, city: str = "Berlin", *, caller: Sender = RICHARD, **options: Any
) -> ToolResult:
    return await call_tool(bus, "weather", {"city": city}, caller=caller, **options)


def subscriptions(bus: Connection) -> set[str]:
    return {each.subject for each in bus.client._subs.values() if "_INBOX" not in each.subject}


@pytest.mark.parametrize("names", [("correlation_id", "id"), ("correlation_id", "correlation_id")])
async def test_a_result_that_is_only_published_answers_the_call(
    bus: Connection, serve: Serve, names: tuple[str, str]
) -> None:
    async def answer(request: dict[str, Any]) -> None:
        await publish(theirs, {"content": "Sunny."}, **{names[0]: request[names[1]]})

    theirs = await serve(answer)

    for _ in range(3):
        assert await weather(bus) == ToolResult(ok=True, content="Sunny.")
    assert subscriptions(bus) == set()


async def test_concurrent_calls_share_one_subscription_and_each_gets_its_own_result(
    bus: Connection, serve: Serve
) -> None:
    """With a subscription per call, every call would receive every result."""
    requests: list[dict[str, Any]] = []
    subscribed: list[str] = []

    async def answer(request: dict[str, Any]) -> None:
        requests.append(request)
        if len(requests) == 20:
            subscribed.extend(each.subject for each in bus.client._subs.values())
            for one in reversed(requests):
                await publish(theirs, one["payload"]["args"]["city"], correlation_id=one["id"])

    theirs = await serve(answer)

    cities = [f"City {number}" for number in range(20)]
    results = await asyncio.gather(*(weather(bus, city) for city in cities))
    assert [result.content for result in results] == cities
    assert subscribed.count("tool.result.weather") == 1
    assert subscriptions(bus) == set()


@pytest.mark.parametrize("where", ["envelope", "payload"])
async def test_a_result_without_correlation_id_is_matched_by_session_and_query(
    bus: Connection, serve: Serve, where: str
) -> None:
    async def answer(request: dict[str, Any]) -> None:
        await publish(theirs, {"result": "Rain."}, session_id="s1", query_id="another")
        await publish(theirs, {"result": "Fog."}, session_id="s1", query_id="q1", user="ada")
        await publish(theirs, {"result": "Snow."})
        turn = {name: request[name] for name in ("session_id", "query_id")}
        if where == "payload":
            await publish(theirs, {"result": "Sunny.", **turn})
        else:
            await publish(theirs, {"result": "Sunny."}, **turn)

    theirs = await serve(answer)

    assert (await weather(bus, caller=IN_TURN)).content == "Sunny."


async def test_results_that_match_two_calls_are_given_to_neither(
    bus: Connection, serve: Serve
) -> None:
    async def answer(request: dict[str, Any]) -> None:
        requests.append(request)
        if len(requests) == 2:
            for one in requests:
                city = one["payload"]["args"]["city"]
                await publish(theirs, city, session_id="s1", query_id="q1")

    requests: list[dict[str, Any]] = []
    theirs = await serve(answer)

    results = await asyncio.gather(
        *(weather(bus, city, caller=IN_TURN, timeout=0.5) for city in ("Berlin", "Oslo"))
    )

    for result in results:
        assert result.error is not None
        assert result.error.code == "unavailable"
        assert "did not name the request" in result.error.message


async def test_the_result_of_another_callers_request_is_ignored(
    bus: Connection, serve: Serve
) -> None:
    async def answer(request: dict[str, Any]) -> None:
        await publish(theirs, "Rain.", correlation_id="another", session_id="s1")
        await publish(theirs, "Sunny.", correlation_id=request["id"])

    theirs = await serve(answer)

    assert (await weather(bus)).content == "Sunny."


async def test_the_result_subject_of_a_tool_that_replies_is_subscribed_only_once(
    bus: Connection, serve: Serve
) -> None:
    async def answer(request: dict[str, Any]) -> None:
        subscribed.append(subscriptions(bus))
        await theirs.publish(request["reply"], b'{"payload": {"content": "Sunny."}}')

    subscribed: list[set[str]] = []
    theirs = await serve(answer)

    assert [(await weather(bus)).content for _ in range(3)] == ["Sunny."] * 3
    assert subscribed == [{"tool.result.weather"}, set(), set()]


async def test_the_result_subject_is_subscribed_again_when_a_tool_stops_replying(
    bus: Connection, serve: Serve
) -> None:
    async def answer(request: dict[str, Any]) -> None:
        if request["payload"]["args"]["city"] == "Berlin":
            await theirs.publish(request["reply"], b'"Sunny."')
        else:
            await publish(theirs, "Rain.", correlation_id=request["id"])

    theirs = await serve(answer)

    assert (await weather(bus)).content == "Sunny."
    assert not (await weather(bus, "Oslo", timeout=0.1)).ok
    assert (await weather(bus, "Oslo")).content == "Rain."
    assert (await weather(bus)).content == "Sunny."
    assert (await weather(bus, "Oslo")).content == "Rain."


async def test_a_tool_that_failed_to_reply_once_is_relied_on_again(
    bus: Connection, serve: Serve
) -> None:
    async def answer(request: dict[str, Any]) -> None:
        subscribed.append(subscriptions(bus))
        if request["payload"]["args"]["city"] == "Berlin":
            await theirs.publish(request["reply"], b'"Sunny."')

    subscribed: list[set[str]] = []
    theirs = await serve(answer)

    assert (await weather(bus)).ok
    assert not (await weather(bus, "Oslo", timeout=0.1)).ok
    listening = {"tool.result.weather"}
    assert [(await weather(bus)).ok for _ in range(RELIED_ON_AGAIN)] == [True] * RELIED_ON_AGAIN
    assert (await weather(bus)).ok
    assert subscribed == [listening, set(), *[listening] * RELIED_ON_AGAIN, set()]


async def test_a_tool_whose_first_reply_is_late_still_counts_as_replying(
    bus: Connection, serve: Serve
) -> None:
    async def answer(request: dict[str, Any]) -> None:
        subscribed.append(subscriptions(bus))
        if len(subscribed) == 1:
            await publish(theirs, "Sunny.", correlation_id=request["id"])
        else:
            await theirs.publish(request["reply"], b'"Sunny."')

    subscribed: list[set[str]] = []
    theirs = await serve(answer)

    assert [(await weather(bus)).content for _ in range(3)] == ["Sunny."] * 3
    assert subscribed == [{"tool.result.weather"}, {"tool.result.weather"}, set()]


async def test_an_abandoned_call_leaves_no_subscription(bus: Connection, serve: Serve) -> None:
    async def answer(request: dict[str, Any]) -> None:
        requests.append(request)

    requests: list[dict[str, Any]] = []
    await serve(answer)
    call = asyncio.create_task(weather(bus))
    await eventually(lambda: requests)
    assert subscriptions(bus) == {"tool.result.weather"}

    call.cancel()
    await asyncio.wait((call,))
    assert subscriptions(bus) == set()

    result = await weather(bus, timeout=0.05)
    assert result.error is not None
    assert result.error.message == "The tool 'weather' did not answer within 0.05 s."
    assert subscriptions(bus) == set()


async def test_a_call_outlasts_a_moment_without_the_tool(
    bus: Connection, connect_bus: ConnectBus, notes: Notes, refused: asyncio.Event
) -> None:
    serving = await connect_bus()

    async def replied() -> bool:
        """Whether it is known that the tool replies: its published result may arrive first."""
        assert (await call_tool(bus, "note", {"text": "a"}, caller=RICHARD)).ok
        return bus.tool_calls._replies.get("note", 0) > 0

    async with ToolHost(serving, notes.tool()):
        await eventually(replied)
    notes.noted.clear()
    calling = asyncio.create_task(call_tool(bus, "note", {"text": "b"}, caller=RICHARD, timeout=60))
    await refused.wait()
    async with ToolHost(serving, notes.tool()):
        assert (await calling).ok

    assert [text for _, text in notes.noted] == ["b"]


@pytest.mark.parametrize("has_replied", [True, False])
async def test_a_tool_that_stays_away_is_unknown(
    bus: Connection, notes: Notes, monkeypatch: pytest.MonkeyPatch, *, has_replied: bool
) -> None:
    monkeypatch.setattr(connection, "INTERRUPTION", 0.01 if has_replied else 60.0)
    async with ToolHost(bus, notes.tool()):
        if has_replied:
            assert (await call_tool(bus, "note", {"text": "a"}, caller=RICHARD)).ok

    result = await call_tool(bus, "note", {"text": "b"}, caller=RICHARD, timeout=60)

    assert result.outcome == "unknown_tool"
