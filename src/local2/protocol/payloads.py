"""The payloads of the bus, one Struct each.

New fields need defaults, so that older messages still decode.
"""

import math
import os
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, Generic, Literal, TypeVar

import msgspec

from local2.errors import ErrorCode, Local2Error, error_from_code
from local2.protocol.envelope import Id, Name
from local2.protocol.msgspec_errors import NOT_BLANK

SERVICE_ERROR = "Nats-Service-Error"
"""The header that NATS services use to report a failure."""
ERROR_CODE = "Nats-Service-Error-Code"
RETRY_AFTER = "Retry-After"
"""The header with whole seconds, as in HTTP; the error in the answer has the exact value."""
MAX_HEADER = 256
"""Maximum characters of a header's value; the answer contains the whole error message."""

A = TypeVar("A")
Item = TypeVar("Item")

Json = dict[str, Any]
"""Arbitrary JSON objects: unvalidated tool arguments, JSON schemas, metadata."""


HEAD_SHARE, TAIL_SHARE = 3 / 8, 1 / 8
"""Shares of the limit that a preview spends on the beginning and the end of the output; the rest is
room for the line with the key."""
SEARCHED_CHARACTERS = 1_000_000
"""Number of leading characters of a long output that are searched. A preview says so of a longer
one."""


def split_into_parts(
    items: Iterable[Item], size_of: Callable[[Item], int], *, max_bytes: int, max_items: int
) -> Iterator[list[Item]]:
    """Yield the items in parts within the limits; an item over `max_bytes` is a part by itself."""
    part: list[Item] = []
    size = 0
    for item in items:
        item_size = size_of(item)
        if part and (size + item_size > max_bytes or len(part) == max_items):
            yield part
            part, size = [], 0
        part.append(item)
        size += item_size
    if part:
        yield part


class ToolRequest(msgspec.Struct, Generic[A], kw_only=True):
    """`tool.request.<tool>`."""

    args: A


class ErrorReply(msgspec.Struct, kw_only=True, omit_defaults=True):
    """An error on the wire; `retry_after`: seconds after which a retry may succeed, if known."""

    code: ErrorCode
    message: str
    retry_after: float | None = None

    @classmethod
    def of(cls, error: Local2Error) -> "ErrorReply":
        return cls(code=error.code, message=str(error), retry_after=error.retry_after)

    def to_error(self) -> Local2Error:
        """The error that was sent; the code decides its class."""
        return error_from_code(self.code, self.message, self.retry_after)

    def headers(self) -> dict[str, str]:
        """The headers of an answer that reports this error, as NATS services write them."""
        headers = {SERVICE_ERROR: header_value(self.message), ERROR_CODE: str(self.code)}
        if self.retry_after is not None:
            headers[RETRY_AFTER] = str(math.ceil(self.retry_after))
        return headers


def header_value(text: str) -> str:
    """Write a text as one line of ASCII, because some servers otherwise drop all headers."""
    line = " ".join(text.split()).replace("\u2026", "...")
    return line.encode("ascii", "replace").decode()[:MAX_HEADER]


class ToolResult(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`tool.result.<tool>`: `content` is text for a model, `data` is for programs.

    With `tool_output_key`, `content` is a preview; `read_tool_output` reads the whole output of
    `total_chars` characters. `lenient.tools.read_result` reads results in other forms.
    """

    ok: bool
    content: str
    data: Any = None
    error: ErrorReply | None = None
    tool_output_key: str | None = None
    total_chars: int | None = None

    @property
    def outcome(self) -> str:
        """`ok`, or the code of the error, for logs."""
        if self.error is not None:
            return self.error.code
        return "ok" if self.ok else "tool_failed"

    @classmethod
    def failed(cls, error: Local2Error) -> "ToolResult":
        reply = ErrorReply.of(error)
        return cls(ok=False, content=f"Error ({error.code}): {error}", error=reply)


class ToolProgress(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`tool.progress.<tool>`: the progress of a call; `correlation_id` is the request's id."""

    progress: float
    total: float | None = None
    message: str | None = None


class Running(msgspec.Struct, frozen=True, kw_only=True):
    """Whether a process has the request that it is asked for, and has not answered it yet."""

    running: bool


class Function(msgspec.Struct, kw_only=True):
    name: str
    description: str
    parameters: Json


class FunctionSchema(msgspec.Struct, kw_only=True):
    """A tool in the form of LLM APIs."""

    function: Function
    type: Literal["function"] = "function"


class ToolHints(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, rename="camel"):
    """The effects of a tool, as the Model Context Protocol names them.

    `destructive_hint`: the tool may undo or erase something; False if it only adds.
    `open_world_hint`: it reaches beyond what is stored here. None means not stated.
    """

    read_only_hint: bool | None = None
    destructive_hint: bool | None = None
    idempotent_hint: bool | None = None
    open_world_hint: bool | None = None


class ToolSchema(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`tool.schema`: how to call a tool, and what the tool declares about itself.

    `title`: its name for people. `annotations`: its effects. `reads_memory`: its results come from
    the memory. `for_models`: it may be offered to models. `recorded`: its results become memories.
    `whole`: its results are never replaced by a preview. `output_schema`: the JSON schema of its
    results' data. `lenient.tools.read_schema` reads
    announcements in other forms.
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
    output_schema: Json | None = None


class ServiceRequest(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Base of the requests to services.

    Unknown fields are refused: a misspelt condition would be none, and the request would cover
    everything.
    """


class Empty(ServiceRequest, frozen=True, kw_only=True):
    """A payload without fields, where the subject suffices."""


class Query(msgspec.Struct, kw_only=True):
    """`query.received`; `session_id` and `query_id` may be in the envelope instead."""

    query: Annotated[str, msgspec.Meta(min_length=1, pattern=NOT_BLANK)]
    session_id: Name | None = None
    query_id: Name | None = None


class ClearSession(msgspec.Struct, frozen=True, kw_only=True):
    """`session.clear`: the session to clear; by default that of the envelope."""

    session_id: Name | None = None


# Without gc: a turn has up to tens of thousands, and Python's collector, which looks for cycles
# that cannot be here, stopped the event loop for 130 ms.
class ToolCallRecord(msgspec.Struct, kw_only=True, gc=False):
    """One tool call that was made, with its result, as `response.generation` reports it.

    With `tool_output_key`, `content` is the preview that the model saw. If `recorded` is False, the
    memory stores the call without its result.
    """

    name: str
    args: Json = msgspec.field(default_factory=dict)
    ok: bool = True
    content: str = ""
    id: str | None = None
    tool_output_key: str | None = None
    recorded: bool = True


class Delta(msgspec.Struct, kw_only=True):
    """`response.delta`: one piece of an answer; `index` gives the order."""

    text: str
    index: int
    session_id: str
    query_id: str


class Generation(msgspec.Struct, kw_only=True):
    """`response.generation`: a finished turn.

    `error` is why there is no answer; a turn without an answer is not stored as an episode.
    `metadata` is stored with the question and its answer. `shown`: the ids of the memories that the
    agent was shown unasked; those that it asked for are in the results of its calls. `hint`: for
    the person who asked; it is not stored.
    """

    answer: str
    query: str
    thinking: str | None = None
    tool_calls: list[ToolCallRecord] = msgspec.field(default_factory=list)
    session_id: Name | None = None
    query_id: Name | None = None
    error: ErrorReply | None = None
    metadata: Json = msgspec.field(default_factory=dict)
    shown: list[str] = msgspec.field(default_factory=list)
    hint: str = ""


class Feedback(msgspec.Struct, kw_only=True):
    """`response.feedback`: a rating of the answer to a query.

    Without a session, it rates the newest turn with the query id in any session of the user.
    """

    query_id: Id
    score: Annotated[float, msgspec.Meta(ge=-1, le=1)]
    comment: str | None = None
    session_id: Name | None = None


def new_output_key() -> str:
    """Make an unguessable key for a new long output."""
    return f"tout_{os.urandom(12).hex()}"


def preview(content: str, key: str, limit: int) -> str:
    """Preview a long output for a model: how to read on, the beginning, the end.

    The first line names the key, so that a preview that is cut again still contains it.
    """
    head, tail = int(limit * HEAD_SHARE), int(limit * TAIL_SHARE)
    call = f'read_tool_output(tool_output_key="{key}", offset={head})'
    limited = len(content) > SEARCHED_CHARACTERS
    searched = f" Searches find its first {SEARCHED_CHARACTERS} characters." if limited else ""
    return (
        f"[Output of {len(content)} characters, shortened; {call} reads on.{searched}]\n"
        f"{content[:head]}\n[…]\n{content[-tail:]}"
    )


OutputKey = Annotated[str, msgspec.Meta(pattern=r"^tout_[0-9a-f]{24,64}\Z")]
"""The key of a long output; whoever has it may read the output as its user."""


class OutputPart(msgspec.Struct, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """`memory.output.keep`: a part of a tool's output, which is readable after its last part.

    Parts are sent in order. `offset` counts Unicode characters. The sender chooses a random key.
    """

    key: OutputKey
    offset: Annotated[int, msgspec.Meta(ge=0, lt=2**53)]
    text: Annotated[str, msgspec.Meta(min_length=1)]
    last: bool = False


class DeadLetter(msgspec.Struct, kw_only=True):
    """`memory.dead_letter`: a message that can never be stored, and why.

    `cut`: the message is incomplete, because it was not UTF-8, or too long for a letter. `user`:
    its verified sender, if known.
    """

    subject: str
    reason: str
    message: str
    source: str = ""
    cut: bool = False
    user: str | None = None


class MemoryChange(msgspec.Struct, kw_only=True, omit_defaults=True):
    """`memory.saved`, `memory.superseded`, …: ids and kinds, never content.

    `sources`: the messages that a fact was extracted from. `why`: the reason of a retirement.
    """

    id: str
    kind: str
    topic: str | None = None
    superseded_by: str | None = None
    memory_type: str | None = None
    sources: list[str] = []
    why: str | None = None
