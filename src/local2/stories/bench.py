"""The stacks that stories are played on, and the tools of other agents that stories define.

A bench uses a running stack, or starts one only for the story.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Annotated, Self

import msgspec
from msgspec.structs import replace

from local2._version import __version__
from local2.bus.tool_host import ToolHost
from local2.client import BusMessage, Connection, connect
from local2.client.queries import QueryClient
from local2.protocol import subjects
from local2.protocol.envelope import Caller, encode, header_of, seal
from local2.protocol.payloads import Function, FunctionSchema
from local2.protocol.tool import Tool, ToolOutput
from local2.settings import WITHOUT_MODELS, BusSettings, ChatChoice, Settings
from local2.stack.app import open_stack
from local2.stories.checks import Text

GRACE = 1.0
"""Seconds for tools to finish their answers when the story ends; they take milliseconds."""


class Bench:
    """A connection to a running stack, which keeps running afterwards."""

    bus: Connection
    queries: QueryClient

    def __init__(self, url: str) -> None:
        self.url = url
        self._resources = AsyncExitStack()

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as opening:
            await self._open(opening)
            self._resources = opening.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._resources.aclose()

    async def _open(self, resources: AsyncExitStack) -> None:
        self.bus = await resources.enter_async_context(connect(self.url, name="stories"))
        self.queries = await resources.enter_async_context(QueryClient(self.bus))


class FreshBench(Bench):
    """A stack started for one story, with all data in a folder; a new folder is an empty memory.

    The memory works by rules, whatever model answers, so that a story has one outcome.
    """

    def __init__(self, folder: Path, settings: Settings, *, model: ChatChoice) -> None:
        super().__init__(url="")
        self._with_generator = True
        self._logs = folder / "logs"
        self._settings = Settings(
            bus=BusSettings(),
            memory=replace(
                settings.memory,
                data_dir=folder / "data",
                chroma_path=folder / "chroma",
                **WITHOUT_MODELS,
            ),
            generator=replace(settings.generator, chat=model),
        )

    async def restart(self, *, with_generator: bool) -> None:
        """Stop the stack cleanly and start it again on the same folder."""
        await self._resources.aclose()
        self._with_generator = with_generator
        await self.__aenter__()

    async def _open(self, resources: AsyncExitStack) -> None:
        stack = await resources.enter_async_context(
            open_stack(self._settings, log_folder=self._logs, with_generator=self._with_generator)
        )
        self.url = stack.url
        await super()._open(resources)


class RepeatedText(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A long text, written as a text and the number of its repetitions."""

    repeat: Text
    times: Annotated[int, msgspec.Meta(ge=1)]


class StoryTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that always returns the same text.

    With `replies: false` it behaves like other teams' tools: it announces the bare schema of LLM
    APIs, and publishes its results without `ok`, only on `tool.result.<tool>`.
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


class _Nothing(msgspec.Struct, frozen=True):
    """No data; as the arguments of a call, any, which are ignored."""


class _Content(msgspec.Struct, frozen=True):
    content: str


@asynccontextmanager
async def hosted(url: str, tools: Sequence[StoryTool]) -> AsyncIterator[None]:
    """Serve the tools on a bus while the context lasts, over a separate connection."""
    if not tools:
        yield
        return
    async with AsyncExitStack() as hosts:
        bus = await hosts.enter_async_context(connect(url, name="story_tools"))
        for tool in tools:
            host = (
                ToolHost(bus, _replying_tool(tool)) if tool.replies else _publishing_tool(bus, tool)
            )
            await hosts.enter_async_context(host)
        await bus.flush()  # so that the tools are known before the first step
        yield


def _replying_tool(tool: StoryTool) -> Tool:
    async def run(_caller: Caller, _arguments: _Nothing) -> ToolOutput:
        return ToolOutput(content=tool.answer, data=_Nothing())

    return Tool(
        name=tool.name,
        description=tool.description,
        version=__version__,
        args=_Nothing,
        run=run,
    )


@asynccontextmanager
async def _publishing_tool(bus: Connection, tool: StoryTool) -> AsyncIterator[None]:
    """Serve a tool that publishes its results and never replies to the caller."""
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
