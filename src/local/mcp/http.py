"""`local2 mcp --http`: streamable HTTP on this machine, for everyone with the token.

The SDK refuses requests that name another host, or come from another site's page (DNS rebinding).
Every client is the configured user.
"""

import hmac
import os
import secrets
import socket
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from typing import NamedTuple

import uvicorn
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from pydantic import AnyHttpUrl
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from local.errors import ConfigError, UnwritableError
from local.mcp.server import serving
from local.settings import Settings

HOST = "127.0.0.1"
TOKEN_FILE = "mcp-token"  # noqa: S105 - its name
CONFIGURED = "LOCAL2_MCP__TOKEN or config/mcp.yaml"
CLOSING = 1
"""Seconds for answers in progress when it stops; a listening client would go on without end."""


class Address(NamedTuple):
    """The address of the server, and the place of its token."""

    url: str
    token_is_in: str


async def serve(settings: Settings, on_ready: Callable[[Address], None]) -> None:
    """Serve until interrupted; `on_ready` is called once clients may connect.

    Raises:
        ConfigError: The port is taken.
        UnwritableError: The token cannot be stored.
    """
    token, file = _token(settings)
    with _listening(settings.mcp.port) as listener:
        url = f"http://{HOST}:{listener.getsockname()[1]}"
        async with serving(settings) as server:
            app = server.streamable_http_app(
                host=HOST,
                token_verifier=_Holder(token),
                auth=AuthSettings(issuer_url=AnyHttpUrl(url), resource_server_url=None),
            )
            address = Address(f"{url}/mcp", str(file or CONFIGURED))
            config = uvicorn.Config(
                _Explained(app, address),
                log_config=None,
                access_log=False,
                timeout_graceful_shutdown=CLOSING,
            )
            on_ready(address)
            await uvicorn.Server(config).serve([listener])


class _Holder:
    """The holder of the one token."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()

    async def verify_token(self, token: str) -> AccessToken | None:
        if not hmac.compare_digest(token.encode(), self._token):
            return None
        return AccessToken(token=token, client_id="local2", scopes=[])


class _Explained:
    """Answers a client that the SDK refuses for want of the token with the token's place."""

    def __init__(self, app: ASGIApp, address: Address) -> None:
        self._app = app
        wanted = f"Send `Authorization: Bearer TOKEN`, with the token of {address.token_is_in}."
        self._refusal = JSONResponse(
            {"error": "invalid_token", "error_description": wanted},
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


def _listening(port: int) -> socket.socket:
    """Return a socket that accepts connections from now on; they wait until they are served."""
    try:
        return socket.create_server((HOST, port))
    except OSError as error:
        raise ConfigError(
            f"Nothing can listen on {HOST}:{port}: {error.strerror}.",
            remedy="Choose another with --port, or stop what listens there.",
        ) from error


def _token(settings: Settings) -> tuple[str, Path | None]:
    """Return the configured token, else the one in the file, which is created if necessary."""
    if settings.mcp.token:
        return settings.mcp.token, None
    file = settings.memory.data_dir / TOKEN_FILE
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    except FileExistsError:
        return _stored(file), file
    except OSError as error:
        raise UnwritableError(file, error) from error
    token = secrets.token_urlsafe(32)
    with os.fdopen(descriptor, "w", encoding="ascii") as written:
        written.write(f"{token}\n")
    return token, file


def _stored(file: Path) -> str:
    try:
        token = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file} cannot be read: {error}.", remedy="Delete it.") from error
    if not token:
        raise ConfigError(f"{file} holds no token.", remedy="Delete it; another one is made.")
    return token
