"""`local2 mcp --http`: serve MCP over streamable HTTP on this machine, to clients with the token.

Requests that name another host or come from another site's page (DNS rebinding) are refused. All
clients act as the configured user.
"""

import asyncio
import hmac
import os
import re
import secrets
import socket
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import h11
import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import (
    DEFAULT_MAX_REQUEST_BODY_SIZE,
    TransportSecuritySettings,
)
from pydantic import AnyHttpUrl
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from local2.errors import ConfigError, UnwritableError
from local2.mcp.messages import UnreadableMessageError, readable
from local2.mcp.server import serving
from local2.settings import Settings

HOST = "127.0.0.1"
TOKEN_FILE = "mcp-token"  # noqa: S105 - a file name
WHERE_CONFIGURED = "LOCAL2_MCP__TOKEN or config/mcp.yaml"
CLOSE_SECONDS = 1
"""Seconds for requests in progress when the server stops; a listening client would never end."""

REQUEST_SECONDS = 10.0
"""Seconds in which a request must have arrived, with its body."""
_THIS_MACHINE = r"(?:127\.0\.0\.1|localhost|\[::1\])(?::\d{1,5})?"
_LOCAL_HOST = re.compile(_THIS_MACHINE, re.IGNORECASE | re.ASCII)
_LOCAL_ORIGIN = re.compile(f"http://{_THIS_MACHINE}", re.IGNORECASE | re.ASCII)


class ServerAddress(NamedTuple):
    """The address of the server, and where its token is."""

    url: str
    token_is_in: str


async def serve(settings: Settings, on_ready: Callable[[ServerAddress], None]) -> None:
    """Serve until interrupted; call `on_ready` once clients can connect.

    Raises:
        ConfigError: The port is taken.
        UnwritableError: The token cannot be stored.
    """
    token, file = _load_or_create_token(settings)
    try:
        listener = socket.create_server((HOST, settings.mcp.port))
    except OSError as error:
        raise ConfigError(
            f"The server cannot listen on {HOST}:{settings.mcp.port}: {error.strerror}.",
            remedy="Choose another port with --port, or stop the program that uses this one.",
        ) from error
    with listener:  # connections queue until they are served
        url = f"http://{HOST}:{listener.getsockname()[1]}"
        async with serving(settings) as server:
            app = server.streamable_http_app(
                host=HOST,
                token_verifier=_TokenVerifier(token),
                auth=AuthSettings(issuer_url=AnyHttpUrl(url), resource_server_url=None),
                # Its check compares beginnings only; `_ForThisMachine` compares the whole.
                transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            )
            app.add_exception_handler(UnreadableMessageError, _refuse)
            address = ServerAddress(f"{url}/mcp", str(file or WHERE_CONFIGURED))
            config = uvicorn.Config(
                _ForThisMachine(_WithTokenHint(_WithReadableBodies(app), address)),
                http=TimelyProtocol,
                ws="none",
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=CLOSE_SECONDS,
            )
            on_ready(address)
            await uvicorn.Server(config).serve([listener])


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
        if self.conn.their_state not in {h11.IDLE, h11.SEND_BODY}:
            self._stop_watching()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.close)

    def _stop_watching(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None


class _ForThisMachine:
    """Refuses requests that name another host, or come from another site's page."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer: ASGIApp = self._app
        if scope["type"] == "http":
            headers = Headers(scope=scope)
            if not _LOCAL_HOST.fullmatch(headers.get("host", "")):
                problem = "Name the host 127.0.0.1 or localhost: this server is for this machine."
                answer = PlainTextResponse(problem, HTTPStatus.MISDIRECTED_REQUEST)
            elif not all(map(_LOCAL_ORIGIN.fullmatch, headers.getlist("origin"))):
                problem = "Pages of other sites are not served."
                answer = PlainTextResponse(problem, HTTPStatus.FORBIDDEN)
        await answer(scope, receive, send)


class _TokenVerifier:
    """Accepts the one token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        if not hmac.compare_digest(token.encode(), self._token):
            return None
        return AccessToken(token=token, client_id="local2", scopes=[])


class _WithTokenHint:
    """Adds to the SDK's refusals of clients without the token where the token is."""

    def __init__(self, app: ASGIApp, address: ServerAddress) -> None:
        self._app = app
        hint = f"Send `Authorization: Bearer TOKEN`, with the token in {address.token_is_in}."
        self._refusal = JSONResponse(
            {"error": "invalid_token", "error_description": hint},
            status_code=HTTPStatus.UNAUTHORIZED,
            headers={"WWW-Authenticate": 'Bearer error="invalid_token"'},
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refused = False

        async def answer(message: Message) -> None:
            nonlocal refused
            if message.get("status") == HTTPStatus.UNAUTHORIZED:
                refused = True
                await self._refusal(scope, receive, send)
            elif not refused:
                await send(message)

        await self._app(scope, receive, answer)


class _WithReadableBodies:
    """Gives the SDK the whole body of a request at once, if it is a message that can be read."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope.get("method") != "POST":
            await self._app(scope, receive, send)
            return

        async def receive_whole() -> Message:
            body, message = b"", await receive()
            while message["type"] == "http.request":
                body += message.get("body", b"")
                if not message.get("more_body"):
                    return {**message, "body": readable(body)}
                if len(body) > DEFAULT_MAX_REQUEST_BODY_SIZE:
                    return {**message, "body": body}  # the SDK refuses it
                message = await receive()
            return message

        await self._app(scope, receive_whole, send)


async def _refuse(_: Request, error: Exception) -> Response:
    assert isinstance(error, UnreadableMessageError)  # noqa: S101 - it is registered for these
    return Response(error.reply, HTTPStatus.BAD_REQUEST, media_type="application/json")


def _load_or_create_token(settings: Settings) -> tuple[str, Path | None]:
    """The configured token, or else that in the token file, which is created if missing."""
    if settings.mcp.token:
        return settings.mcp.token, None
    file = settings.memory.data_dir / TOKEN_FILE
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        try:
            token = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{file} cannot be read: {error}.", remedy="Delete it.") from error
        if not token:
            raise ConfigError(
                f"{file} holds no token.", remedy="Delete it; a new one is created then."
            ) from None
        return token, file
    except OSError as error:
        raise UnwritableError(file, error) from error
    token = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w", encoding="ascii") as written:
        written.write(f"{token}\n")
    return token, file
