"""The sender of each call: the configured user, the client's name, the connection's session."""

from typing import Any

from mcp.server.context import ServerRequestContext

from local.mcp.identity import agent_of, user_of
from local.mcp.link import Link
from local.protocol.envelope import Sender, new_id
from local.settings import McpSettings

SESSION_HEADER = "mcp-session-id"
"""Which connection it is, over HTTP; the server made it."""


class Callers:
    """Who asks, for every request of a server."""

    def __init__(self, link: Link, settings: McpSettings) -> None:
        self._link = link
        self._settings = settings
        self._user = user_of(settings)
        self._session = new_id()

    async def of(self, ctx: ServerRequestContext[Any, Any]) -> Sender:
        """Who asks. Without a session of their own, requests over HTTP have none."""
        client = ctx.session.client_params
        return Sender(
            user=self._user,
            agent=agent_of(self._settings, client.client_info.name if client else None),
            session_id=self._settings.session or self._session_of(ctx),
            token=await self._link.tokens.of(self._user),
        )

    def _session_of(self, ctx: ServerRequestContext[Any, Any]) -> str | None:
        if ctx.request is None:
            return self._session
        session: str | None = ctx.request.headers.get(SESSION_HEADER)
        return session
