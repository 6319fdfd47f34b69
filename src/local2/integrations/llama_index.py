"""LlamaIndex on local2: the memory of an agent's chat, and a retriever over the whole memory.

Each takes an open `memory` to share, or opens one. Its `options` are those of `local2.connect`;
with an open memory they are those of `Memory.of`, which name the caller.
"""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from llama_index.core.base.llms.types import ChatMessage, MessageRole, TextBlock, ToolCallBlock
from llama_index.core.bridge.pydantic import PrivateAttr
from llama_index.core.memory import BaseMemory, ChatMemoryBuffer
from llama_index.core.retrievers import BaseRetriever
from llama_index.core.schema import NodeWithScore, QueryBundle, TextNode

from local2.client.memory import Memory
from local2.integrations.base import (
    Adapter,
    LazyResource,
    LoggedEntry,
    SessionLog,
    background_memory,
    metadata_of,
    recalled_context,
)
from local2.protocol.memories import Scope
from local2.protocol.memory_tools import RecalledItem
from local2.protocol.payloads import Json

FRAMEWORK = "llama-index"
TOKEN_LIMIT = 30_000
"""Maximum tokens of a chat's messages in a prompt, as in LlamaIndex's own memory."""

T = TypeVar("T")


class LocalMemory(Adapter, BaseMemory):
    """The messages of one chat. Prompts also get what earlier chats say about the user's message.

    All messages are kept; `token_limit` bounds how many of the newest ones are in a prompt.
    """

    session_id: str
    token_limit: int = TOKEN_LIMIT
    _memory: LazyResource[Memory] = PrivateAttr()

    def __init__(
        self,
        session_id: str,
        *,
        token_limit: int = TOKEN_LIMIT,
        memory: Memory | None = None,
        **options: Any,
    ) -> None:
        fields: dict[str, Any] = {"session_id": session_id, "token_limit": token_limit}
        super().__init__(**fields)
        self._memory = background_memory(memory, options, FRAMEWORK)

    @classmethod
    def class_name(cls) -> str:
        return "LocalMemory"

    @classmethod
    def from_defaults(cls, **kwargs: Any) -> "LocalMemory":
        return cls(**kwargs)

    def get(self, input: str | None = None, **kwargs: Any) -> list[ChatMessage]:  # noqa: A002
        """The newest messages for a prompt, after what earlier chats say about the input.

        Without an input, as agents ask for their first prompt, it is the user's last message.
        """
        del kwargs
        messages = self.get_all()
        said = [message.content for message in messages if message.role == MessageRole.USER]
        query = input or (said[-1] if said else None) or ""
        recalled = self._memory.wait_for(
            lambda memory: recalled_context(memory, query, self.session_id)
        )
        newest = ChatMemoryBuffer.from_defaults(messages, token_limit=self.token_limit).get()
        if recalled is None:
            return newest
        return [ChatMessage(role=MessageRole.SYSTEM, content=recalled), *newest]

    def get_all(self) -> list[ChatMessage]:
        items = self._do(SessionLog.latest)
        return [ChatMessage.model_validate(item) for item in items]

    def put(self, message: ChatMessage) -> None:
        self.put_messages([message])

    def put_messages(self, messages: list[ChatMessage]) -> None:
        entries = [
            LoggedEntry(item=message.model_dump(mode="json"), message=message_in(message))
            for message in messages
        ]
        self._do(lambda log: log.append(entries))

    def set(self, messages: list[ChatMessage]) -> None:
        """Replace all messages; the former ones are erased."""
        self.reset()
        self.put_messages(messages)

    def reset(self) -> None:
        """Remove all messages, and erase them from the memory."""
        self._do(SessionLog.clear)

    def _do(self, work: Callable[[SessionLog], Awaitable[T]]) -> T:
        return self._memory.wait_for(
            lambda memory: work(SessionLog.of(memory, FRAMEWORK, self.session_id))
        )


class LocalRetriever(Adapter, BaseRetriever):
    """Finds messages, tool outputs, documents, facts and notes of any session."""

    def __init__(
        self,
        *,
        similarity_top_k: int = 5,
        scope: Scope = "any",
        memory: Memory | None = None,
        **options: Any,
    ) -> None:
        super().__init__()
        self._top_k = similarity_top_k
        self._scope: Scope = scope
        self._memory = background_memory(memory, options, FRAMEWORK)

    def _retrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return self._memory.wait_for(lambda memory: self._ask(memory, query_bundle))

    async def _aretrieve(self, query_bundle: QueryBundle) -> list[NodeWithScore]:
        return await self._memory.do(lambda memory: self._ask(memory, query_bundle))

    async def _ask(self, memory: Memory, query: QueryBundle) -> list[NodeWithScore]:
        found = await memory.recall(query.query_str, top_k=self._top_k, scope=self._scope)
        return [node_of(item) for item in found.items]


def message_in(message: ChatMessage) -> Json | None:
    """A message to ingest, with its text and calls but no thoughts or images, or None."""
    texts = [block.text for block in message.blocks if isinstance(block, TextBlock)]
    found: Json = {"role": message.role.value, "content": "\n".join(texts)}
    calls = [
        {"id": block.tool_call_id, "name": block.tool_name, "args": block.tool_kwargs}
        for block in message.blocks
        if isinstance(block, ToolCallBlock)
    ]
    if calls:
        found["tool_calls"] = calls
    if call_id := message.additional_kwargs.get("tool_call_id"):
        found["tool_call_id"] = call_id
    return found if found["content"].strip() or calls else None


def node_of(item: RecalledItem) -> NodeWithScore:
    node = TextNode(id_=item.id, text=item.content, metadata=metadata_of(item))
    return NodeWithScore(node=node, score=item.score)
