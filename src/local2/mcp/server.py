"""The SDK's server: determine callers, answer requests, and announce changes of tools.

The caller is determined by the configuration and the client's own name, never by arguments. A
change of tools is announced in both ways that the protocol has defined: clients with a handshake
are notified on their connection, and clients without one send a request to listen
(`subscriptions/listen`).
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Any
from weakref import WeakSet

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

from local2._version import __version__
from local2.background import running_task
from local2.client.stack_tools import StackTools
from local2.errors import Local2Error, RequestError, quoted
from local2.home import user_name
from local2.mcp import opening
from local2.mcp.bridge import NAME, Ask, Bridge
from local2.mcp.primitives import (
    PROMPTS,
    as_result,
    as_tool,
    listed_resources,
    prompt_of,
    read_resource,
    resource_templates,
)
from local2.protocol.envelope import Sender, new_id
from local2.protocol.payloads import Json, ToolProgress, ToolResult
from local2.settings import McpSettings, Settings

UNKNOWN_AGENT = "mcp"
MAX_NAME_CHARACTERS = 64
_REFUSED_IN_NAMES = re.compile(r"[^\w.-]+")
SESSION_HEADER = "mcp-session-id"
"""The HTTP header with the connection's id, which the server assigned."""
GATHER_SECONDS = 0.2
"""Seconds during which changes are gathered into one announcement."""
Context = ServerRequestContext[Any, Any]


def agent_of(settings: McpSettings, client: str | None) -> str:
    """The configured agent, or else the client's name, cleaned for an agent's name."""
    if settings.agent:
        return settings.agent
    cleaned = _REFUSED_IN_NAMES.sub("-", (client or "").casefold())[:MAX_NAME_CHARACTERS].strip(
        "-._"
    )
    return cleaned or UNKNOWN_AGENT


class Callers:
    """Determines the callers of a server's requests."""

    def __init__(self, link: StackTools, settings: McpSettings) -> None:
        self._link = link
        self._settings = settings
        self._user = user_name(settings.user)
        self._session = new_id()

    async def of(self, ctx: Context) -> Sender:
        """Who calls. Requests over HTTP have no session unless they name one."""
        client, session = ctx.session.client_params, self._session
        if ctx.request is not None:
            session = ctx.request.headers.get(SESSION_HEADER)
        return Sender(
            user=self._user,
            agent=agent_of(self._settings, client.client_info.name if client else None),
            session_id=self._settings.session or session,
            token=await self._link.tokens.token_for(self._user),
        )


class ToolChanges:
    """Announces changes of tools to the connected clients; call `notice` anywhere on the loop."""

    def __init__(self) -> None:
        self.listening = InMemorySubscriptionBus()
        self._connections: WeakSet[Connection] = WeakSet()
        self._changed = asyncio.Event()

    async def connected(self, ctx: ServerRequestContext[Any], _: types.NotificationParams) -> None:
        """Store a connection. The SDK's sessions cannot be stored: each lasts for one message."""
        self._connections.add(ctx.session._connection)  # noqa: SLF001 - no public object lasts

    def notice(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Announce changes until cancelled."""
        method = types.ToolListChangedNotification().method
        while True:
            await self._changed.wait()
            await asyncio.sleep(GATHER_SECONDS)
            self._changed.clear()
            await self.listening.publish(ToolsListChanged())
            for connection in list(self._connections):
                await connection.notify(method, None)


class MemoryServer(Server[Any]):
    """Answers clients of any protocol version, over any transport."""

    def __init__(self, bridge: Bridge, callers: Callers, changes: ToolChanges) -> None:
        super().__init__(
            opening.NAME,
            version=__version__,
            title=opening.TITLE,
            instructions=opening.INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
            on_list_resources=self._list_resources,
            on_list_resource_templates=self._list_templates,
            on_read_resource=self._read_resource,
            on_subscriptions_listen=ListenHandler(changes.listening),
        )
        self._bridge = bridge
        self._callers = callers
        self.add_notification_handler(
            "notifications/initialized", types.NotificationParams, changes.connected
        )

    def create_initialization_options(
        self,
        notification_options: NotificationOptions | None = None,
        experimental_capabilities: dict[str, dict[str, Any]] | None = None,
        extensions: dict[str, dict[str, Any]] | None = None,
    ) -> InitializationOptions:
        """Declare for all transports that changes of tools are announced."""
        return super().create_initialization_options(
            notification_options or NotificationOptions(tools_changed=True),
            experimental_capabilities,
            extensions,
        )

    async def _list_tools(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        with _protocol_errors():
            return types.ListToolsResult(tools=list(map(as_tool, await self._bridge.tools())))

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async def report(progress: ToolProgress) -> None:
            await ctx.session.report_progress(progress.progress, progress.total, progress.message)

        try:
            offered = await self._bridge.offers(params.name)
        except Local2Error:  # unknown without a stack, whose absence the call reports
            offered = True
        if not offered:
            raise MCPError(types.INVALID_PARAMS, f"No tool {quoted(params.name)} is offered.")
        wanted = "progress_token" in (ctx.meta or {})
        result = await self._bridge.call(
            params.name,
            params.arguments or {},
            await self._callers.of(ctx),
            report if wanted else None,
        )
        return as_result(result)

    async def _list_prompts(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListPromptsResult:
        return types.ListPromptsResult(prompts=[prompt.listed() for prompt in PROMPTS.values()])

    async def _get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        with _protocol_errors():
            return await prompt_of(params.name, params.arguments or {}, self._ask(ctx))

    async def _list_resources(
        self, ctx: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        with _protocol_errors():
            return types.ListResourcesResult(resources=await listed_resources(self._ask(ctx)))

    async def _list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resource_templates())

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        with _protocol_errors():
            return await read_resource(str(params.uri), self._ask(ctx))

    def _ask(self, ctx: Context) -> Ask:
        """Make a function that calls the memory's tools for this request, in any profile."""

        async def ask(tool: str, args: Json) -> ToolResult:
            return await self._bridge.ask(tool, args, await self._callers.of(ctx))

        return ask


@contextmanager
def _protocol_errors() -> Iterator[None]:
    """Turn our errors into the protocol's, for requests that are not tool calls."""
    try:
        yield
    except RequestError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error
    except Local2Error as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[MemoryServer]:
    """Open a server that connects to the stack, and reconnects if necessary.

    Raises:
        ConfigError: The profile is wrong.
    """
    changes = ToolChanges()
    user = user_name(settings.mcp.user)
    async with StackTools(settings, name=NAME, user=user, on_change=changes.notice) as link:
        server = MemoryServer(Bridge(link, settings.mcp), Callers(link, settings.mcp), changes)
        async with running_task(changes.run(), "tool_changes"):
            yield server
