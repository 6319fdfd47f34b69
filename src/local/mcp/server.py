"""The server of the SDK over the bridge: which request is answered by what."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.subscriptions import ListenHandler
from mcp.shared.exceptions import MCPError

from local import __version__
from local.errors import Local2Error, RequestError, quoted
from local.mcp import about, resources
from local.mcp.bridge import Ask, Bridge
from local.mcp.callers import Callers
from local.mcp.changes import Changes
from local.mcp.prompts import PROMPTS, prompt_of
from local.mcp.results import as_result, as_tool
from local.protocol.payloads import Json, ToolProgress, ToolResult

Context = ServerRequestContext[Any, Any]


class MemoryServer(Server[Any]):
    """Answers clients of any version, over any transport."""

    def __init__(self, bridge: Bridge, callers: Callers, changes: Changes) -> None:
        super().__init__(
            about.NAME,
            version=__version__,
            title=about.TITLE,
            instructions=about.INSTRUCTIONS,
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
        """As it is, and over every transport with the promise to tell of other tools."""
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
        async def report(said: ToolProgress) -> None:
            await ctx.session.report_progress(said.progress, said.total, said.message)

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
            return types.ListResourcesResult(resources=await resources.listed(self._ask(ctx)))

    async def _list_templates(
        self, _: Context, __: types.PaginatedRequestParams | None
    ) -> types.ListResourceTemplatesResult:
        return types.ListResourceTemplatesResult(resource_templates=resources.templates())

    async def _read_resource(
        self, ctx: Context, params: types.ReadResourceRequestParams
    ) -> types.ReadResourceResult:
        with _errors():
            return await resources.read(str(params.uri), self._ask(ctx))

    def _ask(self, ctx: Context) -> Ask:
        """Tools of the memory for this request, whether the profile offers them or not."""

        async def ask(tool: str, args: Json) -> ToolResult:
            return await self._bridge.ask(tool, args, await self._callers.of(ctx))

        return ask

    async def _offered(self, name: str) -> bool:
        """Whether it is offered, as far as that is known while the stack is away."""
        try:
            return await self._bridge.offers(name)
        except Local2Error:
            return True


@contextmanager
def _errors() -> Iterator[None]:
    """What the protocol has for errors of requests that are no calls of tools."""
    try:
        yield
    except RequestError as error:
        raise MCPError(types.INVALID_PARAMS, str(error)) from error
    except Local2Error as error:
        raise MCPError(types.INTERNAL_ERROR, str(error)) from error
