"""The SDK's server: who asks, how each request is answered, and who learns of changed tools.

The caller is known from the configuration, and from the client's own name; never from arguments. A
change of tools is announced in both ways that the protocol has had for it: clients with a handshake
are notified on their connection, and those without send a request to listen
(`subscriptions/listen`).
"""

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from typing import Any
from weakref import WeakSet

import mcp_types as types
from mcp.server.connection import Connection
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import InMemorySubscriptionBus, ListenHandler, ToolsListChanged
from mcp.shared.exceptions import MCPError

from local import __version__
from local.errors import Local2Error, RequestError, quoted
from local.home import person_of
from local.mcp import opening
from local.mcp.bridge import Ask, Bridge, Link
from local.mcp.primitives import (
    PROMPTS,
    as_result,
    as_tool,
    listed_resources,
    prompt_of,
    read_resource,
    resource_templates,
)
from local.protocol.envelope import Sender, new_id
from local.protocol.payloads import Json, ToolProgress, ToolResult
from local.settings import McpSettings, Settings

UNKNOWN = "mcp"
LONGEST_NAME = 64
_OTHERS = re.compile(r"[^\w.-]+")
SESSION_HEADER = "mcp-session-id"
"""The id of the connection, over HTTP; the server made it."""
TOGETHER = 0.2
"""Seconds: changes within them are announced once."""
Context = ServerRequestContext[Any, Any]


def user_of(settings: McpSettings) -> str:
    """Return the configured user, else the one who is logged in."""
    return person_of(settings.user)


def agent_of(settings: McpSettings, client: str | None) -> str:
    """Return the configured agent, else the client's name in the form of an agent's."""
    if settings.agent:
        return settings.agent
    cleaned = _OTHERS.sub("-", (client or "").casefold())[:LONGEST_NAME].strip("-._")
    return cleaned or UNKNOWN


class Callers:
    """The callers of a server's requests."""

    def __init__(self, link: Link, settings: McpSettings) -> None:
        self._link = link
        self._settings = settings
        self._user = user_of(settings)
        self._session = new_id()

    async def of(self, ctx: Context) -> Sender:
        """Return who asks. Requests over HTTP have no session unless they name one."""
        client = ctx.session.client_params
        return Sender(
            user=self._user,
            agent=agent_of(self._settings, client.client_info.name if client else None),
            session_id=self._settings.session or self._session_of(ctx),
            token=await self._link.tokens.of(self._user),
        )

    def _session_of(self, ctx: Context) -> str | None:
        if ctx.request is None:
            return self._session
        session: str | None = ctx.request.headers.get(SESSION_HEADER)
        return session


class Changes:
    """Announces changes to the connected clients; call `notice` anywhere on the loop."""

    def __init__(self) -> None:
        self.listening = InMemorySubscriptionBus()
        self._connections: WeakSet[Connection] = WeakSet()
        self._changed = asyncio.Event()

    async def connected(self, ctx: ServerRequestContext[Any], _: types.NotificationParams) -> None:
        """Remember a connection; a session is made for each message, and ends with it."""
        self._connections.add(ctx.session._connection)  # noqa: SLF001 - nothing public lasts

    def notice(self) -> None:
        self._changed.set()

    async def run(self) -> None:
        """Announce changes until cancelled."""
        method = types.ToolListChangedNotification().method
        while True:
            await self._changed.wait()
            await asyncio.sleep(TOGETHER)
            self._changed.clear()
            await self.listening.publish(ToolsListChanged())
            for connection in list(self._connections):
                await connection.notify(method, None)


class MemoryServer(Server[Any]):
    """Answers clients of any version, over any transport."""

    def __init__(self, bridge: Bridge, callers: Callers, changes: Changes) -> None:
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
        """Return the options of every transport, with the promise to announce changed tools."""
        return super().create_initialization_options(
            notification_options or NotificationOptions(tools_changed=True),
            experimental_capabilities,
            extensions,
        )

    async def _list_tools(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListToolsResult:
        with _errors():
            return types.ListToolsResult(tools=[as_tool(t) for t in await self._bridge.tools()])

    async def _call_tool(
        self, ctx: Context, params: types.CallToolRequestParams
    ) -> types.CallToolResult:
        async def report(progress: ToolProgress) -> None:
            await ctx.session.report_progress(progress.progress, progress.total, progress.message)

        if not await self._offered(params.name):
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
        return types.ListPromptsResult(prompts=[each.listed() for each in PROMPTS.values()])

    async def _get_prompt(
        self, ctx: Context, params: types.GetPromptRequestParams
    ) -> types.GetPromptResult:
        with _errors():
            return await prompt_of(params.name, params.arguments or {}, self._ask(ctx))

    async def _list_resources(
        self, ctx: Context, _: types.PaginatedRequestParams | None
    ) -> types.ListResourcesResult:
        with _errors():
            return types.ListResourcesResult(resources=await listed_resources(self._ask(ctx)))

    async def _list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resource_templates())

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        with _errors():
            return await read_resource(str(params.uri), self._ask(ctx))

    def _ask(self, ctx: Context) -> Ask:
        """Call a tool of the memory for this request, whether the profile offers it or not."""

        async def ask(tool: str, args: Json) -> ToolResult:
            return await self._bridge.ask(tool, args, await self._callers.of(ctx))

        return ask

    async def _offered(self, name: str) -> bool:
        """Return whether the tool is offered, as far as that is known while the stack is away."""
        try:
            return await self._bridge.offers(name)
        except Local2Error:
            return True


@contextmanager
def _errors() -> Iterator[None]:
    """Turn our errors into the protocol's, for requests that are no tool calls."""
    try:
        yield
    except RequestError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error
    except Local2Error as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error


@asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[MemoryServer]:
    """Return a server that finds the stack, and finds it again where necessary.

    Raises:
        ConfigError: There is no such profile.
    """
    changes = Changes()
    async with Link(settings, user=user_of(settings.mcp), on_change=changes.notice) as link:
        server = MemoryServer(Bridge(link, settings.mcp), Callers(link, settings.mcp), changes)
        announcing = asyncio.create_task(changes.run())
        try:
            yield server
        finally:
            announcing.cancel()
            with suppress(asyncio.CancelledError):
                await announcing
