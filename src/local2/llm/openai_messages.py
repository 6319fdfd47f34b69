"""Encodes messages for an endpoint with OpenAI's API, and decodes the used parts of its answers."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import msgspec
import structlog
from msgspec import Struct

from local2.llm.models import (
    ChatChunk,
    ChatMessage,
    ToolCall,
    ToolDefinition,
    Usage,
    read_arguments,
)
from local2.protocol.payloads import Json

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")

log = structlog.get_logger()


class Tokens(Struct, frozen=True):
    prompt_tokens: int = 0
    completion_tokens: int = 0


class CalledFunction(Struct, frozen=True):
    name: str | None = None
    arguments: str | Json | None = None
    """JSON, possibly in pieces; some servers send an object."""


class CallPiece(Struct, frozen=True):
    """What a piece of a stream adds to a call, in OpenAI's form; `CallsInPieces` makes it whole."""

    index: int | None = None
    id: str | None = None
    function: CalledFunction = CalledFunction()


class CompletionMessage(Struct, frozen=True):
    """A whole message, or what a piece of a stream adds to it, in OpenAI's form."""

    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    """Servers use one of these two fields for a model's thinking."""
    tool_calls: list[CallPiece] | None = None


class Choice(Struct, frozen=True):
    message: CompletionMessage = CompletionMessage()
    delta: CompletionMessage = CompletionMessage()
    finish_reason: str | None = None


class Completion(Struct, frozen=True):
    """An answer, or a piece of one."""

    choices: list[Choice] = []
    usage: Tokens | None = None
    error: Any = None


class CallsInPieces:
    """Assembles the tool calls of a stream, whose names and arguments arrive in pieces."""

    def __init__(self) -> None:
        self._calls: list[_Call] = []

    def add_piece(self, piece: Completion) -> str:
        """Add the calls in a piece of the stream; return why the answer ended, empty if not."""
        reason = ""
        for choice in piece.choices[:1]:
            reason = choice.finish_reason or ""
            for part in choice.delta.tool_calls or ():
                call = self._started_call(part)
                if call is None:
                    call = _Call(index=part.index, id=part.id or uuid4().hex)
                    self._calls.append(call)
                call.name = call.name or part.function.name or ""
                arguments = part.function.arguments
                if isinstance(arguments, dict):
                    call.arguments = msgspec.json.encode(arguments).decode()
                else:
                    call.arguments += arguments or ""
        return reason

    def assembled(self) -> tuple[ToolCall, ...]:
        return tuple(call.assembled() for call in self._calls)

    def _started_call(self, piece: CallPiece) -> "_Call | None":
        """The call that a piece continues, None if it begins one.

        Some servers number all calls 0, or none.
        """
        for call in reversed(self._calls):
            if piece.index is None or call.index == piece.index:
                return call if piece.id in {None, "", call.id} else None
        return None


class _Call(Struct):
    """A call whose pieces still arrive, so that its arguments are no JSON yet."""

    index: int | None
    id: str
    name: str = ""
    arguments: str = ""

    def assembled(self) -> ToolCall:
        try:
            arguments, unread = read_arguments(self.arguments), ""
        except (msgspec.MsgspecError, RecursionError):  # the model may write them again
            arguments, unread = {}, self.arguments
        return ToolCall(id=self.id, name=self.name, arguments=arguments, unread=unread)


def to_openai(message: ChatMessage) -> Json:
    """Convert a message; a model's thinking is not sent back."""
    sent: Json = {"role": message.role}
    if message.content or not message.tool_calls:
        sent["content"] = message.content
    if message.tool_calls:
        sent["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {
                    "name": call.name,
                    "arguments": msgspec.json.encode(call.arguments).decode(),
                },
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        sent["tool_call_id"] = message.tool_call_id
    return sent


def to_tools(tools: Sequence[ToolDefinition]) -> Iterator[Json]:
    """Convert the tools; skip invalid ones, for which endpoints would refuse the whole request."""
    for tool in tools:
        if _TOOL_NAME.fullmatch(tool.name) and tool.parameters.get("type") == "object":
            yield {"type": "function", "function": msgspec.to_builtins(tool)}
        else:
            log.warning("tool_not_offered", tool=tool.name, reason="its name or its schema")


async def pieces_of(content: AsyncIterator[bytes]) -> AsyncGenerator[Completion, None]:
    """Yield the pieces of an answer, which arrive as server-sent events.

    Raises:
        ValueError: A line is not part of an event, or its data is not a piece of an answer.
    """
    async for line in _lines(content):
        field, _, data = line.partition(b":")
        if field == b"data" and data.strip() == b"[DONE]":
            yield Completion(choices=[Choice(finish_reason="stop")])
            return
        if field == b"data":
            yield msgspec.json.decode(data, type=Completion)
        elif field not in {b"", b"event", b"id", b"retry"}:
            raise ValueError("not a server-sent event")


async def _lines(content: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Yield the lines of events; httpx would also split at U+2028, which JSON may contain."""
    rest = b""
    async for piece in content:
        *lines, rest = (rest + piece).split(b"\n")
        for line in lines:
            yield line.rstrip(b"\r")
    if rest:
        yield rest


def to_chunk(piece: Completion) -> ChatChunk | None:
    """A piece of a stream without its tool calls; None if nothing is left."""
    delta = piece.choices[0].delta if piece.choices else CompletionMessage()
    usage: Usage | None = None
    if (tokens := piece.usage) is not None and tokens.prompt_tokens:  # not all endpoints count
        usage = Usage(prompt_tokens=tokens.prompt_tokens, answer_tokens=tokens.completion_tokens)
    chunk = ChatChunk(
        content=delta.content or "",
        thinking=delta.reasoning_content or delta.reasoning or "",
        usage=usage,
    )
    return None if chunk == ChatChunk() else chunk


def strict_schema(schema: Mapping[str, Any]) -> Json:
    """A schema as strict output requires it: all properties required, no others allowed."""

    def stricter(node: Any) -> Any:
        if isinstance(node, list):
            return [stricter(item) for item in node]
        if not isinstance(node, dict):
            return node
        sent = {key: stricter(value) for key, value in node.items() if key != "default"}
        if isinstance(node.get("properties"), dict):
            sent |= {"required": list(node["properties"]), "additionalProperties": False}
        if all(isinstance(value, str) for value in node.get("enum", [0])):
            sent["type"] = "string"
        return sent

    as_sent: Json = stricter(dict(schema))
    return as_sent
