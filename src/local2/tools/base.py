"""Declare the memory's tools, and turn declarations into tools for a host.

The text of results is also formatted here: lists of memories are numbered, and shortened for
models.
"""

from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any, Generic, Literal, NamedTuple, Protocol, TypeVar

import msgspec

from local2 import telemetry
from local2._version import __version__
from local2.language.sentences import excerpt
from local2.ledger.records import place_of_topic
from local2.llm.framing import INSET, inset
from local2.memory.recall.items import RecallItem
from local2.memory.service import MemoryService
from local2.memory.tenant import Memories
from local2.protocol.answers import Hit
from local2.protocol.envelope import Caller, utc_now
from local2.protocol.memories import LaterStatement, OwnerScope
from local2.protocol.payloads import ToolHints, ToolResult
from local2.protocol.tool import Tool, ToolOutput
from local2.telemetry import MemoryOperation

A = TypeVar("A", bound=msgspec.Struct)
Run = Callable[[Caller, A], Awaitable[ToolOutput]]

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
QueryText = Annotated[
    str,
    msgspec.Meta(min_length=1, max_length=4_096, description="What to look for, in any words."),
]
FactScope = Annotated[
    Literal["user", "agent", "tenant"],
    msgspec.Meta(
        description="Whom it belongs to. Default: the user, or everybody if there is no user; with "
        "a key, as in save_topic."
    ),
]
MAX_CONTENT = 65_536
LATER_CHARACTERS = 300
"""Maximum characters of a later statement beside an item, in a text for a model."""
"""Maximum characters of a memory; longer texts are documents."""


READS = ToolHints(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
WRITES = ToolHints(
    read_only_hint=False, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
"""Not destructive: a replaced version stays in the history. Idempotent: equal content is stored
once."""
ERASES = ToolHints(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


def default_scope(caller: Caller, topic: str | None = None) -> OwnerScope:
    """Return the scope of a fact that names none: that of its key, if it has one."""
    if topic is not None:
        return place_of_topic(topic, caller.user)[0]
    return "tenant" if caller.user is None else "user"


class Args(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base class of all tools' arguments. Unknown arguments are refused."""


class MemoryTool(msgspec.Struct, Generic[A], frozen=True, kw_only=True):
    """The declaration of a tool; `over` some memories it becomes a Tool.

    `title`: the name for people. `annotations`: how it affects the memory. `answer`: the type of a
    result's data. `shows`: returns the ids
    of the records that a result's data shows. `for_models`: whether models may be offered the tool;
    a tool for programs would only take up their context. `operation`: the name of the operation in
    traces. `action`: returns the action that a role must permit, if it is not the tool's name.
    """

    name: str
    title: str
    description: str
    annotations: ToolHints
    args: type[A]
    answer: type[msgspec.Struct]
    function: Callable[[MemoryService, A], Awaitable[ToolOutput]]
    shows: Callable[[Any], Iterable[str]] = lambda _: ()
    for_models: bool = True
    operation: MemoryOperation | None = None
    action: Callable[[A], str] | None = None

    def bind(self, memories: Memories) -> Tool:
        """Return the Tool. The caller is taken from the bus, never from arguments."""

        async def run(caller: Caller, arguments: A) -> ToolOutput:
            action = self.action(arguments) if self.action else self.name
            return await self.function(await memories.admit(caller, action), arguments)

        def answering(caller: Caller, result: ToolResult) -> None:
            ids = self.shows(result.data) if result.ok else ()
            memories.tenant(caller.tenant).answer_log.add(caller, self.name, result.content, ids)

        return Tool(
            name=self.name,
            description=self.description,
            version=__version__,
            args=self.args,
            answer=self.answer,
            run=self._traced(run),
            title=self.title,
            annotations=self.annotations,
            reads_memory=True,
            for_models=self.for_models,
            recorded=False,
            whole=True,
            on_result=answering,
        )

    def _traced(self, run: Run[A]) -> Run[A]:
        """Return the function in a span if traces are enabled, else the function itself."""
        if telemetry.tracer is None or (operation := self.operation) is None:
            return run

        async def trace(caller: Caller, arguments: A) -> ToolOutput:
            with telemetry.memory_operation(operation, caller.tenant) as count:
                output = await run(caller, arguments)
                if operation == "search_memory":
                    count(len(list(self.shows(output.data))))
                return output

        return trace


TEXT_BYTES = 8_000
"""Maximum bytes of all memories in the text for a model, whose context is small."""
DATA_BYTES = 400_000
"""Maximum bytes of all memories in the data; the bus carries messages of up to 1 MB."""


class WithContent(Protocol):
    """A Struct that has a field `content`."""

    @property
    def content(self) -> str: ...


M = TypeVar("M", bound=WithContent)


def shortened(memories: Sequence[M], budget: int) -> list[M]:
    """Cut long memories so that all fit into the budget, in bytes of JSON; mark cuts with "…"."""
    limit = budget // max(len(memories), 1)
    return [
        memory
        if _size(memory.content) <= limit
        else msgspec.structs.replace(memory, content=f"{_beginning(memory.content, limit)} …")  # type: ignore[type-var]
        for memory in memories
    ]


class Entry(NamedTuple):
    """A memory in a list. `word`: what kind of memory it is."""

    score: float
    moment: datetime
    text: str
    word: str = ""
    later: Sequence[LaterStatement] = ()


def replacement_note(item: Hit | RecallItem, numbers: Mapping[str, int]) -> str:
    """Return a note on what replaces a memory, with its number if it is listed."""
    for word, id_ in (("outdated", item.outdated_by), ("contradicted", item.contradicts)):
        if id_ is not None:
            return f" ({word} by {numbers[id_]})" if id_ in numbers else f" ({word})"
    return ""


def numbered(memories: Sequence[Entry]) -> str:
    """Return memories as a numbered list for a model."""
    lines = [f"[Memory recall — {utc_now().date().isoformat()}]"]
    for number, (score, moment, text, word, later) in enumerate(memories, start=1):
        kind = f"{word}, " if word else ""
        lines.append(f"{number}. (relevance: {score:.2f}) {kind}{moment.date().isoformat()}")
        lines.append(f"{INSET}{inset(text)}")
        for one in later:
            days = (one.event_time - moment).days
            since = f"{days} days later" if days > 1 else "later"
            said = excerpt(one.content, LATER_CHARACTERS)
            lines.append(f"{INSET}({since}, {one.event_time.date().isoformat()}) {said}")
    return "\n".join(lines)


def _beginning(text: str, size: int) -> str:
    lengths = range(min(len(text), size + 1))
    return text[: bisect_right(lengths, size, key=lambda length: _size(text[:length])) - 1]


def _size(text: str) -> int:
    """Return the bytes of a text as JSON, without quotes; escapes take up to six bytes each."""
    return len(msgspec.json.encode(text)) - 2
