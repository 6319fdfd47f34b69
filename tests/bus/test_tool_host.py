"""A tool host answers every request with a result; each failure has a code."""

import asyncio
import hashlib
import json
import math
import re
from contextlib import AsyncExitStack
from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from nats.aio.subscription import Subscription as NatsSubscription

from calling import RICHARD, UNNAMED
from factories import Listen
from local2.bus import tool_host
from local2.bus.connection import BusMessage, Connection, connect
from local2.bus.tool_host import ToolHost
from local2.client.tools import call_tool
from local2.errors import NoRespondersError, StorageError
from local2.protocol.envelope import decode, utc_now
from local2.protocol.payloads import ToolHints, ToolResult
from local2.protocol.tool import may_wait
from note_tool import Notes
from waiting import eventually


async def ask(bus: Connection, request: object) -> BusMessage:
    data = request if isinstance(request, bytes) else json.dumps(request).encode()
    return await bus.request("tool.request.note", data)


@pytest.mark.usefixtures("host")
async def test_a_minimal_request_is_answered(bus: Connection, notes: Notes) -> None:
    answer = await ask(bus, {"payload": {"args": {"text": "hello"}}})

    envelope = decode(answer.data, ToolResult)
    assert envelope.payload == ToolResult(ok=True, content="Noted.", data={"text": "hello"})
    assert (envelope.type, envelope.source) == ("result", "note")
    assert envelope.id
    assert envelope.timestamp_utc is not None
    assert answer.headers is None
    assert notes.noted == [(UNNAMED, "hello")]


@pytest.mark.usefixtures("host")
async def test_the_envelope_determines_the_caller(bus: Connection, notes: Notes) -> None:
    await call_tool(bus, "note", {"text": "hello"}, caller=RICHARD)

    assert notes.noted == [(RICHARD, "hello")]


@pytest.mark.parametrize("field", ["user", "tenant", "agent", "session_id", "caller"])
@pytest.mark.usefixtures("host")
async def test_no_argument_can_choose_the_caller(bus: Connection, notes: Notes, field: str) -> None:
    result = await call_tool(bus, "note", {"text": "hello", field: "eve"}, caller=RICHARD)

    assert result.error is not None
    assert result.error.code == "invalid_arguments"
    assert f"`{field}`" in result.error.message
    assert notes.noted == []


@pytest.mark.usefixtures("host")
async def test_a_result_is_sent_to_the_caller_and_published(
    bus: Connection, listen: Listen
) -> None:
    published = await listen("tool.result.note")

    answer = await ask(
        bus,
        {
            "id": "r1",
            "user": "richard",
            "session_id": "s1",
            "query_id": "q1",
            "payload": {"args": {"text": "hello"}},
        },
    )
    await eventually(lambda: published)

    envelope = decode(answer.data, ToolResult)
    assert envelope.correlation_id == "r1"
    assert (envelope.user, envelope.session_id, envelope.query_id) == ("richard", "s1", "q1")
    assert [message.data for message in published] == [answer.data]


async def test_results_do_not_return_to_the_connection_they_are_published_over(
    bus: Connection, nats_url: str, notes: Notes, listen: Listen
) -> None:
    observed = await listen("tool.result.*")
    returned: list[BusMessage] = []

    async def receive(message: BusMessage) -> None:
        returned.append(message)

    async with (
        connect(nats_url, name="tools", no_echo=True) as tools,
        ToolHost(tools, notes.tool()),
    ):
        await tools.subscribe("tool.result.*", receive)
        await tools.flush()
        await ask(bus, {"payload": {"args": {"text": "hello"}}})
        await eventually(lambda: observed)
        await bus.publish("tool.result.theirs", b"{}")
        await eventually(lambda: returned)

    assert [message.subject for message in returned] == ["tool.result.theirs"]
    assert [message.subject for message in observed] == ["tool.result.note", "tool.result.theirs"]


@pytest.mark.usefixtures("host")
async def test_the_result_of_a_request_without_a_reply_inbox_is_published(
    bus: Connection, listen: Listen
) -> None:
    published = await listen("tool.result.note")

    await bus.publish("tool.request.note", b'{"id": "r2", "payload": {"args": {"text": "x"}}}')
    await bus.publish("tool.request.note", b'{"id": "r3", "payload": {"args": {"text": 7}}}')
    await bus.publish("tool.request.note", b'{"id": "r4"}')
    await bus.publish("tool.request.note", b'{"id": "r5", "deadline_utc": "soon", "payload": {}}')

    await eventually(lambda: len(published) == 4)
    results = {
        e.correlation_id: e.payload.ok for e in (decode(m.data, ToolResult) for m in published)
    }
    assert results == {"r2": True, "r3": False, "r4": False, "r5": False}


@pytest.mark.usefixtures("host")
async def test_a_tool_may_wait_while_its_caller_does(bus: Connection, notes: Notes) -> None:
    deadline = utc_now() + timedelta(days=1)
    payload = {"args": {"text": "x"}}
    for request in ({}, {"deadline_utc": deadline.isoformat()}):
        await ask(bus, {"payload": payload, **request})

    without, until_tomorrow = notes.could_wait
    assert without < 5 < until_tomorrow < timedelta(days=1).total_seconds()
    assert may_wait() == math.inf


@pytest.mark.parametrize(("reads", "outcome"), [(True, "deadline_exceeded"), (False, "ok")])
async def test_a_tool_that_only_reads_ends_when_its_caller_no_longer_waits(
    bus: Connection, notes: Notes, monkeypatch: pytest.MonkeyPatch, outcome: str, *, reads: bool
) -> None:
    """What writes goes on: its caller finds it done when it asks again."""
    left = 0.01
    monkeypatch.setattr(tool_host, "seconds_until", lambda _: left)
    notes.may_finish.clear()
    tool = msgspec.structs.replace(notes.tool(), annotations=ToolHints(read_only_hint=reads))
    request = {"payload": {"args": {"text": "x"}}, "deadline_utc": utc_now().isoformat()}
    now = asyncio.get_running_loop().time
    async with ToolHost(bus, tool):
        asking = asyncio.create_task(ask(bus, request))
        await eventually(lambda: notes.could_wait)
        too_late = now() + left
        await eventually(lambda: asking.done() if reads else now() > too_late)
        notes.may_finish.set()
        result = decode((await asking).data, ToolResult).payload

    assert result.outcome == outcome


@pytest.mark.parametrize(
    ("request_", "code", "message"),
    [
        pytest.param(b"hello", "bad_request", "not JSON", id="text"),
        pytest.param(b"", "bad_request", "not JSON", id="empty"),
        pytest.param(b"[" * 100_000, "bad_request", "", id="nested without end"),
        pytest.param({}, "bad_request", "`payload`", id="no payload"),
        pytest.param({"payload": {}}, "bad_request", "`args`", id="no arguments"),
        pytest.param({"payload": {"args": {}}}, "invalid_arguments", "`text`", id="missing"),
        pytest.param(
            {"payload": {"args": {"text": "x", "txt": "y"}}},
            "invalid_arguments",
            "unknown field `txt`",
            id="unknown",
        ),
        pytest.param(
            {"payload": {"args": {"text": 7}}}, "invalid_arguments", "`text`", id="mistyped"
        ),
        pytest.param(
            {"payload": {"args": {"text": ""}}}, "invalid_arguments", "`text`", id="empty text"
        ),
        pytest.param(
            {"payload": {"args": {"text": "x" * 21}}},
            "invalid_arguments",
            "length <= 20 - at `text`",
            id="oversized",
        ),
        *(
            pytest.param(
                {field: "a\0b", "payload": {"args": {"text": "x"}}},
                "bad_request",
                f"{field}: 'a\\x00b' contains the character NUL",
                id=f"NUL in {field}",
            )
            for field in ("user", "source", "session_id", "query_id", "id")
        ),
        pytest.param(
            {"deadline_utc": "2001-01-01T00:00:00Z", "payload": {"args": {"text": "x"}}},
            "deadline_exceeded",
            "nothing was done",
            id="too late",
        ),
        pytest.param(
            {"deadline_utc": "2001-01-01T00:00:00", "payload": {"args": {"text": "x"}}},
            "deadline_exceeded",
            "nothing was done",
            id="too late, in UTC without an offset",
        ),
    ],
)
@pytest.mark.usefixtures("host")
async def test_an_invalid_request_gets_an_error_and_the_tool_does_not_run(
    bus: Connection, notes: Notes, request_: object, code: str, message: str
) -> None:
    answer = await ask(bus, request_)

    result = decode(answer.data, ToolResult).payload
    assert not result.ok
    assert result.error is not None
    assert result.error.code == code
    assert message in result.error.message
    assert result.content == f"Error ({code}): {result.error.message}"
    assert answer.headers is not None
    assert answer.headers["Nats-Service-Error-Code"] == code
    assert answer.headers["Nats-Service-Error"].isascii()
    assert notes.noted == []


@pytest.mark.usefixtures("host")
async def test_a_storage_failure_is_reported_with_its_remedy(bus: Connection, notes: Notes) -> None:
    notes.failure = StorageError("The disk is full.", remedy="Empty it.")

    result = await call_tool(bus, "note", {"text": "x"}, caller=RICHARD)

    assert result.error is not None
    assert (result.error.code, result.error.message) == (
        "unavailable",
        "The disk is full. Empty it.",
    )


@pytest.mark.usefixtures("host")
async def test_an_unexpected_exception_is_logged_and_not_disclosed(
    bus: Connection, notes: Notes, logs: Path
) -> None:
    notes.failure = ValueError("secret detail")

    answer = await ask(bus, {"payload": {"args": {"text": "x"}}})

    result = decode(answer.data, ToolResult).payload
    assert result.outcome == "internal"
    assert b"secret detail" not in answer.data
    assert b"Traceback" not in answer.data
    await eventually(lambda: "secret detail" in logs.read_text())


class Odd(msgspec.Struct):
    thing: object


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        pytest.param({"answer": "x" * 1024 * 1024}, "too_large: ", id="too large for the bus"),
        pytest.param({"answer": "\ud800"}, "invalid_arguments: .* not Unicode", id="not Unicode"),
        pytest.param({"data": Odd(thing=object())}, "internal: ", id="cannot be encoded"),
    ],
)
@pytest.mark.usefixtures("host")
async def test_a_result_that_cannot_be_sent_is_an_error_result(
    bus: Connection, notes: Notes, sent: dict[str, object], error: str
) -> None:
    vars(notes).update(sent)

    result = await call_tool(bus, "note", {"text": "x"}, caller=RICHARD)

    assert result.error is not None
    assert re.match(error, f"{result.error.code}: {result.error.message}")


@pytest.mark.usefixtures("host")
async def test_a_request_too_large_for_the_bus_is_an_error_result(bus: Connection) -> None:
    result = await call_tool(bus, "note", {"text": "x" * (1024 * 1024)}, caller=RICHARD)

    assert result.outcome == "too_large"


@pytest.mark.usefixtures("host")
async def test_a_result_carries_the_trace_of_its_request(bus: Connection) -> None:
    answer = await bus.request(
        "tool.request.note", b'{"payload":{"args":{"text":"x"}}}', headers={"traceparent": "00-1"}
    )

    assert answer.headers == {"traceparent": "00-1"}


@pytest.mark.parametrize("name", ["*", ">", "a.b", ""])
async def test_a_name_with_a_wildcard_is_refused(bus: Connection, name: str) -> None:
    result = await call_tool(bus, name, {}, caller=RICHARD)

    assert result.error is not None
    assert result.error.code == "bad_request"


async def test_a_stopping_tool_answers_the_requests_it_has_begun(
    bus: Connection, notes: Notes
) -> None:
    notes.may_finish.clear()
    async with AsyncExitStack() as running:
        host = await running.enter_async_context(ToolHost(bus, notes.tool()))
        requests = [
            asyncio.create_task(ask(bus, {"payload": {"args": {"text": f"{n}"}}}))
            for n in range(10)
        ]
        await bus.flush()
        await eventually(lambda: notes.under_way == 10)
        stopping = asyncio.create_task(running.aclose())
        await eventually(lambda: not host._subscriptions or stopping.done() or _closed(host))
        notes.may_finish.set()
        await stopping

    answers = await asyncio.gather(*requests)
    assert all(decode(answer.data, ToolResult).payload.ok for answer in answers)
    assert len(notes.noted) == 10
    with pytest.raises(NoRespondersError):
        await ask(bus, {"payload": {"args": {"text": "late"}}})


def _closed(host: ToolHost) -> bool:
    source = host._subscriptions[0]._source
    return not isinstance(source, NatsSubscription) or bool(source._closed)


@pytest.mark.usefixtures("host")
async def test_a_request_is_logged_in_one_line_without_its_content(
    bus: Connection, logs: Path
) -> None:
    request = {
        "id": "r-4712",
        "source": "shell",
        "session_id": "s1",
        "query_id": "q1",
        "payload": {"args": {"text": "secret 4712"}},
    }
    await ask(bus, request)
    request["payload"] = {"args": {"text": "secret 4712 " * 9}}
    await ask(bus, request)

    def logged() -> list[dict[str, Any]]:
        lines = [json.loads(line) for line in logs.read_text().splitlines()]
        return [line for line in lines if line.get("id") == "r-4712"]

    await eventually(lambda: len(logged()) == 2)
    ok, refused = logged()
    assert (ok["event"], ok["tool"], ok["outcome"]) == ("request", "note", "ok")
    ids = [hashlib.blake2b(name, digest_size=4).hexdigest() for name in (b"s1", b"q1")]
    assert [ok["caller"], ok["session_id"], ok["query_id"]] == ["shell", *ids]
    assert ok["ms"] > 0
    assert refused["outcome"] == "invalid_arguments"
    assert "secret 4712" not in logs.read_text()


@pytest.mark.usefixtures("host")
async def test_under_load_only_slow_and_failed_requests_are_logged_and_the_others_counted(
    bus: Connection, notes: Notes, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 100.0
    monkeypatch.setattr("local2.bus.tool_host.time.perf_counter", lambda: now)
    monkeypatch.setattr("local2.bus.tool_host.LINES_PER_SECOND", 2)

    sent = set[str]()

    async def send(id_: str, text: str = "x") -> None:
        sent.add(id_)
        await ask(bus, {"id": id_, "payload": {"args": {"text": text}}})

    for number in range(5):
        await send(f"same second {number}")
    await send("failed", text="x" * 99)
    notes.may_finish.clear()
    slow = asyncio.create_task(send("slow"))
    await eventually(lambda: len(notes.could_wait) == 6)
    now += 1.0
    notes.may_finish.set()
    await slow
    await send("next second")

    def logged() -> list[tuple[str, int | None]]:
        lines = [json.loads(line) for line in logs.read_text().splitlines()]
        return [(line["id"], line.get("not_logged")) for line in lines if line.get("id") in sent]

    await eventually(lambda: "next second" in dict(logged()))
    assert logged() == [
        ("same second 0", None),
        ("same second 1", None),
        ("failed", 3),
        ("slow", None),
        ("next second", None),
    ]
