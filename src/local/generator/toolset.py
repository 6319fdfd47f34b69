"""The tools that a model may call in a turn: as many as it has room for, called over the bus."""

from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence

import msgspec
import structlog

from local.bus.connection import Connection
from local.bus.outputs import with_preview
from local.client.tools import call_tool
from local.conversation.message import Message
from local.conversation.tokens import TokenCounter
from local.errors import echoed
from local.generator.publication import RECORDED_CHARACTERS
from local.llm.chat import ToolCall, ToolDefinition
from local.protocol.envelope import Caller
from local.protocol.payloads import ToolCallRecord, ToolResult, ToolSchema
from local.settings import GeneratorSettings

RECALL = "recall"
"""The tool that reaches what a compressed prompt does not show."""
USERS_KEPT = 1_000
USES_KEPT = 100
NAMED = 20
"""Of the tools that are left out, so many are named."""

log = structlog.get_logger()


class Toolset:
    """What a model is offered in one turn, and what becomes of its calls."""

    def __init__(
        self,
        bus: Connection,
        settings: GeneratorSettings,
        tools: Sequence[ToolSchema],
        caller: Caller,
        query_id: str,
    ) -> None:
        self._bus = bus
        self._settings = settings
        self._tools = {tool.name: tool for tool in tools}
        self._caller = caller
        self._query_id = query_id
        self.definitions = [_definition(tool) for tool in tools]

    async def call(self, call: ToolCall) -> tuple[Message, ToolCallRecord]:
        """Call one tool; failing or missing, it becomes a message that the model can read."""
        result = await self._result(call)
        tool = self._tools.get(call.name)
        recorded = tool is None or tool.recorded
        told = await self._previewed(call, result, RECORDED_CHARACTERS) if recorded else result
        record = ToolCallRecord(
            id=call.id,
            name=call.name,
            args=call.arguments,
            ok=result.ok,
            content=told.content[:RECORDED_CHARACTERS],
            tool_output_key=told.tool_output_key,
            recorded=recorded,
        )
        said = Message(role="tool", content=result.content, tool_call_id=call.id, name=call.name)
        return said, record

    async def _result(self, call: ToolCall) -> ToolResult:
        """What the tool answers; a preview of it if it is long, whoever hosts the tool."""
        if call.name not in self._tools:
            names = ", ".join(self._tools) or "none"
            return ToolResult(
                ok=False, content=f"Error: no tool {echoed(call.name)}. Tools: {names}."
            )
        result = await call_tool(
            self._bus,
            call.name,
            call.arguments,
            caller=self._caller,
            query_id=self._query_id,
            timeout=self._settings.tool_timeout,
        )
        return await self._previewed(call, result, self._settings.tool_output_limit)

    async def _previewed(self, call: ToolCall, result: ToolResult, limit: int) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None or tool.whole:
            return result
        return await with_preview(self._bus, result, caller=self._caller, limit=limit)


class Uses:
    """Which tools were called for each user, the last one first."""

    def __init__(self) -> None:
        self._of = OrderedDict[str | None, list[str]]()

    def of(self, user: str | None) -> list[str]:
        return self._of.get(user, [])

    def note(self, user: str | None, names: Iterable[str]) -> None:
        """So many of the newest uses are kept, of those who used a tool last."""
        newest = dict.fromkeys([*reversed(list(names)), *self.of(user)])
        self._of[user] = list(newest)[:USES_KEPT]
        self._of.move_to_end(user)
        if len(self._of) > USERS_KEPT:
            self._of.popitem(last=False)


def fitting(
    tools: Sequence[ToolSchema],
    own: Collection[str],
    used: Sequence[str],
    room: int,
    count: TokenCounter,
) -> list[ToolSchema]:
    """The tools that so many tokens hold, by name.

    First the memory's `own`: recall, and then rather many than large ones. The others in the order
    in which they were used, the last one first, and then in the order given.
    """
    sizes = {tool.name: count(as_message([_definition(tool)])) for tool in tools}
    uses = {name: place for place, name in enumerate(used)}

    def place(tool: ToolSchema) -> tuple[bool, bool, int]:
        if tool.name in own:
            return False, tool.name != RECALL, sizes[tool.name]
        return True, True, uses.get(tool.name, len(uses))

    kept: set[str] = set()
    for name in (tool.name for tool in sorted(tools, key=place)):
        if sizes[name] <= room:
            room -= sizes[name]
            kept.add(name)
    if left_out := sorted(sizes.keys() - kept):
        log.warning("tools_left_out", count=len(left_out), tools=left_out[:NAMED])
    return sorted((tool for tool in tools if tool.name in kept), key=lambda tool: tool.name)


def as_message(tools: Sequence[ToolDefinition]) -> Message:
    """What the tools are to a counter of tokens."""
    return Message(role="system", content=msgspec.json.encode(tools).decode())


def _definition(tool: ToolSchema) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters=tool.tool_schema.function.parameters,
    )
