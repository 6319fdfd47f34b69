"""Changes of the memory arrive as server-sent events, while somebody listens."""

import asyncio
import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import httpx

from commands import served
from http_servers import HttpServer, call, http_server, problem
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
        events = events_in(stream.iter_lines())
        first = call(ada, "save_topic", topic="user.drink", content="Tea")["data"]["id"]
        saved = next(events)
        call(ada, "save_topic", topic="user.drink", content="Coffee")
        replaced = dict([next(events), next(events)])

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
