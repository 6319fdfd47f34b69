"""Send a few requests over NATS on a plain socket, within a deadline.

Hooks do not use `client.access`, because importing nats-py takes longer than a prompt may wait
(decision 0021). They need little of the protocol: to connect, to publish, and to read the inbox.
"""

import base64
import os
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self
from urllib.parse import unquote, urlsplit

import msgspec

from local2.errors import (
    BusError,
    BusTimeoutError,
    NoRespondersError,
    StackNotRunningError,
    without_credentials,
)

if TYPE_CHECKING:  # needed only with accounts, and slow to import
    from local2.tenants.credentials import Credentials

INBOX = "_INBOX"
PORT = 4222
MAX_LINE_BYTES = 64 * 1024
"""Maximum bytes of a line of the protocol; INFO is the longest."""
MAX_PAYLOAD_BYTES = 8 * 1024 * 1024
"""Maximum bytes of a reply."""
NO_RESPONDERS_STATUS = b" 503"
"""The status of the server's own reply when nobody serves a subject."""


class WireRequest(NamedTuple):
    subject: str
    data: bytes


class Wire:
    """A connection to a NATS server, open while its context lasts."""

    def __init__(self, url: str, credentials: "Credentials | None", *, within: float) -> None:
        """Prepare a connection. All requests together have `within` seconds from now."""
        self._url = urlsplit(url if "://" in url else f"nats://{url}")
        self._credentials = credentials
        self._ends = time.monotonic() + within
        self._within = within
        inbox = credentials.inbox if credentials else INBOX
        self._inbox = f"{inbox}.{os.urandom(11).hex()}"

    def __enter__(self) -> Self:
        """Connect.

        Raises:
            BusTimeoutError: The server does not answer in time.
            StackNotRunningError: There is no server.
        """
        address = self._url.hostname or "127.0.0.1", self._url.port or PORT
        try:
            self._socket = socket.create_connection(address, timeout=self._seconds_left())
            self._read = self._socket.makefile("rb")
            with ExitStack() as on_failure:
                on_failure.callback(self._close)
                self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._handshake()
                on_failure.pop_all()
        except TimeoutError as error:
            raise self._too_slow("The NATS server did not answer") from error
        except OSError as error:
            shown = without_credentials(self._url.geturl())
            raise StackNotRunningError(f"No NATS server answers at {shown}.") from error
        return self

    def __exit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self._close()

    def _close(self) -> None:
        self._read.close()
        self._socket.close()

    def ask(self, requests: Sequence[WireRequest]) -> list[bytes | None]:
        """Send requests, and return their replies in order; None for a request without a reply.

        Raises:
            BusTimeoutError: No reply arrived in time.
            NoRespondersError: Nobody serves any of the subjects.
            BusError: The server refuses something, or the connection is lost.
        """
        token = self._credentials.token if self._credentials else None
        headers = f"NATS/1.0\r\nAuthorization: Bearer {token}\r\n\r\n".encode() if token else b""
        answers: dict[int, bytes | None] = {}
        try:
            for number, (subject, data) in enumerate(requests):
                names = f"{subject} {self._inbox}.{number}".encode()
                if headers:
                    sizes = b"%d %d" % (len(headers), len(headers) + len(data))
                    self._send(b"HPUB %s %s\r\n%s%s\r\n" % (names, sizes, headers, data))
                else:
                    self._send(b"PUB %s %d\r\n%s\r\n" % (names, len(data), data))
            while len(answers) < len(requests):
                number, answer = self._next_reply()
                answers[number] = answer
        except TimeoutError as error:
            if not answers:
                raise self._too_slow("The memory did not answer") from error
        except OSError as error:
            raise BusError(f"The connection was lost: {error}.") from error
        if not any(answers.values()):
            raise NoRespondersError("The memory does not serve its tools yet.")
        return [answers.get(number) for number in range(len(requests))]

    def _too_slow(self, what: str) -> BusTimeoutError:
        if self._within <= 0:
            return BusTimeoutError("No time was left to ask the memory.")
        return BusTimeoutError(f"{what} within {self._within * 1000:.0f} ms.")

    def _seconds_left(self) -> float:
        """The seconds left; raises TimeoutError if there are none."""
        left = self._ends - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    def _handshake(self) -> None:
        info = msgspec.json.decode(self._read_line().removeprefix(b"INFO "), type=_ServerInfo)
        if info.tls_required or self._url.scheme == "tls":
            import ssl  # noqa: PLC0415 - rarely needed, and slow to import

            context = ssl.create_default_context()
            self._socket = context.wrap_socket(self._socket, server_hostname=self._url.hostname)
            self._read = self._socket.makefile("rb")
        hello = _ConnectOptions("local2-hook", "python", "1", False, False, True, True, 1)
        if self._url.username:
            hello.user = unquote(self._url.username)
            hello.password = unquote(self._url.password or "")
        if self._credentials is not None and info.nonce:
            import nkeys  # noqa: PLC0415 - needed only with accounts, and slow to import

            key = nkeys.from_seed(self._credentials.seed.encode())
            hello.nkey = key.public_key.decode()
            hello.signature = base64.b64encode(key.sign(info.nonce.encode())).decode()
        options = msgspec.json.encode(hello)
        self._send(b"CONNECT %s\r\nSUB %s.* 1\r\n" % (options, self._inbox.encode()))

    def _next_reply(self) -> tuple[int, bytes | None]:
        """Read up to the next reply; it comes with the number of its request."""
        while True:
            line = self._read_line()
            verb, *words = line.split()
            match verb:
                case b"PING":
                    self._send(b"PONG\r\n")
                case b"-ERR":
                    raise BusError(f"The NATS server refuses: {line[5:].decode()}.")
                case b"MSG":
                    return _request_number(words), self._read_payload(int(words[-1]))
                case b"HMSG":
                    sizes = int(words[-2]), int(words[-1])
                    whole = self._read_payload(sizes[1])
                    nobody = whole.startswith(b"NATS/1.0" + NO_RESPONDERS_STATUS)
                    return _request_number(words), None if nobody else whole[sizes[0] :]

    def _read_line(self) -> bytes:
        self._socket.settimeout(self._seconds_left())
        line = self._read.readline(MAX_LINE_BYTES)
        if not line.endswith(b"\r\n"):
            raise ConnectionResetError("the server closed it")
        return line[:-2]

    def _read_payload(self, size: int) -> bytes:
        """Read a payload, without the line ending that follows it."""
        if size > MAX_PAYLOAD_BYTES:
            raise BusError(f"An answer has {size} bytes.")
        data = b""
        while len(data) < size + 2:
            self._socket.settimeout(self._seconds_left())
            piece = self._read.read1(size + 2 - len(data))
            if not piece:
                raise ConnectionResetError("the server closed it")
            data += piece
        return data[:-2]

    def _send(self, data: bytes) -> None:
        self._socket.settimeout(self._seconds_left())
        self._socket.sendall(data)


class _ServerInfo(msgspec.Struct):
    """The needed fields of INFO, the server's first message."""

    nonce: str | None = None
    tls_required: bool = False


class _ConnectOptions(msgspec.Struct, omit_defaults=True):
    """The options of CONNECT, the client's first message.

    With `headers` and `no_responders`, the server reports that nobody serves a subject.
    """

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


def _request_number(words: Sequence[bytes]) -> int:
    """Which request a reply answers: the inbox of the reply ends with its number."""
    return int(words[0].rpartition(b".")[2])
