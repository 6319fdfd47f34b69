"""Nobody reaches the page who has not signed in, and no other page or program acts through it."""

from collections.abc import Iterator
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlsplit

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
OWN, FOREIGN = "http://{host}", "http://evil.example"


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
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost:{port}"}, 200),
        ({"Host": "localhost"}, 403),
        ({"Host": "127.0.0.1"}, 403),
        ({"Host": "127.0.0.1:1"}, 403),
        ({"Host": "evil.example:{port}"}, 421),
        ({"Host": "127.0.0.1.evil.example:{port}"}, 421),
        ({"Origin": OWN}, 200),
        ({"Origin": FOREIGN}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://127.0.0.1:3000"}, 403),
        ({"Origin": "http://localhost:{port}"}, 403),
        ({"Origin": "https://{host}"}, 403),
        ({"Origin": "http://{host}.evil.example"}, 403),
        ({"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 200),
        ({"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}, 200),
    ],
)
def test_a_request_names_this_host_and_comes_from_this_origin(
    client: httpx.Client, cookie: str, headers: dict[str, str], status: int
) -> None:
    address = urlsplit(str(client.base_url))
    sent = {
        name: value.format(host=address.netloc, port=address.port)
        for name, value in headers.items()
    }
    answer = client.get(PAGE, headers={"Cookie": cookie, **sent})

    assert answer.status_code == status


@pytest.mark.parametrize(
    "forged",
    [
        "",
        "{name}=",
        "{name}=x",
        "{name}={value}x",
        "{name}=x{value}",
        "{name}=IiI.aGVsbG8.c2lnbmF0dXJl",
        "local2={value}",
        "local2_1={value}",
        "session={value}",
    ],
)
@pytest.mark.parametrize("path", [PAGE, "/", SOCKET, "/_nicegui/3.18.0/static/nicegui.js"])
def test_no_path_answers_without_the_cookie(
    client: httpx.Client, cookie: str, forged: str, path: str
) -> None:
    name, _, value = cookie.partition("=")
    sent = {"Cookie": forged.format(name=name, value=value), "Accept": "text/html"}
    answer = client.get(path, headers=sent)

    assert (answer.status_code, answer.headers.get("location")) == (303, "/sign-in")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": OWN, "Cookie": "{cookie}"}, 101),
        ({"Origin": OWN}, 403),
        ({"Cookie": "{cookie}"}, 403),
        ({"Origin": FOREIGN, "Cookie": "{cookie}"}, 403),
        ({"Origin": "null", "Cookie": "{cookie}"}, 403),
        ({"Origin": "http://127.0.0.1:3000", "Cookie": "{cookie}"}, 403),
        ({"Origin": OWN, "Cookie": "{cookie}", "Host": "evil.example"}, 403),
    ],
)
def test_a_socket_needs_the_cookie_and_this_origin(
    pages: HttpServer, cookie: str, headers: dict[str, str], status: int
) -> None:
    address = urlsplit(pages.url)
    named = {
        name: value.format(host=address.netloc, cookie=cookie) for name, value in headers.items()
    }
    connection = HTTPConnection(address.netloc, timeout=20)
    try:
        connection.request("GET", SOCKET, headers={**HANDSHAKE, **named})
        assert connection.getresponse().status == status
    finally:
        connection.close()


def test_the_cookie_opens_the_page_but_not_the_interface_of_programs(
    client: httpx.Client, cookie: str
) -> None:
    answer = client.post("/v1/tools/top_memories", headers={"Cookie": cookie})

    assert answer.status_code == 401


@pytest.mark.parametrize("path", ["/sign-out", "/sign-in"])
def test_forms_of_other_pages_are_refused(client: httpx.Client, cookie: str, path: str) -> None:
    for origin in ({}, {"Origin": FOREIGN}):
        assert client.post(path, headers={"Cookie": cookie, **origin}).status_code == 403


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


def test_an_unknown_path_says_so(client: httpx.Client, cookie: str) -> None:
    for path in ("/nothing", "/memories/../../etc/passwd", "/assets/..%2fsite.py"):
        assert client.get(path, headers={"Cookie": cookie}).status_code == 404


@pytest.mark.parametrize("path", ["/v1/openapi.json", "/mem0/v1/ping/"])
def test_programs_with_the_token_are_served_beside_the_pages(ada: httpx.Client, path: str) -> None:
    answer = ada.get(path)

    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/json"
