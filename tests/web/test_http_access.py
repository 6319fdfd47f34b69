"""Only who has the token is served, from this machine. What attackers try is in tests/attacks."""

import stat
from pathlib import Path

import httpx
import pytest

from commands import Served, local2
from http_servers import HttpServer, http_server, problem

PATH = "/v1/openapi.json"
PATHS = [
    ("POST", "/v1/tools/top_memories"),
    ("POST", "/v1/services/memory.status"),
    ("GET", "/v1/memories"),
    ("GET", "/v1/memories/1"),
    ("PATCH", "/v1/memories/1"),
    ("DELETE", "/v1/memories/1"),
    ("GET", "/v1/events"),
    ("GET", PATH),
    ("GET", "/"),
    ("OPTIONS", "/v1/tools/top_memories"),
]


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Authorization": ""}, 401),
        ({"Authorization": "Bearer"}, 401),
        ({"Authorization": "Bearer wrong"}, 401),
        ({"Authorization": "Bearer {token}x"}, 401),
        ({"Authorization": "Basic {token}"}, 401),
        ({"Authorization": "{token}"}, 401),
        ({"Authorization": "bearer {token}"}, 200),
        ({"Host": "localhost"}, 200),
        ({"Host": "[::1]:8643"}, 200),
        ({"Origin": "http://127.0.0.1:3000"}, 200),
        ({"Host": "evil.example", "Authorization": ""}, 421),
        ({"Origin": "https://evil.example", "Authorization": ""}, 403),
    ],
)
def test_a_request_needs_the_token_this_host_and_no_foreign_origin(
    server: HttpServer, ada: httpx.Client, headers: dict[str, str], status: int
) -> None:
    token = ada.headers["authorization"].removeprefix("Bearer ")
    sent = {name: value.format(token=token) for name, value in headers.items()}
    answer = ada.get(PATH, headers=sent)

    assert answer.status_code == status
    assert token not in answer.text
    if status != 200:
        problem(answer)
    if status == 401:
        assert answer.headers["www-authenticate"] == "Bearer"
        assert server.token_is_in in answer.text


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_no_path_answers_without_the_token(server: HttpServer, method: str, path: str) -> None:
    with server.client("wrong") as client:
        answer = client.request(method, path)

    assert problem(answer)[0] == 401


def test_two_tokens_are_none(server: HttpServer, ada: httpx.Client) -> None:
    tokens = [("Authorization", ada.headers["authorization"])] * 2
    with httpx.Client(trust_env=False) as client:
        assert client.get(f"{server.url}{PATH}", headers=tokens).status_code == 401


def test_only_the_owner_can_read_the_token(server: HttpServer) -> None:
    assert stat.S_IMODE(Path(server.token_is_in).stat().st_mode) == 0o600


def test_a_configured_token_is_the_one_that_clients_send_also_without_a_stack(
    tmp_path: Path,
) -> None:
    chosen = {"LOCAL2_HTTP__TOKEN": "of-the-test", "LOCAL2_BUS__URL": "nats://127.0.0.1:1"}
    with http_server(tmp_path, **chosen) as alone:
        with alone.client("another") as client:
            assert problem(client.post("/v1/tools/top_memories"))[0] == 401
        with alone.client("of-the-test") as client:
            assert problem(client.post("/v1/tools/top_memories"))[:2] == (503, "unavailable")

    assert not (tmp_path / ".local2" / "http-token").exists()


def test_whoever_starts_the_page_beside_the_server_is_told_what_to_do(
    server: HttpServer, stack: Served
) -> None:
    port = str(httpx.URL(server.url).port)
    done = local2(stack.folder, "web", "--port", port)

    assert done.returncode == 1
    assert "Choose another port with --port or LOCAL2_HTTP__PORT" in done.stderr
    assert "`local2 web` also serves all that `local2 serve` does" in done.stderr


def test_answers_are_kept_by_nobody_on_the_way(ada: httpx.Client) -> None:
    answers = [ada.get(PATH), ada.post("/v1/tools/top_memories"), ada.post("/v1/tools/recall")]

    assert {answer.headers["cache-control"] for answer in answers} == {"no-store"}
