"""From a tool's own file (Args, description, function) to the Tool that a host serves."""

from collections.abc import Awaitable, Callable, Iterable
from typing import Annotated, Any, Generic, TypeVar

import msgspec

from local import __version__
from local.memory.service import MemoryService
from local.memory.tenant import Memories
from local.protocol.envelope import Caller
from local.protocol.payloads import ToolResult
from local.protocol.tool import Tool, ToolOutput

A = TypeVar("A", bound=msgspec.Struct)

TopicKey = Annotated[
    str,
    msgspec.Meta(
        min_length=1,
        max_length=200,
        description="Dotted key that starts with user., project. or constraint., in any script; "
        "capitals make no difference. E.g. 'user.name', 'user.language_preference', "
        "'project.deadline'.",
    ),
]
MAX_CONTENT = 65_536
"""Characters of one memory; longer texts are documents."""
MAX_QUERY = 4_096


class Args(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Base of every tool's arguments: what a tool does not know it refuses."""


class MemoryTool(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """What a tool's file declares; over a memory it becomes a Tool.

    `shows`: the ids of the records that the data of a result shows. `for_models`: whether a model
    may be offered it; a tool for programs takes room that its conversation needs.
    """

    name: str
    description: str
    args: type[A]
    function: Callable[[MemoryService, A], Awaitable[ToolOutput]]
    shows: Callable[[Any], Iterable[str]] = lambda _: ()
    for_models: bool = True

    def over(self, memories: Memories) -> Tool:
        """The Tool; its caller comes from the bus and cannot be chosen by arguments."""

        async def run(caller: Caller, arguments: A) -> ToolOutput:
            return await self.function(memories.of(caller), arguments)

        def answering(caller: Caller, result: ToolResult) -> None:
            ids = self.shows(result.data) if result.ok else ()
            memories.of(caller).answered(self.name, result.content, ids)

        return Tool(
            name=self.name,
            description=self.description,
            version=__version__,
            args=self.args,
            run=run,
            reads_memory=True,
            for_models=self.for_models,
            recorded=False,
            whole=True,
            answering=answering,
        )
