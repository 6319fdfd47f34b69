"""Tools of other agents that a story brings along, with the answers that it defines."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated

import msgspec

from local import __version__
from local.client import BusMessage, Connection, ToolHost, connect
from local.protocol import subjects
from local.protocol.envelope import Caller, encode, header_of, seal
from local.protocol.payloads import Function, FunctionSchema
from local.protocol.tool import Tool, ToolOutput
from local.stories.checks import Text

GRACE = 1.0
"""Seconds for a tool to finish its answers when the story ends; they take milliseconds."""


class RepeatedText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A long text in a short form."""

    repeat: Text
    times: Annotated[int, msgspec.Meta(ge=1)]


class StoryTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that always answers the same text.

    With `replies: false` it behaves like other teams' tools: it announces the bare schema of LLM
    APIs, and publishes its results without `ok`, and on `tool.result.<tool>` only.
    """

    name: Annotated[str, msgspec.Meta(pattern=f"^{subjects.TOOL_NAME}$")]
    returns: Text | RepeatedText
    description: Text = "A tool of another agent."
    replies: bool = True

    @property
    def answer(self) -> str:
        match self.returns:
            case RepeatedText(repeat=text, times=times):
                return text * times
            case text:
                return text


class _AnyArguments(msgspec.Struct, frozen=True):
    """Any arguments; they are not read."""


class _NoData(msgspec.Struct, frozen=True):
    pass


class _Content(msgspec.Struct, frozen=True):
    content: str


@asynccontextmanager
async def hosted(url: str, tools: Sequence[StoryTool]) -> AsyncIterator[None]:
    """Serve the tools on a bus while the context lasts, over a connection of their own."""
    if not tools:
        yield
        return
    async with AsyncExitStack() as hosts:
        bus = await hosts.enter_async_context(connect(url, name="story_tools"))
        for tool in tools:
            host = ToolHost(bus, _served(tool)) if tool.replies else _publishing(bus, tool)
            await hosts.enter_async_context(host)
        await bus.flush()  # the tools are known before the first step
        yield


def _served(tool: StoryTool) -> Tool:
    async def run(_caller: Caller, _arguments: _AnyArguments) -> ToolOutput:
        return ToolOutput(content=tool.answer, data=_NoData())

    return Tool(
        name=tool.name,
        description=tool.description,
        version=__version__,
        args=_AnyArguments,
        run=run,
    )


@asynccontextmanager
async def _publishing(bus: Connection, tool: StoryTool) -> AsyncIterator[None]:
    """A tool that never replies to the caller."""
    function = Function(name=tool.name, description=tool.description, parameters={})
    schema = encode(seal(FunctionSchema(function=function), type="schema", source=tool.name))

    async def announce(_: BusMessage) -> None:
        await bus.publish(subjects.TOOL_SCHEMA, schema)

    async def answer(message: BusMessage) -> None:
        request = header_of(message.data)
        result = seal(
            _Content(tool.answer),
            type="result",
            source=tool.name,
            session_id=request.session_id if request else None,
            query_id=request.query_id if request else None,
            correlation_id=request.id if request else None,
        )
        await bus.publish(subjects.tool_result(tool.name), encode(result))

    requests = await bus.subscribe(subjects.tool_request(tool.name), answer, queue=tool.name)
    schema_requests = await bus.subscribe(subjects.TOOL_SCHEMA_REQUEST, announce)
    await bus.publish(subjects.TOOL_SCHEMA, schema)
    try:
        yield
    finally:
        await schema_requests.stop(GRACE)
        await requests.stop(GRACE)
