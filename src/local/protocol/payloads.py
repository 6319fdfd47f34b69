"""The payloads of the bus, one Struct each.

New fields need defaults, so that older bytes still decode.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from local.errors import ErrorCode, Local2Error
from local.protocol.envelope import Name

A = TypeVar("A")
Item = TypeVar("Item")

Json = dict[str, Any]
"""Open JSON: tool arguments before a tool has checked them, schemas, metadata."""


def in_parts(
    items: Iterable[Item], size_of: Callable[[Item], int], *, most_bytes: int, most: int
) -> Iterator[list[Item]]:
    """Yield the items in order, in parts that fit into a message; a larger one is alone."""
    part: list[Item] = []
    size = 0
    for item in items:
        more = size_of(item)
        if part and (size + more > most_bytes or len(part) == most):
            yield part
            part, size = [], 0
        part.append(item)
        size += more
    if part:
        yield part


class ToolRequest(msgspec.Struct, Generic[A], kw_only=True):
    """`tool.request.<tool>`."""

    args: A


class ErrorReply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`retry_after`: seconds after which the same may succeed, where that is known."""

    code: ErrorCode
    message: str
    retry_after: float | None = None

    @classmethod
    def of(cls, error: Local2Error) -> "ErrorReply":
        return cls(code=error.code, message=str(error), retry_after=error.retry_after)


class ToolResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`tool.result.<tool>`: `content` is text for a model, `data` is structured.

    With `tool_output_key`, `content` is a preview of what `read_tool_output` reads under that key,
    which has `total_chars` characters. `tool_messages.read_result` reads the results of other
    tools.
    """

    ok: bool
    content: str
    data: Any = None
    error: ErrorReply | None = None
    tool_output_key: str | None = None
    total_chars: int | None = None

    @property
    def outcome(self) -> str:
        """One word for logs: `ok`, or the code of the error."""
        if self.error is not None:
            return self.error.code
        return "ok" if self.ok else "tool_failed"

    @classmethod
    def failed(cls, error: Local2Error) -> "ToolResult":
        reply = ErrorReply.of(error)
        return cls(ok=False, content=f"Error ({error.code}): {error}", error=reply)


class ToolProgress(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`tool.progress.<tool>`: how far a call is; its `correlation_id` is the request's id."""

    progress: float
    total: float | None = None
    message: str | None = None


class Function(msgspec.Struct, kw_only=True):
    name: str
    description: str
    parameters: Json


class FunctionSchema(msgspec.Struct, kw_only=True):
    """A tool in the form LLM APIs take."""

    function: Function
    type: Literal["function"] = "function"


class ToolHints(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The effects of a tool, in the names of the Model Context Protocol.

    `destructive_hint`: it may undo or erase something; false if it only adds. `open_world_hint`: it
    reaches beyond what is stored here. None means not stated.
    """

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolSchema(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`tool.schema`: how to call a tool, and what it declares about itself.

    `title`: its name for people. `annotations`: what it does to its world. `reads_memory`: its
    results come from the memory. `for_models`: models may be offered it. `recorded`: its results
    become memories. `whole`: its results are never replaced by a preview, however long they are.
    `tool_messages.read_schema` reads announcements in other forms.
    """

    name: str
    description: str
    version: str
    tool_schema: FunctionSchema = msgspec.field(name="schema")
    title: str = ""
    annotations: ToolHints = ToolHints()
    reads_memory: bool = False
    for_models: bool = True
    recorded: bool = True
    whole: bool = False


class Empty(msgspec.Struct, kw_only=True):
    """A payload without fields, because the subject is enough."""


class Query(msgspec.Struct, kw_only=True):
    """`query.received`; session_id and query_id may stand in the envelope instead."""

    query: Annotated[str, msgspec.Meta(min_length=1, pattern=r"\S")]
    session_id: Name | None = None
    query_id: Name | None = None


class ClearSession(msgspec.Struct, frozen=True, kw_only=True):
    """The session to clear; without an id, that of the envelope."""

    session_id: Name | None = None


class ToolCallRecord(msgspec.Struct, kw_only=True):
    """One tool call of a turn, as `response.generation` reports it.

    With `tool_output_key`, `content` is the preview that the model saw. If it is not `recorded`,
    the memory stores that the tool was called, but not its result.
    """

    name: str
    args: Json = msgspec.field(default_factory=dict)
    ok: bool = True
    content: str = ""
    id: str | None = None
    tool_output_key: str | None = None
    recorded: bool = True


class Delta(msgspec.Struct, kw_only=True):
    """`response.delta`: one piece of an answer; pieces are in the order of `index`."""

    text: str
    index: int
    session_id: str
    query_id: str


class Generation(msgspec.Struct, kw_only=True):
    """`response.generation`: a finished turn.

    `error` is why there is no answer; a turn without an answer is not stored as an episode.
    `metadata` are the sender's own, and are stored with the question and its answer.
    """

    answer: str
    query: str
    thinking: str | None = None
    tool_calls: list[ToolCallRecord] = msgspec.field(default_factory=list)
    session_id: Name | None = None
    query_id: Name | None = None
    error: ErrorReply | None = None
    metadata: Json = msgspec.field(default_factory=dict)


class Feedback(msgspec.Struct, kw_only=True):
    """`response.feedback`: how good the answer to a query was.

    Without a session it rates the newest turn of the query id in any session of the user.
    """

    query_id: Annotated[str, msgspec.Meta(min_length=1, max_length=256)]
    score: Annotated[float, msgspec.Meta(ge=-1, le=1)]
    comment: str | None = None
    session_id: Name | None = None


def new_output_key() -> str:
    """Return the key of a new long output; it cannot be guessed."""
    return f"tout_{secrets.token_hex(12)}"


class OutputPart(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory.output.keep`: a part of a tool's output, which can be read after the last part.

    Parts come in order. `offset` counts Unicode characters. The sender makes the key at random.
    """

    key: Annotated[str, msgspec.Meta(pattern=r"^tout_[0-9a-f]{24,64}\Z")]
    offset: Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
    text: Annotated[str, msgspec.Meta(min_length=1)]
    last: bool = False


class DeadLetter(msgspec.Struct, kw_only=True):
    """`memory.dead_letter`: a message that can never be stored, and why.

    `cut`: the message is incomplete, because it was not UTF-8, or too long for a letter. `user`:
    its sender, if that is known from more than its own claim.
    """

    subject: str
    reason: str
    message: str
    source: str = ""
    cut: bool = False
    user: str | None = None


class MemoryChange(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory.saved`, `memory.superseded`, …: ids and kinds, never content.

    `sources` are the messages that it was extracted from; `why` it was retired.
    """

    id: str
    kind: str
    topic: str | None = None
    superseded_by: str | None = None
    memory_type: str | None = None
    sources: list[str] = []
    why: str | None = None
