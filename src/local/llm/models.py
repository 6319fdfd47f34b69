"""The two kinds of models: one chats, calls tools and streams, the other answers with data.

Both are Protocols. The caller does not know which model it has, and tests bring their own.
"""

from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, Protocol, TypeVar, runtime_checkable

from msgspec import Struct

T = TypeVar("T", bound=Struct)


class ToolCall(Struct, frozen=True, kw_only=True):
    id: str
    name: str
    arguments: dict[str, Any]


class ChatMessage(Struct, frozen=True, kw_only=True):
    role: Literal["system", "user", "assistant", "tool"]
    content: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    """Of a tool message: the `ToolCall.id` it answers."""
    tool_name: str | None = None
    """Of a tool message: the tool that answered."""


class ToolDefinition(Struct, frozen=True, kw_only=True):
    name: str
    description: str
    parameters: dict[str, Any]
    """JSON schema of the arguments, `{"type": "object", …}`."""


class Usage(Struct, frozen=True, kw_only=True):
    """Tokens as the model counted them: those that it read, and those that it wrote."""

    prompt_tokens: int
    answer_tokens: int


class ChatChunk(Struct, frozen=True, kw_only=True):
    content: str = ""
    thinking: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    usage: Usage | None = None
    """With the last piece, if the model counts."""


class ChatModel(Protocol):
    @property
    def name(self) -> str:
        """The model's name for people, in logs and at the start."""
        ...

    def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> AsyncGenerator[ChatChunk, None]:
        """Answer the conversation; the pieces in their order make up the whole answer.

        Close the generator (`contextlib.aclosing`) when leaving it early: that stops the model.

        Raises:
            ModelError: the model is out of reach, or its reply is not one.
            PromptTooLargeError: the conversation is more than the model takes at once.
            ModelRefusedError: the model turned this request down; repeating it changes nothing.
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
        """Ask once, without a conversation, for an answer that is an `into`.

        Args:
            into: Its schema is sent with the question; it must not contain itself.
            instruction: What to do with the material, in words of our own.
            material: The only place for texts of other people.
            within: Seconds.

        Raises:
            ModelError: The model is out of reach, fails or takes longer; it may answer later.
            ModelRefusedError: It turned this request down, or its answer is no `into`; repeating
                the request changes nothing.
        """
        ...

    async def close(self) -> None: ...
