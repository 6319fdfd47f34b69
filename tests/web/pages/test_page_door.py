"""Who has signed in reaches the page. What other pages and programs try is in tests/attacks."""

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path

import httpx
import pytest
from playwright.sync_api import Browser

from http_servers import HttpServer

PAGE = "/memories"
SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}


@pytest.fixture(scope="module")
def cookie(browser: Browser, signed_in: Path) -> str:
    """The cookie of somebody who has signed in, as a header."""
    with browser.new_context(storage_state=signed_in) as context:
        (found,) = context.cookies()
    assert found["httpOnly"]
    assert found["sameSite"] == "Strict"
    return f"{found['name']}={found['value']}"


@pytest.fixture
def client(pages: HttpServer) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=pages.url, trust_env=False) as opened:
        yield opened


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Host": "localhost:{port}"},
        {"Origin": "http://{host}"},
        {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"},
        {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"},
    ],
)
def test_who_has_signed_in_opens_a_page_also_by_another_sites_link(
    client: httpx.Client, cookie: str, headers: dict[str, str]
) -> None:
    host, port = client.base_url.netloc.decode(), client.base_url.port
    sent = {name: value.format(host=host, port=port) for name, value in headers.items()}

    assert client.get(PAGE, headers={"Cookie": cookie, **sent}).status_code == 200


def test_a_socket_is_opened_with_the_cookie_from_the_page(pages: HttpServer, cookie: str) -> None:
    connection = HTTPConnection(pages.url.removeprefix("http://"), timeout=20)
    try:
        headers = {**HANDSHAKE, "Origin": pages.url, "Cookie": cookie}
        connection.request("GET", SOCKET, headers=headers)
        assert connection.getresponse().status == 101
    finally:
        connection.close()


def test_who_has_not_signed_in_is_led_there(client: httpx.Client) -> None:
    answer = client.get(PAGE, headers={"Accept": "text/html"})

    assert (answer.status_code, answer.headers["location"]) == (303, "/sign-in")


def test_an_unknown_path_says_so(client: httpx.Client, cookie: str) -> None:
    answer = client.get("/nothing", headers={"Cookie": cookie})

    assert answer.status_code == 404
    assert "There is no such page." in answer.text


def test_every_page_is_protected_by_its_headers(client: httpx.Client, cookie: str) -> None:
    first, second = (client.get(PAGE, headers={"Cookie": cookie}) for _ in range(2))
    policy = dict(
        rule.split(" ", 1) for rule in first.headers["content-security-policy"].split("; ")
    )

    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert "'unsafe-inline'" not in policy["script-src"]
    assert first.headers["x-frame-options"] == "DENY"
    assert first.headers["cache-control"] == "no-store"
    assert first.text.count("<script") == first.text.count('<script nonce="')
    assert policy["script-src"] not in second.headers["content-security-policy"]


def test_addresses_of_a_proxy_are_not_believed(client: httpx.Client, cookie: str) -> None:
    forwarded = {"X-Forwarded-Prefix": "/evil", "X-Forwarded-Host": "evil.example"}
    answer = client.get(PAGE, headers={"Cookie": cookie, **forwarded})

    assert answer.status_code == 200
    assert "evil" not in answer.text


@pytest.mark.parametrize("path", ["/v1/openapi.json", "/mem0/v1/ping/"])
def test_programs_with_the_token_are_served_beside_the_pages(ada: httpx.Client, path: str) -> None:
    answer = ada.get(path)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
