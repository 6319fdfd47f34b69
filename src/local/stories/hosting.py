"""Tools of other agents, as a story has them: on its bus, with the answers that it says."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated

import msgspec

from local import __version__
from local.client import Connection, Message, ToolHost, connect
from local.protocol import subjects
from local.protocol.envelope import Caller, encode, header_of, seal
from local.protocol.payloads import Function, FunctionSchema
from local.protocol.tool import Tool, ToolOutput
from local.stories.checks import Text

GRACE = 1.0
"""Seconds that a tool's answers under way get when the story ends."""


class Repeated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A long text, told shortly."""

    repeat: Text
    times: Annotated[int, msgspec.Meta(ge=1)]


class StoryTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that answers the same text, whatever it is asked.

    With `replies: false` it is one of another team: it announces the bare schema that LLM APIs
    take, and publishes its results on `tool.result.<tool>` only, without `ok`.
    """

    name: Annotated[str, msgspec.Meta(pattern=f"^{subjects.TOOL_NAME}$")]
    returns: Text | Repeated
    description: Text = "A tool of another agent."
    replies: bool = True

    @property
    def answer(self) -> str:
        match self.returns:
            case Repeated(repeat=text, times=times):
                return text * times
            case text:
                return text


class _Whatever(msgspec.Struct, frozen=True):
    """Arguments that nobody reads."""


class _NoData(msgspec.Struct, frozen=True):
    pass


class _Said(msgspec.Struct, frozen=True):
    content: str


@asynccontextmanager
async def hosted(url: str, tools: Sequence[StoryTool]) -> AsyncIterator[None]:
    """Serve the tools on a bus, over a connection of their own, while the context lasts."""
    if not tools:
        yield
        return
    async with AsyncExitStack() as hosts:
        bus = await hosts.enter_async_context(connect(url, name="story_tools"))
        for tool in tools:
            host = ToolHost(bus, _served(tool)) if tool.replies else _publishing(bus, tool)
            await hosts.enter_async_context(host)
        await bus.flush()  # whoever is told something from here on has heard of them
        yield


def _served(tool: StoryTool) -> Tool:
    async def run(_caller: Caller, _arguments: _Whatever) -> ToolOutput:
        return ToolOutput(content=tool.answer, data=_NoData())

    return Tool(
        name=tool.name,
        description=tool.description,
        version=__version__,
        args=_Whatever,
        run=run,
    )


@asynccontextmanager
async def _publishing(bus: Connection, tool: StoryTool) -> AsyncIterator[None]:
    """A tool that never replies to who asked."""
    function = Function(name=tool.name, description=tool.description, parameters={})
    schema = encode(seal(FunctionSchema(function=function), type="schema", source=tool.name))

    async def announce(_: Message) -> None:
        await bus.publish(subjects.TOOL_SCHEMA, schema)

    async def answer(message: Message) -> None:
        request = header_of(message.data)
        result = seal(
            _Said(tool.answer),
            type="result",
            source=tool.name,
            session_id=request.session_id if request else None,
            query_id=request.query_id if request else None,
            correlation_id=request.id if request else None,
        )
        await bus.publish(subjects.tool_result(tool.name), encode(result))

    asked = await bus.subscribe(subjects.tool_request(tool.name), answer, queue=tool.name)
    wanted = await bus.subscribe(subjects.TOOL_SCHEMA_REQUEST, announce)
    await bus.publish(subjects.TOOL_SCHEMA, schema)
    try:
        yield
    finally:
        await wanted.stop(GRACE)
        await asked.stop(GRACE)
