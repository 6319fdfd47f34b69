"""Attacks on the pages and on HTTP beside them, and with files that people import.

`local2 web` serves acme, as a writer. Ada has signed in: other sites' pages can have her browser
send requests with her cookie. Bob is another user of acme; mallory has a token of beta.
"""

import asyncio
import json
import os
import socket
import zipfile
from collections.abc import Awaitable, Callable, Iterator, Mapping
from http import HTTPStatus
from http.client import HTTPConnection
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from attacks.tokens import TOKENS
from attacks.world import ITEM, ITEMS, OUTPUT, SESSION, VAULT, Case, World
from local2.errors import TooLargeError
from local2.sources.items import Item
from local2.sources.opening import opened
from local2.web.pages.signing_in import MAX_FORM, MAX_UPLOAD
from sources_made_up import archive_of, chatgpt_chat, chatgpt_message

Attack = Callable[[World], Awaitable[object]]
Headers = dict[str, str]
PAGE, DOCUMENT, SIGN_IN = "/memories", "/v1/openapi.json", "/sign-in"
SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"
UPLOAD = "/_nicegui/client/x/upload/1"
PROTECTED = (PAGE, "/", SOCKET, "/_nicegui/3.18.0/static/nicegui.js")
EVIL = "http://evil.example"
COOKIE, BEARER = {"Cookie": "{cookie}"}, {"Authorization": "Bearer {ada}"}
JSON = {"Content-Type": "application/json"}
FORM = {"Content-Type": "application/x-www-form-urlencoded"}
HANDSHAKE = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
CLOSED = 0
"""Stands for the status where the server closes the connection."""


class Sent(NamedTuple):
    """A request; places in braces are filled with what `known_names` returns."""

    target: str
    headers: Mapping[str, str] = {}
    method: str = "GET"
    body: bytes = b""


class Got(NamedTuple):
    status: int
    headers: Mapping[str, str]
    body: str


def known_names(world: World) -> dict[str, str]:
    """What an attacker, or a page in ada's browser, can put into a request."""
    assert world.web is not None
    name, _, value = world.cookie.partition("=")
    address = urlsplit(world.web.url)
    return {
        "host": address.netloc,
        "port": str(address.port),
        "cookie": world.cookie,
        "name": name,
        "value": value,
        "ada": world.token("ada"),
        "bob": world.token("bob"),
        "reader": world.token("bob", role="reader"),
        "mallory": world.token("mallory", "beta"),
        "id": world.ids["acme"],
    }


def send(world: World, sent: Sent) -> Got:
    """Send a request as it is, without what a client would mend in it."""
    known = known_names(world)
    target = sent.target.replace("{id}", known["id"])
    headers = {name: value.format(**known) for name, value in sent.headers.items()}
    connection = HTTPConnection(known["host"], timeout=20)
    try:
        connection.putrequest(
            sent.method, target, skip_host="Host" in headers, skip_accept_encoding=True
        )
        if sent.body and "Content-Length" not in headers:
            headers["Content-Length"] = str(len(sent.body))
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.endheaders(sent.body)
        answer = connection.getresponse()
        is_socket = answer.status == HTTPStatus.SWITCHING_PROTOCOLS
        body = b"" if is_socket else answer.read()
        named = {name.lower(): value for name, value in answer.headers.items()}
        return Got(answer.status, named, body.decode())
    except ConnectionError:  # the server reads no more of a request that is too large
        return Got(CLOSED, {}, "")
    finally:
        connection.close()


def _refused(*requests: Sent, status: int | tuple[int, ...]) -> Attack:
    """Requests that are all answered with such a status, which no other site's page may read."""
    statuses = status if isinstance(status, tuple) else (status,)

    async def attack(world: World) -> object:
        loot = []
        for request in requests:
            got = await asyncio.to_thread(send, world, request)
            assert got.status in statuses, (request, got)
            assert not [name for name in got.headers if name.startswith("access-control")]
            loot.append(got)
        return loot

    return attack


# Rebinding: a name of the attacker's resolves to this machine.
HOSTS = {
    "another name": "evil.example",
    "another name with the port": "evil.example:{port}",
    "a name that begins like this host": "127.0.0.1.evil.example:{port}",
    "a name that begins like localhost": "localhost.evil.example:80",
    "a port that goes on as a name": "localhost:{port}.evil.example",
}
PAGE_HOSTS = {
    "localhost without the port": "localhost",
    "this host without the port": "127.0.0.1",
    "this host at another port": "127.0.0.1:1",
}


def _rebinding() -> Iterator[Case]:
    for name, host in HOSTS.items():
        programs = Sent(DOCUMENT, {**BEARER, "Host": host})
        yield Case(f"rebinding HTTP: {name}", _refused(programs, status=421))
    for name, host in {**HOSTS, **PAGE_HOSTS}.items():
        page = Sent(PAGE, {**COOKIE, "Host": host})
        yield Case(f"rebinding a page: {name}", _refused(page, status=(403, 421)))


# Another site's page has ada's browser send something.
ORIGINS = {
    "another site": EVIL,
    "a site without an origin": "null",
    "a site whose name begins like this one": "http://{host}.evil.example",
    "a site that names this one as its user": "http://{host}@evil.example",
}
PAGE_ORIGINS = {
    "another program on this machine": "http://127.0.0.1:3000",
    "this host by another name": "http://localhost:{port}",
    "this host over TLS": "https://{host}",
}
FETCHED = {
    "an image": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"},
    "a script of another site": {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "cors"},
    "a script of another program": {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "no-cors"},
}
SAVE = "/v1/tools/save_topic"
OTHER_CODE = json.dumps({"topic": "user.code", "content": "0000"}).encode()


def _forged_requests() -> Iterator[Case]:
    for name, origin in ORIGINS.items():
        save = Sent(SAVE, {**BEARER, **JSON, "Origin": origin}, "POST", OTHER_CODE)
        yield Case(f"CSRF over HTTP from {name}", _refused(save, status=403))
    for name, origin in {**ORIGINS, **PAGE_ORIGINS}.items():
        page = Sent(PAGE, {**COOKIE, "Origin": origin})
        upload = Sent(UPLOAD, {**COOKIE, "Origin": origin}, "POST", b"x")
        yield Case(f"CSRF on a page from {name}", _refused(page, upload, status=403))
    for name, headers in FETCHED.items():
        fetched = Sent(PAGE, {**COOKIE, **headers})
        yield Case(f"a page fetched as {name}", _refused(fetched, status=403))
    for name, headers in {"no origin": {}, "another origin": {"Origin": EVIL}}.items():
        forms = [
            Sent(path, {**COOKIE, **FORM, **headers}, "POST") for path in ("/sign-out", SIGN_IN)
        ]
        yield Case(f"a form of {name} that signs ada in or out", _refused(*forms, status=403))
    cookie_only = [
        Sent(SAVE, {**COOKIE, **JSON}, "POST", OTHER_CODE),
        Sent("/v1/memories", COOKIE),
        Sent("/v1/memories/{id}", COOKIE, "DELETE"),
        Sent("/mem0/v1/memories/{id}/", COOKIE, "DELETE"),
    ]
    yield Case("HTTP with the cookie of the page", _refused(*cookie_only, status=401))
    asked = {"Origin": EVIL, "Access-Control-Request-Method": "POST"}
    preflight = [Sent(path, asked, "OPTIONS") for path in (SAVE, "/v1/memories/{id}", PAGE)]
    yield Case("a preflight of another site", _refused(*preflight, status=403))


def _sockets() -> Iterator[Case]:
    own = {"Origin": "http://{host}"}
    tried: dict[str, Headers] = {
        "without a cookie": own,
        "without an origin": COOKIE,
        "with another host": {**own, **COOKIE, "Host": "evil.example"},
        "with a forged cookie": {**own, "Cookie": "{name}=x{value}"},
        **{
            f"of {name}": {**COOKIE, "Origin": origin}
            for name, origin in {**ORIGINS, **PAGE_ORIGINS}.items()
        },
    }
    for name, headers in tried.items():
        opened_ = Sent(SOCKET, {**HANDSHAKE, **headers})
        yield Case(f"a socket {name}", _refused(opened_, status=403))


# Cookies: stolen by a frame, forged, chosen by the attacker.
COOKIES = {
    "that is none": "",
    "without a value": "{name}=",
    "with another value": "{name}=x",
    "with a longer value": "{name}={value}x",
    "with another beginning": "{name}=x{value}",
    "signed with a guessed key": "{name}=IiI.aGVsbG8.c2lnbmF0dXJl",
    "under another name": "local2={value}",
    "of another port": "local2_1={value}",
    "of another program": "session={value}",
    "that is a token": "{name}={ada}",
}


async def _framed(world: World) -> object:
    """Each page that opens forbids frames, and is of no use to a window that opened it."""
    framed = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}
    loot = []
    for path in (PAGE, "/", SIGN_IN, "/nothing", "/assets/page.css"):
        got = await asyncio.to_thread(
            send, world, Sent(path, {**COOKIE, **framed, "Sec-Fetch-Dest": "iframe"})
        )
        policy = got.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert got.headers["x-frame-options"] == "DENY"
        assert got.headers["cross-origin-opener-policy"] == "same-origin"
        assert got.headers["cross-origin-resource-policy"] == "same-origin"
        loot.append(got)
    return loot


async def _signed_in_with(world: World, token: str, **headers: str) -> Got:
    own = {"Origin": "http://{host}", **FORM, **headers}
    body = urlencode({"token": token}, errors="replace").encode()
    return await asyncio.to_thread(send, world, Sent(SIGN_IN, own, "POST", body))


async def _read_by_script(world: World) -> object:
    """A script in the page cannot read the cookie, and another site's request does not carry it."""
    got = await _signed_in_with(world, world.token("bob"))
    sent = got.headers["set-cookie"].lower()
    assert "httponly" in sent
    assert "samesite=strict" in sent
    return None


async def _fixed(world: World) -> object:
    """A cookie that was planted before signing in is neither kept nor worth anything then."""
    planted = f"{known_names(world)['name']}=planted"
    got = await _signed_in_with(world, world.token("bob"), Cookie=planted)
    assert "planted" not in got.headers["set-cookie"]
    return await _refused(Sent(PAGE, {"Cookie": planted}), status=401)(world)


def _opening(link: str) -> Attack:
    """A link that ada opens signs nobody in."""

    async def attack(world: World) -> object:
        got = await asyncio.to_thread(send, world, Sent(link.format(**known_names(world))))
        assert "set-cookie" not in got.headers
        return got

    return attack


def _not_signed_in(make: Callable[[World], str]) -> Attack:
    async def attack(world: World) -> object:
        got = await _signed_in_with(world, make(world))
        assert (got.status, got.headers.get("set-cookie")) == (403, None)
        return got

    return attack


def _cookies() -> Iterator[Case]:
    yield Case("a frame around a page", _framed)
    yield Case("a script that reads the cookie", _read_by_script)
    for name, cookie in COOKIES.items():
        tried = [Sent(path, {"Cookie": cookie}) for path in PROTECTED]
        yield Case(f"a cookie {name}", _refused(*tried, status=401))
    yield Case("session fixation: a planted cookie", _fixed)
    for name, query in {"a token": "token={ada}", "a key": "key=x", "a cookie": "{cookie}"}.items():
        yield Case(f"session fixation: a link with {name}", _opening(f"{SIGN_IN}?{query}"))
    for name in ("of another tenant", "expired", "with another's claims", "with alg none"):
        yield Case(f"signing in with a token {name}", _not_signed_in(TOKENS[name]))


# Paths
TARGETS = (
    ("POST", "/v1/tools/../services/memory.status"),
    ("POST", "/v1/tools/%2e%2e/services/memory.status"),
    ("POST", "/v1/tools/..%2fservices%2fmemory.status"),
    ("POST", "/v1/services/memory.status%00"),
    ("POST", "/v1/services/memory%2estatus/"),
    ("POST", "/v1/services/memory.*"),
    ("POST", "/v1/services/%3e"),
    ("POST", "/v1/services/tool.request.recall"),
    ("POST", "/v1/tools/*"),
    ("POST", "/v1/tools/%3E"),
    ("POST", "/v1/tools/top_memories.x"),
    ("POST", "/v1/tools/top_memories%0d%0aX"),
    ("POST", "/v1/tools/" + "x" * 65),
    ("POST", "//v1/tools/top_memories"),
    ("POST", "/V1/tools/top_memories"),
    ("POST", "/v1/tools/top_memories;x=1"),
    ("POST", "http://evil.example/v1/tools/top_memories"),
    ("GET", "/v1/tools/top_memories"),
    ("HEAD", "/v1/events"),
    ("PUT", "/v1/memories/1"),
    ("GET", "/v1/memories/..%2f..%2fetc%2fpasswd"),
    ("GET", "/v1/memories/" + "x" * 1_000),
    ("GET", "/v1/memories/%00"),
    ("DELETE", "/v1/memories/*"),
    ("TRACE", DOCUMENT),
)
PAGE_TARGETS = (
    "/nothing",
    "/memories/../../etc/passwd",
    "/assets/..%2fsite.py",
    "/assets/../site.py",
)


def _paths() -> Iterator[Case]:
    for method, target in TARGETS:
        tried = Sent(target, BEARER, method)
        yield Case(
            f"a path: {method} {target[:60]}", _refused(tried, status=tuple(range(400, 500)))
        )
    for target in PAGE_TARGETS:
        yield Case(f"a path of a page: {target}", _refused(Sent(target, COOKIE), status=404))


# Others' ids, with one's own token.
def _ids() -> Iterator[Case]:
    edit = json.dumps({"content": "0000", "reason": "Mine now."}).encode()
    by_id = {
        "read": Sent("/v1/memories/{id}"),
        "edited": Sent("/v1/memories/{id}", JSON, "PATCH", edit),
        "erased": Sent("/v1/memories/{id}", method="DELETE"),
        "read as mem0 does": Sent("/mem0/v1/memories/{id}@ada/"),
        "edited as mem0 does": Sent(
            "/mem0/v1/memories/{id}@ada/", JSON, "PUT", json.dumps({"text": "0000"}).encode()
        ),
        "erased as mem0 does": Sent("/mem0/v1/memories/{id}@ada/", method="DELETE"),
    }
    for who, status in {"bob": 404, "mallory": 403}.items():
        for name, sent in by_id.items():
            headers = {**sent.headers, "Authorization": f"Bearer {{{who}}}", "Local2-User": "ada"}
            tried = sent._replace(headers=headers)
            yield Case(f"{who} has ada's memory {name}", _refused(tried, status=status))
    calls: dict[str, tuple[str, Any]] = {
        "recall": ("tools/recall", {"query": VAULT, "top_k": 20}),
        "a session": ("tools/load_session", {"session_id": SESSION}),
        "an output": ("tools/read_tool_output", {"tool_output_key": OUTPUT}),
        "items": ("services/memory.items.get", {"keys": [ITEM], **ITEMS}),
        "a list": ("services/memory.browse", {"session_id": SESSION}),
    }
    named = {"Local2-User": "ada", "Local2-Session": SESSION}
    as_ada = {"Authorization": "Bearer {bob}", **JSON, **named}
    for name, (path, body) in calls.items():
        sent = Sent(f"/v1/{path}", as_ada, "POST", json.dumps(body).encode())
        yield Case(f"bob asks as ada: {name}", _refused(sent, status=(200, 422)))
    for name in ("memory.export", "memory.browse.all", "memory.dead_letters", "memory.backup"):
        sent = Sent(f"/v1/services/{name}", {"Authorization": "Bearer {reader}"}, "POST")
        yield Case(f"a reader asks {name}", _refused(sent, status=(400, 403)))
    for path in ("/live", "/upkeep", "/accounts"):
        sent = Sent(path, BEARER)
        yield Case(f"a token in place of a cookie at {path}", _refused(sent, status=401))


def _with_bearer(make: Callable[[World], str]) -> Attack:
    async def attack(world: World) -> object:
        token = make(world).encode("utf-8", "replace").decode("latin-1")
        headers = {"Authorization": f"Bearer {token}"}
        tried = [
            Sent("/v1/tools/top_memories", headers, "POST"),
            Sent("/v1/services/memory.health", headers, "POST"),
            Sent("/v1/memories", headers),
            Sent("/v1/memories/{id}", headers),
            Sent("/v1/events", headers),
            Sent(DOCUMENT, headers),
            Sent("/mem0/v1/ping/", headers),
        ]
        return await _refused(*tried, status=(400, 401, 403, CLOSED))(world)

    return attack


def _bearers() -> Iterator[Case]:
    """Every forged token, at each kind of path."""
    for name, make in TOKENS.items():
        yield Case(f"HTTP with a token {name}", _with_bearer(make))


# What is too large.
def _sent_in_chunks(world: World, framing: str) -> Got:
    """Send a body that is longer than the server reads."""
    known = known_names(world)
    address = urlsplit(f"http://{known['host']}")
    head = (
        f"POST /v1/tools/recall HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {known['bob']}"
        f"\r\nContent-Type: application/json\r\n{framing}\r\n\r\n"
    )
    chunk = b"x" * 1_000_000
    part = b"%x\r\n%s\r\n" % (len(chunk), chunk) if "chunked" in framing else chunk
    with socket.create_connection((address.hostname, address.port or 0), timeout=30) as connection:
        connection.sendall(head.encode())
        try:
            for _ in range(9):
                connection.sendall(part)
        except OSError:  # the server has answered and closed the connection
            pass
        answer = connection.recv(1_000).decode()
    return Got(int(answer.split()[1]), {}, answer)


def _sending_in_chunks(framing: str) -> Attack:
    async def attack(world: World) -> object:
        got = await asyncio.to_thread(_sent_in_chunks, world, framing)
        assert got.status == HTTPStatus.REQUEST_ENTITY_TOO_LARGE
        return got

    return attack


def _excess() -> Iterator[Case]:
    own = {**COOKIE, "Origin": "http://{host}"}
    for name, headers, status in (
        ("a declared length", {"Content-Length": str(MAX_UPLOAD + 1)}, 413),
        ("no declared length", {"Transfer-Encoding": "chunked"}, 411),
    ):
        sent = Sent(UPLOAD, {**own, **headers}, "POST")
        yield Case(f"an oversized upload with {name}", _refused(sent, status=status))
    long = Sent(SIGN_IN, {**own, **FORM}, "POST", b"token=" + b"x" * MAX_FORM)
    yield Case("an oversized form", _refused(long, status=413))
    for framing in ("Content-Length: 9000000", "Transfer-Encoding: chunked"):
        yield Case(f"an oversized body with {framing}", _sending_in_chunks(framing))


# Files that somebody was given, and imports.
CHATS = {"conversations.json": [chatgpt_chat("c1", [chatgpt_message("m1", "Fine.")])]}
BOMB = b" " * 50_000_000
LEADS_OUT = ("../../etc/passwd", "/etc/shadow", "C:\\windows\\x.txt", "a\\..\\..\\x.txt")


def _read(file: Path) -> tuple[list[Item], dict[str, int]]:
    with opened(file) as source:
        items = list(source.items())
        return items, {group.reason: group.count for group in source.left_out.groups()}


def _importing(contents: Mapping[str, object], reason: str | None, *, link: bool = False) -> Attack:
    """An archive of which only the chat is read, for this reason; None: it is refused whole."""

    async def attack(_: World) -> object:
        with TemporaryDirectory() as folder:
            file = archive_of(Path(folder) / "given.zip", contents)
            if link:
                with zipfile.ZipFile(file, "a") as archive:
                    named = zipfile.ZipInfo("link.txt")
                    named.external_attr = 0o120777 << 16
                    archive.writestr(named, "/etc/passwd")
            try:
                items, left_out = await asyncio.to_thread(_read, file)
            except TooLargeError as error:
                assert reason is None
                return error
        assert reason is not None
        assert (len(items), left_out[reason]) == (1, 1)
        return left_out

    return attack


def _files() -> Iterator[Case]:
    noise = os.urandom(1_000_000)  # it lets the whole archive pass
    unpacked = "more than 200 times as large unpacked, like a zip bomb"
    yield Case("a zip bomb", _importing({"conversations.json": BOMB}, None))
    for name in ("more.json", "deep/a.txt", "a.pdf"):
        hidden = {**CHATS, "conversations-2.json": noise, name: BOMB}
        yield Case(f"a zip bomb among other files: {name}", _importing(hidden, unpacked))
    for path in LEADS_OUT:
        out = _importing({**CHATS, path: "out"}, "paths that lead out of the archive")
        yield Case(f"an archive with the path {path}", out)
    yield Case("an archive with a link", _importing(CHATS, "links", link=True))


CASES = [
    *_rebinding(),
    *_forged_requests(),
    *_sockets(),
    *_cookies(),
    *_paths(),
    *_ids(),
    *_bearers(),
    *_excess(),
    *_files(),
]
