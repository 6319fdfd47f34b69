"""With accounts, the token of each request says who asks, and nobody reads what is another's."""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import httpx
import pytest

from commands import Served, local2, served
from http_servers import HttpServer, call, http_server, problem
from local2.web.server import MAX_STREAMS
from tenant_agents import ACCOUNTS, token_for, with_tenants
from waiting import wait_until


class Tokens(NamedTuple):
    ada: str
    bob: str
    reader: str
    admin: str
    foreign: str
    """Of the user ada of another tenant."""


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder: Path = tmp_path_factory.mktemp("accounts")
    with served(with_tenants(folder, "acme", "beta")) as running:
        yield running


@pytest.fixture(scope="module")
def server(stack: Served) -> Iterator[HttpServer]:
    added = local2(stack.folder, "tenants", "add", "acme", "--agent", "http", "--role", "writer")
    assert added.returncode == 0, added.stderr
    credentials = str(stack.folder / ACCOUNTS / "acme" / "http.nk")
    named = {"LOCAL2_BUS__CREDENTIALS": credentials, "LOCAL2_HTTP__TIMEOUT": "5"}
    with (
        http_server(stack.folder, **named) as running,
        running.client(token_for(stack.folder, "acme", "ada")) as client,
    ):
        # The bus refuses everybody for a moment while it reads its accounts again.
        wait_until(lambda: client.post("/v1/tools/top_memories").status_code == 200)
        yield running


@pytest.fixture(scope="module")
def tokens(stack: Served) -> Tokens:
    return Tokens(
        ada=token_for(stack.folder, "acme", "ada"),
        bob=token_for(stack.folder, "acme", "bob"),
        reader=token_for(stack.folder, "acme", "rita", "--role", "reader"),
        admin=token_for(stack.folder, "acme", "boss"),
        foreign=token_for(stack.folder, "beta", "ada"),
    )


def test_each_token_has_the_memories_of_its_user(server: HttpServer, tokens: Tokens) -> None:
    with server.client(tokens.ada) as ada:
        call(ada, "save_topic", topic="user.code", content="ZANZIBAR")
        mine = call(ada, "recall_topic", topic="user.code")["data"]["content"]
    with server.client(tokens.bob, **{"Local2-User": "ada"}) as bob:
        of_bob = call(bob, "recall_topic", topic="user.code")

    assert mine == "ZANZIBAR"
    assert of_bob["data"]["found"] is False


def test_the_routes_of_mem0_act_as_the_user_of_the_token(
    server: HttpServer, tokens: Tokens
) -> None:
    note = {"messages": [{"role": "user", "content": "Bob dives."}], "user_id": "ada"}
    with server.client(tokens.ada) as ada, server.client(tokens.bob) as bob:
        (added,) = bob.post("/mem0/v3/memories/add/", json=note).json()["results"]
        path = f"/mem0/v1/memories/{added['id']}@bob/"
        refused = [problem(ada.get(path)), problem(ada.put(path, json={"text": "Ada dives."}))]
        found = bob.get(path).json()

    assert [status for status, _, _ in refused] == [404, 404]
    assert found["memory"] == "Bob dives."


def test_without_a_token_the_agent_of_the_server_does_not_act(server: HttpServer) -> None:
    with httpx.Client(base_url=server.url, trust_env=False) as client:
        answer = client.post("/v1/tools/top_memories")

    assert problem(answer)[0] == 401
    assert "own token" in answer.text


def test_a_role_is_that_of_the_token(server: HttpServer, tokens: Tokens) -> None:
    with server.client(tokens.reader) as reader:
        assert reader.post("/v1/tools/recall", json={"query": "x"}).status_code == 200
        for path, body in (
            ("/v1/tools/save_topic", {"topic": "user.a", "content": "b"}),
            ("/v1/services/memory.items.put", {"collection": "a", "items": []}),
            ("/v1/services/memory.export", {}),
            ("/v1/services/memory.dead_letters", {}),
        ):
            assert problem(reader.post(path, json=body))[:2] == (403, "forbidden")


def test_a_token_without_a_role_has_no_more_rights_than_the_agent_of_the_server(
    server: HttpServer, tokens: Tokens
) -> None:
    with server.client(tokens.bob) as bob:
        assert bob.post("/v1/tools/save_topic", json={"topic": "user.a", "content": "b"}).is_success
        for path, body in (
            ("/v1/services/memory.export", {}),
            ("/v1/services/memory.reindex", {}),
            ("/v1/tools/consolidate", {}),
            ("/v1/tools/forget", {"everything": True}),
        ):
            assert problem(bob.post(path, json=body))[:2] == (403, "forbidden")


@pytest.mark.parametrize(("options", "tenant"), [(("--tenant", "acme"), "acme"), ((), "NAME")])
def test_the_server_does_not_start_without_an_agent_of_its_own(
    stack: Served, options: tuple[str, ...], tenant: str
) -> None:
    done = local2(stack.folder, *options, "serve", "--port", "0")

    assert done.returncode == 1
    assert f"local2 tenants add {tenant} --agent http --role writer" in " ".join(
        done.stderr.split()
    )


def test_what_concerns_all_tenants_is_not_served(
    server: HttpServer, tokens: Tokens, stack: Served
) -> None:
    folder = stack.folder / "stolen"
    with server.client(tokens.admin) as admin:
        answer = admin.post("/v1/services/memory.backup", json={"folder": str(folder)})

    assert problem(answer)[:2] == (403, "forbidden")
    assert not folder.exists()


def test_events_do_not_say_whom_or_which_topic_they_are_about(
    server: HttpServer, tokens: Tokens
) -> None:
    with (
        server.client(tokens.ada) as ada,
        server.client(tokens.bob) as bob,
        bob.stream("GET", "/v1/events") as stream,
    ):
        saved = call(ada, "save_topic", topic="user.secret_plan", content="Resign")
        data = next(line for line in stream.iter_lines() if line.startswith("data: "))

    event = json.loads(data.removeprefix("data: "))
    assert event["payload"] == {"id": saved["data"]["id"], "kind": "fact"}
    assert "ada" not in data


def test_a_kept_answer_is_not_given_to_another_token(server: HttpServer, tokens: Tokens) -> None:
    headers = {"Idempotency-Key": "same"}
    with server.client(tokens.ada) as ada, server.client(tokens.bob) as bob:
        call(ada, "save_topic", topic="user.safe", content="ZANZIBAR")
        body = {"topic": "user.safe"}
        mine = ada.post("/v1/tools/recall_topic", json=body, headers=headers)
        theirs = bob.post("/v1/tools/recall_topic", json=body, headers=headers)

    assert "ZANZIBAR" in mine.text
    assert "ZANZIBAR" not in theirs.text


async def test_clients_that_come_together_are_counted_before_they_listen(
    server: HttpServer, tokens: Tokens
) -> None:
    async with httpx.AsyncClient(
        base_url=server.url,
        headers={"Authorization": f"Bearer {tokens.ada}"},
        limits=httpx.Limits(),
        timeout=30,
        trust_env=False,
    ) as client:

        async def listen() -> httpx.Response:
            return await client.send(client.build_request("GET", "/v1/events"), stream=True)

        streams = await asyncio.gather(*(listen() for _ in range(MAX_STREAMS + 10)))
        for stream in streams:
            await stream.aclose()

    assert sorted(stream.status_code for stream in streams) == [200] * MAX_STREAMS + [429] * 10
