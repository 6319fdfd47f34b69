"""The tools that a model may call in a turn: as many as its context has room for.

Tool schemas are part of every prompt, and a bus may offer hundreds of them. So tools that the user
has used are preferred.
"""

from collections.abc import Collection, Iterable, Sequence
from itertools import islice

import msgspec
import structlog

from local2.bounded_dict import BoundedDict
from local2.bus.connection import Connection
from local2.bus.outputs import with_preview
from local2.client.tools import call_tool
from local2.conversation.context import CalibratedCounter, estimate
from local2.conversation.message import Message
from local2.errors import InvalidArgumentsError, abridged, quoted
from local2.generator.publication import RECORDED_CHARACTERS
from local2.llm.models import ToolCall, ToolDefinition
from local2.protocol.envelope import Sender
from local2.protocol.payloads import ToolCallRecord, ToolResult, ToolSchema
from local2.settings import GeneratorSettings

RECALL_TOOL = "recall"
"""The tool that finds what a compressed prompt does not show."""
MAX_USERS = 1_000
"""Maximum number of users whose tools are remembered, equal to that of sessions. Other users get
tools in the given order."""
MAX_TOOLS = 100
"""Maximum number of tools remembered for a user: more than fit into a context of usual size."""
MAX_LOGGED_NAMES = 20
"""Maximum number of tools named when some are left out, so that the log line stays readable."""

log = structlog.get_logger()


class Toolset:
    """Calls the tools that a model may use in one turn, over the bus."""

    def __init__(
        self,
        bus: Connection,
        settings: GeneratorSettings,
        tools: Sequence[ToolSchema],
        caller: Sender,
    ) -> None:
        self._bus = bus
        self._settings = settings
        self._tools = {tool.name: tool for tool in tools}
        self._caller = caller
        self.definitions = [_definition(tool) for tool in tools]

    async def call(self, call: ToolCall) -> tuple[Message, ToolCallRecord]:
        """Call one tool. A failure becomes a message for the model, which may call it again."""
        tool = self._tools.get(call.name)
        if tool is None:
            names = ", ".join(self._tools) or "none"
            result = ToolResult(
                ok=False, content=f"Error: no tool {abridged(call.name)}. Tools: {names}."
            )
        elif call.unread:
            written = f"The arguments of {call.name} are no JSON object: {quoted(call.unread)}."
            result = ToolResult.failed(
                InvalidArgumentsError(written, remedy="Write them as one and call it again.")
            )
        else:
            result = await call_tool(
                self._bus,
                call.name,
                call.arguments,
                caller=self._caller,
                timeout=self._settings.tool_timeout,
            )
            # The memory's hosts send previews of long results; other teams' hosts do not.
            result = await self._previewed(call, result, self._settings.tool_output_limit)
        recorded = tool is None or tool.recorded
        shown = await self._previewed(call, result, RECORDED_CHARACTERS) if recorded else result
        record = ToolCallRecord(
            id=call.id,
            name=call.name,
            args=call.arguments,
            ok=result.ok,
            content=shown.content[:RECORDED_CHARACTERS],
            tool_output_key=shown.tool_output_key,
            recorded=recorded,
        )
        answer = Message(role="tool", content=result.content, tool_call_id=call.id, name=call.name)
        return answer, record

    async def _previewed(self, call: ToolCall, result: ToolResult, limit: int) -> ToolResult:
        tool = self._tools.get(call.name)
        if tool is None or tool.whole:
            return result
        return await with_preview(self._bus, result, caller=self._caller, limit=limit)


class RecentTools:
    """The tools that were called for each user, most recent first."""

    def __init__(self) -> None:
        self._by_user = BoundedDict[str | None, list[str]](MAX_USERS)

    def used_by(self, user: str | None) -> list[str]:
        return self._by_user.get(user, [])

    def note_use(self, user: str | None, names: Iterable[str]) -> None:
        """Put these tools first, and drop the least recent tools and users beyond the limits."""
        newest = dict.fromkeys([*reversed(list(names)), *self.used_by(user)])
        self._by_user[user] = list(newest)[:MAX_TOOLS]


class ToolMenu:
    """All tools that models may be offered, each sized once, so that a turn only has to choose.

    Whoever announces thousands of tools would otherwise slow down every turn on the event loop.
    """

    def __init__(self) -> None:
        self._sized: dict[str, tuple[ToolSchema, int]] = {}
        self._own: list[str] = []
        self._others: list[str] = []
        self._smallest_other = 0
        self._left_out = 0

    def update(self, tools: Sequence[ToolSchema], own: Collection[str]) -> None:
        """Replace the tools by these; tools that have not changed are not sized again.

        The memory's `own` tools come first: recall, then the smallest, so that many fit.
        """
        before, self._sized = self._sized, {}
        for tool in tools:
            sized = before.get(tool.name)
            if sized is None or sized[0] is not tool:
                sized = tool, estimate(tools_message([_definition(tool)]))
            self._sized[tool.name] = sized
        self._own = sorted(
            (name for name in self._sized if name in own),
            key=lambda name: (name != RECALL_TOOL, self._sized[name][1]),
        )
        self._others = [name for name in self._sized if name not in own]
        self._smallest_other = min((self._sized[name][1] for name in self._others), default=0)
        self._left_out = 0

    def choose(self, used: Sequence[str], room: int, count: CalibratedCounter) -> list[ToolSchema]:
        """Choose the tools that fit into `room` tokens; return them sorted by name.

        The memory's own tools are chosen first. The others follow by their last use, most recent
        first, and then in the given order.
        """
        recent = [name for name in used if name in self._sized]
        fitting: dict[str, ToolSchema] = {}
        for names in (self._own, recent, self._others):
            for name in names:
                if names is self._others and room < count.corrected(self._smallest_other):
                    break
                tool, size = self._sized[name]
                if name not in fitting and (tokens := count.corrected(size)) <= room:
                    room -= tokens
                    fitting[name] = tool
        left_out = len(self._sized) - len(fitting)
        if left_out and left_out != self._left_out:  # not again in every turn
            missing = (name for name in self._sized if name not in fitting)
            log.warning(
                "tools_left_out", count=left_out, tools=list(islice(missing, MAX_LOGGED_NAMES))
            )
        self._left_out = left_out
        return [fitting[name] for name in sorted(fitting)]


def tools_message(tools: Sequence[ToolDefinition]) -> Message:
    """The tools as a message, so that their tokens can be counted."""
    return Message(role="system", content=msgspec.json.encode(tools).decode())


def _definition(tool: ToolSchema) -> ToolDefinition:
    return ToolDefinition(
        name=tool.name,
        description=tool.description,
        parameters=tool.tool_schema.function.parameters,
    )
