"""The interfaces of models: for chats with tools, and for structured answers.

Both are Protocols: callers do not depend on a particular model, and tests provide their own.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

import msgspec
from msgspec import Struct

from local2.protocol.payloads import Json
from local2.telemetry import CountTokens

T = TypeVar("T", bound=Struct)


class ToolCall(Struct, frozen=True, kw_only=True):
    """A call that a model asks for, before it is made; a made one is a `ToolCallRecord`."""

    id: str
    name: str
    arguments: dict[str, Any]
    unread: str = ""
    """What the model wrote instead of arguments, if that is no JSON object."""


def read_arguments(text: str | None) -> Json:
    """Read a call's arguments, written as JSON; nothing and null are none.

    Raises:
        msgspec.MsgspecError: They are not a JSON object.
    """
    return msgspec.json.decode(text or "{}", type=Json | None) or {}


class ChatMessage(Struct, frozen=True, kw_only=True):
    """A message in the form that the adapters of models have in common."""

    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """For a tool message: the `ToolCall.id` that it answers."""
    tool_name: str | None = None
    """For a tool message: the tool that answered."""


class ToolDefinition(Struct, frozen=True, kw_only=True):
    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments, `{"type": "object", …}`."""


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens as counted by the model, read and written."""

    prompt_tokens: int
    answer_tokens: int


class ChatChunk(Struct, frozen=True, kw_only=True):
    content: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    hint: str = ""
    """For the person who asks: not a part of the answer, and not remembered."""
    usage: Usage | None = None
    """Sent with the last piece, if the model counts tokens."""


class ChatModel(Protocol):
    @property
    def name(self) -> str:
        """The model's name for people, in logs and at the start."""
        ...

    def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> AsyncGenerator[ChatChunk, None]:
        """Answer the conversation, as a stream of pieces in order.

        Close the generator (`contextlib.aclosing`) when leaving it early: that stops the model.

        Raises:
            ModelError: The model is unreachable, or its reply is unreadable.
            PromptTooLargeError: The conversation exceeds the model's context.
            ModelRefusedError: The model refused this request; repeating it is pointless.
        """
        ...

    async def close(self) -> None: ...


@runtime_checkable
class StructuredModel(Protocol):
    @property
    def name(self) -> str:
        """The model's name for people, in logs and at the start."""
        ...

    async def answer_as(
        self, into: type[T], *, instruction: str, material: Struct, within: float
    ) -> T:
        """Request one answer of type `into`, without a conversation.

        Args:
            into: A Struct that does not contain itself; its schema is sent with the request.
            instruction: What to do with the material; it must not contain other people's texts.
            material: The only place for other people's texts.
            within: Timeout in seconds.

        Raises:
            ModelError: The model is unreachable, failed or took too long; it may answer later.
            ModelRefusedError: The model refused this request, or its answer is not of type `into`;
                repeating the request is pointless.
        """
        ...


class CountingModel(StructuredModel, Protocol):
    """A model for structured answers that also says what they cost."""

    async def answer_as(
        self,
        into: type[T],
        *,
        instruction: str,
        material: Struct,
        within: float,
        spend: CountTokens | None = None,
    ) -> T:
        """Request an answer; see `StructuredModel`.

        `spend` gets the tokens read and written of each answer, also of one in another form.
        """
        ...

    async def close(self) -> None: ...
