"""Tools of other agents, as a story has them: on its bus, with the answers that it says."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Annotated

import msgspec

from local import __version__
from local.bus.connection import connect
from local.bus.tool_host import ToolHost
from local.protocol.caller import Caller
from local.protocol.tool import Tool, ToolOutput
from local.stories.checks import Text


class Repeated(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A long text, told shortly."""

    repeat: Text
    times: Annotated[int, msgspec.Meta(ge=1)]


class StoryTool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool that answers the same text, whatever it is asked."""

    name: Annotated[str, msgspec.Meta(pattern=r"^[a-z][a-z0-9_]{0,63}$")]
    returns: Text | Repeated
    description: Text = "A tool of another agent."

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


@asynccontextmanager
async def hosted(url: str, tools: Sequence[StoryTool]) -> AsyncIterator[None]:
    """Serve the tools on a bus, over a connection of their own, while the context lasts."""
    if not tools:
        yield
        return
    async with AsyncExitStack() as hosts:
        bus = await hosts.enter_async_context(connect(url, name="story_tools"))
        for tool in tools:
            await hosts.enter_async_context(ToolHost(bus, _served(tool)))
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
