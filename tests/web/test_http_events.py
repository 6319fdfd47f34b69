"""Changes of the memory arrive as server-sent events, while somebody listens."""

import asyncio
import json
import math
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest
from starlette.types import Message

from commands import Served, served
from http_servers import HttpServer, call, http_server, problem
from local2.bus.connection import connect
from local2.protocol.envelope import Envelope, encode
from local2.web import events
from local2.web.events import EventStream
from local2.web.server import MAX_STREAMS
from stacks import settings_in


def events_in(lines: Iterator[str]) -> Iterator[tuple[str, dict[str, object]]]:
    """The subjects and messages of a stream."""
    subject = ""
    for line in lines:
        name, _, value = line.partition(": ")
        if name == "event":
            subject = value
        elif name == "data":
            yield subject, json.loads(value)


def test_what_is_saved_and_replaced_is_announced(ada: httpx.Client) -> None:
    with ada.stream("GET", "/v1/events") as stream:
        announced = events_in(stream.iter_lines())
        first = call(ada, "save_topic", topic="user.drink", content="Tea")["data"]["id"]
        saved = next(announced)
        call(ada, "save_topic", topic="user.drink", content="Coffee")
        replaced = dict([next(announced), next(announced)])

    assert stream.headers["content-type"].startswith("text/event-stream")
    assert saved[0] == "memory.saved"
    assert saved[1]["payload"] == {"id": first, "kind": "fact", "topic": "user.drink"}
    assert replaced.keys() == {"memory.saved", "memory.superseded"}
    assert "Coffee" not in json.dumps(replaced)


async def test_only_so_many_clients_listen_and_one_that_leaves_makes_room(
    server: HttpServer, ada: httpx.Client
) -> None:
    async with httpx.AsyncClient(
        base_url=server.url, headers=ada.headers, limits=httpx.Limits(), trust_env=False
    ) as client:

        async def listen() -> httpx.Response:
            request = client.build_request("GET", "/v1/events")
            return await client.send(request, stream=True)

        streams = await asyncio.gather(*(listen() for _ in range(MAX_STREAMS)))
        refused = await listen()
        await refused.aread()
        for stream in streams:
            await stream.aclose()
        while (answer := await listen()).status_code != 200:
            await answer.aclose()
        await answer.aclose()

    assert {stream.status_code for stream in streams} == {200}
    assert problem(refused)[:2] == (429, "overloaded")


async def test_a_client_that_reads_nothing_is_disconnected(
    stack: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "SEND_SECONDS", 0.01)
    ended = asyncio.Event()
    listens = asyncio.Event()

    async def receive() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    async def send(message: Message) -> None:
        if message.get("body", b"").startswith(b"event: "):
            await asyncio.Event().wait()  # its buffers are full
        listens.set()

    async with connect(stack.url, name="events") as bus, connect(stack.url, name="other") as other:
        stream = EventStream(bus, until=math.inf, only_changes=False, on_end=ended.set)
        sending = asyncio.create_task(stream({"type": "http"}, receive, send))
        await listens.wait()
        await other.publish("memory.saved", encode(Envelope(payload={"id": "1"})))
        async with asyncio.timeout(20):
            await sending

    assert ended.is_set()


def test_a_stream_ends_with_its_stack_and_the_next_request_starts_another(
    tmp_path: Path,
) -> None:
    with ExitStack() as resources:
        with served(settings_in(tmp_path)):
            server = resources.enter_context(http_server(tmp_path))
            client = resources.enter_context(server.client())
            call(client, "save_topic", topic="user.bike", content="Red")
            stream = resources.enter_context(client.stream("GET", "/v1/events"))
        ended = stream.read()
        path, topic = "/v1/tools/recall_topic", {"topic": "user.bike"}
        while (answer := client.post(path, json=topic)).status_code == 503:
            assert problem(answer)[1] == "unavailable"

    assert ended.startswith(b"retry: ")
    assert answer.json()["data"]["content"] == "Red"
