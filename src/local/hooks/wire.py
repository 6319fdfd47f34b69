"""A few requests over NATS, on one plain socket, within a deadline.

Importing nats-py takes longer than a prompt may wait. Little of the protocol is needed here:
connecting, publishing, and reading the inbox.
"""

import base64
import os
import socket
import time
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import SplitResult, unquote, urlsplit

import msgspec

from local.errors import (
    BusError,
    BusTimeoutError,
    NoRespondersError,
    StackNotRunningError,
    without_credentials,
)

if TYPE_CHECKING:  # needed with accounts only, and slow to import
    from local.tenants.credentials import Credentials

INBOX = "_INBOX"
PORT = 4222
LONGEST_LINE = 64 * 1024
"""Bytes; INFO is the longest of the protocol's lines."""
MOST_BYTES = 8 * 1024 * 1024
NOBODY = b" 503"
"""The status of the server's own answer where nobody serves a subject."""


class Request(NamedTuple):
    subject: str
    data: bytes


class Wire:
    """A connection for as long as its context lasts."""

    def __init__(self, url: str, credentials: "Credentials | None", *, within: float) -> None:
        """`within`: seconds from now, for everything together."""
        self._url = urlsplit(url if "://" in url else f"nats://{url}")
        self._credentials = credentials
        self._ends = time.monotonic() + within
        inbox = credentials.inbox if credentials else INBOX
        self._inbox = f"{inbox}.{os.urandom(11).hex()}"

    def __enter__(self) -> Self:
        address = self._url.hostname or "127.0.0.1", self._url.port or PORT
        try:
            self._socket = socket.create_connection(address, timeout=self._left())
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._read = self._socket.makefile("rb")
            self._introduce()
        except OSError as error:
            shown = without_credentials(self._url.geturl())
            raise StackNotRunningError(f"No NATS server answers at {shown}.") from error
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._read.close()
        self._socket.close()

    def ask(self, requests: Sequence[Request]) -> list[bytes | None]:
        """Send all, and return their answers in their order; None for one without an answer.

        Raises:
            BusTimeoutError: None came in time.
            NoRespondersError: None of them has a server.
            BusError: The server refuses something, or the connection is lost.
        """
        headers = self._headers()
        answers: dict[int, bytes | None] = {}
        try:
            for number, (subject, data) in enumerate(requests):
                self._publish(subject, f"{self._inbox}.{number}", headers, data)
            while len(answers) < len(requests):
                number, answer = self._next()
                answers[number] = answer
        except TimeoutError as error:
            if not answers:
                raise BusTimeoutError("No answer came in time.") from error
        except OSError as error:
            raise BusError(f"The connection was lost: {error}.") from error
        if not any(answers.values()):
            raise NoRespondersError("The memory does not serve its tools yet.")
        return [answers.get(number) for number in range(len(requests))]

    def _left(self) -> float:
        """Return the seconds left; raise a TimeoutError if there are none."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _introduce(self) -> None:
        info = msgspec.json.decode(self._line().removeprefix(b"INFO "), type=_Info)
        if info.tls_required or self._url.scheme == "tls":
            self._encrypt()
        hello = msgspec.json.encode(_hello(info, self._url, self._credentials))
        self._send(b"CONNECT %s\r\nSUB %s.* 1\r\n" % (hello, self._inbox.encode()))

    def _encrypt(self) -> None:
        import ssl  # noqa: PLC0415 - few need it, and it takes long to import

        context = ssl.create_default_context()
        self._socket = context.wrap_socket(self._socket, server_hostname=self._url.hostname)
        self._read = self._socket.makefile("rb")

    def _headers(self) -> bytes:
        token = self._credentials.token if self._credentials else None
        return f"NATS/1.0\r\nAuthorization: Bearer {token}\r\n\r\n".encode() if token else b""

    def _publish(self, subject: str, reply: str, headers: bytes, data: bytes) -> None:
        names = f"{subject} {reply}".encode()
        if headers:
            sizes = b"%d %d" % (len(headers), len(headers) + len(data))
            self._send(b"HPUB %s %s\r\n%s%s\r\n" % (names, sizes, headers, data))
        else:
            self._send(b"PUB %s %d\r\n%s\r\n" % (names, len(data), data))

    def _next(self) -> tuple[int, bytes | None]:
        """Return the next answer, with the number of its request."""
        while True:
            line = self._line()
            verb, *words = line.split()
            match verb:
                case b"PING":
                    self._send(b"PONG\r\n")
                case b"-ERR":
                    raise BusError(f"The NATS server refuses: {line[5:].decode()}.")
                case b"MSG":
                    return _number(words), self._bytes(int(words[-1]))
                case b"HMSG":
                    sizes = int(words[-2]), int(words[-1])
                    whole = self._bytes(sizes[1])
                    nobody = whole.startswith(b"NATS/1.0" + NOBODY)
                    return _number(words), None if nobody else whole[sizes[0] :]

    def _line(self) -> bytes:
        self._socket.settimeout(self._left())
        line = self._read.readline(LONGEST_LINE)
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed it")
        return line[:-2]

    def _bytes(self, size: int) -> bytes:
        """Return a payload, without the line's end behind it."""
        if size > MOST_BYTES:
            raise BusError(f"An answer has {size} bytes.")
        data = b""
        while len(data) < size + 2:
            self._socket.settimeout(self._left())
            piece = self._read.read1(size + 2 - len(data))
            if not piece:
                raise ConnectionResetError("the server closed it")
            data += piece
        return data[:-2]

    def _send(self, data: bytes) -> None:
        self._socket.settimeout(self._left())
        self._socket.sendall(data)


class _Info(msgspec.Struct):
    """The server's first message, as far as it is needed."""

    nonce: str | None = None
    tls_required: bool = False


class _Hello(msgspec.Struct, omit_defaults=True):
    """The client's first message. `headers` and `no_responders`: a missing receiver is reported."""

    name: str
    lang: str
    version: str
    verbose: bool
    pedantic: bool
    headers: bool
    no_responders: bool
    protocol: int
    user: str | None = None
    password: str | None = msgspec.field(default=None, name="pass")
    nkey: str | None = None
    signature: str | None = msgspec.field(default=None, name="sig")


def _hello(info: _Info, url: SplitResult, credentials: "Credentials | None") -> _Hello:
    hello = _Hello("local2-hook", "python", "1", False, False, True, True, 1)
    if url.username:
        hello.user, hello.password = unquote(url.username), unquote(url.password or "")
    if credentials is not None and info.nonce:
        import nkeys  # noqa: PLC0415 - without accounts it is not needed, and takes long to import

        key = nkeys.from_seed(credentials.seed.encode())
        hello.nkey = key.public_key.decode()
        hello.signature = base64.b64encode(key.sign(info.nonce.encode())).decode()
    return hello


def _number(words: Sequence[bytes]) -> int:
    """Return the number that the inbox of an answer ends with."""
    return int(words[0].rpartition(b".")[2])
