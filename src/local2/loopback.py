"""Serve HTTP on this machine only: a port, the token of its clients, and requests that are refused.

Requests that name another host or come from another site's page (DNS rebinding) are refused, so
that no web page can reach a server through its reader's browser.
"""

import asyncio
import os
import re
import secrets
import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus
from pathlib import Path
from types import FrameType

import h11
import uvicorn
from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from local2.atomic_file import PRIVATE_FILE, write_atomically
from local2.errors import ConfigError, UnwritableError

HOST = "127.0.0.1"
CLOSE_SECONDS = 1
"""Seconds for requests in progress when the server stops; a listening client would never end."""
REQUEST_SECONDS = 10.0
"""Seconds in which a request must have arrived, with its body."""
_THIS_MACHINE = r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?"
_LOCAL_HOST = re.compile(_THIS_MACHINE, re.IGNORECASE | re.ASCII)
_LOCAL_ORIGIN = re.compile(f"http://{_THIS_MACHINE}", re.IGNORECASE | re.ASCII)

Refuse = Callable[[str, HTTPStatus], ASGIApp]
"""Makes the answer to a refused request, of a problem and a status."""


def listen(port: int, setting: str, hint: str = "") -> socket.socket:
    """Listen on a port of this machine; 0 means any free one.

    `setting`: the variable that sets the port. `hint`: what else to say if the port is taken.

    Raises:
        ConfigError: The port is taken.
    """
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        why = os.strerror(error.errno or 0)  # its own text repeats the address
        raise ConfigError(
            f"The server cannot listen on {HOST}:{port}: {why}.",
            remedy=f"Choose another port with --port or {setting}, or stop the program that uses "
            f"this one. {hint}".rstrip(),
        ) from error


def url_of(listener: socket.socket) -> str:
    return f"http://{HOST}:{listener.getsockname()[1]}"


async def serve(
    listener: socket.socket, app: ASGIApp, refuse: Refuse, *, with_sockets: bool = False
) -> None:
    """Serve the app to this machine until interrupted.

    `with_sockets`: also websockets, whose hosts and origins the app itself must check.
    """
    config = uvicorn.Config(
        _ForThisMachine(app, refuse),
        http=TimelyProtocol,
        ws="websockets-sansio" if with_sockets else "none",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=CLOSE_SECONDS,
    )
    await _Server(config).serve([listener])


class _Server(uvicorn.Server):
    """Ends without an error for SIGTERM, as a stack does; Ctrl-C is sent again at the end."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        if sig == signal.SIGTERM:
            self.should_exit = True
        else:
            super().handle_exit(sig, frame)


class TimelyProtocol(H11Protocol):
    """Closes connections on which a request does not arrive in time.

    uvicorn itself limits only the time between two requests.
    """

    _deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._watch()

    def handle_events(self) -> None:
        super().handle_events()
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_watching()

    def _watch(self) -> None:
        """Limit the time while a request, or the rest of one, is expected."""
        is_socket = self.transport.get_protocol() is not self  # it has been upgraded
        if is_socket or self.conn.their_state not in {h11.IDLE, h11.SEND_BODY}:
            self._stop_watching()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _ForThisMachine:
    """Refuses requests that name another host, or come from another site's page."""

    def __init__(self, app: ASGIApp, refuse: Refuse) -> None:
        self._app = app
        self._refuse = refuse

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = self._app
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            if not _LOCAL_HOST.fullmatch(headers.get("host", "")):
                problem = "Name the host 127.0.0.1 or localhost: this server is for this machine."
                answer = self._refuse(problem, HTTPStatus.MISDIRECTED_REQUEST)
            elif not all(map(_LOCAL_ORIGIN.fullmatch, headers.getlist("origin"))):
                answer = self._refuse("Pages of other sites are not served.", HTTPStatus.FORBIDDEN)
        await answer(scope, receive, send)


def load_or_create_token(file: Path) -> str:
    """The token in a file, which only its owner can read, and which is created if it is missing.

    Raises:
        ConfigError: The file cannot be read, or is empty.
        UnwritableError: It cannot be created.
    """
    if not file.exists():
        whole = file.with_name(f"{file.name}.{secrets.token_hex(8)}.new")
        try:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_atomically(whole, f"{secrets.token_urlsafe(32)}\n".encode(), mode=PRIVATE_FILE)
            try:
                with suppress(FileExistsError):  # another server has created it meanwhile
                    os.link(whole, file)
            finally:
                whole.unlink()
        except OSError as error:
            raise UnwritableError(file, error) from error
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.", remedy="Delete it.") from error
    if not token:
        raise ConfigError(f"{file} holds no token.", remedy="Delete it; a new one is created then.")
    return token
