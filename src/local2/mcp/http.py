"""`local2 mcp --http`: serve MCP over streamable HTTP on this machine, to clients with the token.

All clients act as the configured user.
"""

import hmac
from collections.abc import Callable
from http import HTTPStatus
from typing import NamedTuple

from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.transport_security import (
    DEFAULT_MAX_REQUEST_BODY_SIZE,
    TransportSecuritySettings,
)
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from local2 import loopback
from local2.mcp.messages import UnreadableMessageError, readable
from local2.mcp.server import serving
from local2.settings import Settings

TOKEN_FILE = "mcp-token"  # noqa: S105 - a file name
WHERE_CONFIGURED = "LOCAL2_MCP__TOKEN or config/mcp.yaml"


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
    token, token_is_in = settings.mcp.token, WHERE_CONFIGURED
    if not token:
        file = settings.memory.data_dir / TOKEN_FILE
        token, token_is_in = loopback.load_or_create_token(file), str(file)
    # Connections queue until they are served.
    with loopback.listen(settings.mcp.port, "LOCAL2_MCP__PORT") as listener:
        url = loopback.url_of(listener)
        async with serving(settings) as server:
            app = server.streamable_http_app(
                host=loopback.HOST,
                token_verifier=_TokenVerifier(token),
                auth=AuthSettings(issuer_url=AnyHttpUrl(url), resource_server_url=None),
                # Its check compares beginnings only; `loopback.serve` compares the whole.
                transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
            )
            app.add_exception_handler(UnreadableMessageError, _refuse)
            address = ServerAddress(f"{url}/mcp", token_is_in)
            on_ready(address)
            await loopback.serve(
                listener, _WithTokenHint(_WithReadableBodies(app), address), PlainTextResponse
            )


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
