"""LangChain on local2: a retriever over the whole memory, a chat history, and a byte store.

Each takes an open `memory` to share, or opens one. Its `options` are those of `local2.connect`;
with an open memory they are those of `Memory.of`, which name the caller.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import Any, TypeVar

from langchain_core.callbacks import (
    AsyncCallbackManagerForRetrieverRun,
    CallbackManagerForRetrieverRun,
)
from langchain_core.chat_history import BaseChatMessageHistory
from langchain_core.documents import Document
from langchain_core.messages import (
    AIMessage,
    BaseMessage,
    ToolMessage,
    message_to_dict,
    messages_from_dict,
)
from langchain_core.retrievers import BaseRetriever
from langchain_core.stores import ByteStore
from pydantic import PrivateAttr

from local2.client.memory import Memory
from local2.integrations.base import (
    Adapter,
    LazyResource,
    LoggedEntry,
    SessionLog,
    background_memory,
    metadata_of,
)
from local2.protocol.items import ItemKey, ItemPut
from local2.protocol.memories import Scope
from local2.protocol.memory_tools import RecalledItem
from local2.protocol.payloads import Json

FRAMEWORK = "langchain"
STORE = "langchain.store"

T = TypeVar("T")


class LocalRetriever(Adapter, BaseRetriever):
    """Finds messages, tool outputs, documents, facts and notes of any session."""

    k: int = 5
    scope: Scope = "any"
    _memory: LazyResource[Memory] = PrivateAttr()

    def __init__(
        self,
        *,
        k: int = 5,
        scope: Scope = "any",
        memory: Memory | None = None,
        **options: Any,
    ) -> None:
        super().__init__(k=k, scope=scope)  # type: ignore[call-arg] # pydantic reads the fields
        self._memory = background_memory(memory, options, FRAMEWORK)

    def _get_relevant_documents(
        self, query: str, *, run_manager: CallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        del run_manager
        return self._memory.wait_for(lambda memory: self._ask(memory, query, k))

    async def _aget_relevant_documents(
        self, query: str, *, run_manager: AsyncCallbackManagerForRetrieverRun, k: int | None = None
    ) -> list[Document]:
        del run_manager
        return await self._memory.do(lambda memory: self._ask(memory, query, k))

    async def _ask(self, memory: Memory, query: str, k: int | None) -> list[Document]:
        found = await memory.recall(query, top_k=k or self.k, scope=self.scope)
        return [document_of(item) for item in found.items]


class LocalByteStore(Adapter, ByteStore):
    """Bytes by their keys, for example for a cache of embeddings. A user's stores have names."""

    def __init__(self, name: str, *, memory: Memory | None = None, **options: Any) -> None:
        self._namespace = (name,)
        self._memory = background_memory(memory, options, FRAMEWORK)

    def mget(self, keys: Sequence[str]) -> list[bytes | None]:
        return self._memory.wait_for(lambda memory: self._get(memory, keys))

    async def amget(self, keys: Sequence[str]) -> list[bytes | None]:
        return await self._memory.do(lambda memory: self._get(memory, keys))

    def mset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        self._memory.wait_for(lambda memory: self._put(memory, key_value_pairs))

    async def amset(self, key_value_pairs: Sequence[tuple[str, bytes]]) -> None:
        await self._memory.do(lambda memory: self._put(memory, key_value_pairs))

    def mdelete(self, keys: Sequence[str]) -> None:
        self._memory.wait_for(lambda memory: self._delete(memory, keys))

    async def amdelete(self, keys: Sequence[str]) -> None:
        await self._memory.do(lambda memory: self._delete(memory, keys))

    def yield_keys(self, *, prefix: str | None = None) -> Iterator[str]:
        yield from self._memory.wait_for(lambda memory: self._list(memory, prefix))

    async def ayield_keys(self, *, prefix: str | None = None) -> AsyncIterator[str]:
        for key in await self._memory.do(lambda memory: self._list(memory, prefix)):
            yield key

    def _key(self, key: str) -> ItemKey:
        return ItemKey(namespace=self._namespace, key=key)

    async def _get(self, memory: Memory, keys: Sequence[str]) -> list[bytes | None]:
        found = await memory.items(STORE).get([self._key(key) for key in keys])
        return [None if item is None else item.data for item in found]

    async def _put(self, memory: Memory, pairs: Sequence[tuple[str, bytes]]) -> None:
        new = [ItemPut(namespace=self._namespace, key=key, data=data) for key, data in pairs]
        await memory.items(STORE).put(new)

    async def _delete(self, memory: Memory, keys: Sequence[str]) -> None:
        await memory.items(STORE).delete(keys=[self._key(key) for key in keys])

    async def _list(self, memory: Memory, prefix: str | None) -> list[str]:
        every = memory.items(STORE).each_in(self._namespace)
        return [item.key async for item in every if item.key.startswith(prefix or "")]


class LocalChatMessageHistory(Adapter, BaseChatMessageHistory):
    """The messages of one chat. Later chats can recall them, too."""

    def __init__(self, session_id: str, *, memory: Memory | None = None, **options: Any) -> None:
        self.session_id = session_id
        self._memory = background_memory(memory, options, FRAMEWORK)

    @property
    def messages(self) -> list[BaseMessage]:  # type: ignore[override] # as LangChain's own do
        """All messages, in their order."""
        return messages_from_dict(self._memory.wait_for(self._with(SessionLog.latest)))

    async def aget_messages(self) -> list[BaseMessage]:
        return messages_from_dict(await self._memory.do(self._with(SessionLog.latest)))

    def add_messages(self, messages: Sequence[BaseMessage]) -> None:
        self._memory.wait_for(self._with(adding(messages)))

    async def aadd_messages(self, messages: Sequence[BaseMessage]) -> None:
        await self._memory.do(self._with(adding(messages)))

    def clear(self) -> None:
        self._memory.wait_for(self._with(SessionLog.clear))

    async def aclear(self) -> None:
        await self._memory.do(self._with(SessionLog.clear))

    def _with(self, work: Callable[[SessionLog], Awaitable[T]]) -> Callable[[Memory], Awaitable[T]]:
        return lambda memory: work(SessionLog.of(memory, FRAMEWORK, self.session_id))


def adding(messages: Sequence[BaseMessage]) -> Callable[[SessionLog], Awaitable[None]]:
    entries = [
        LoggedEntry(item=message_to_dict(message), message=message_in(message))
        for message in messages
    ]
    return lambda log: log.append(entries)


def message_in(message: BaseMessage) -> Json | None:
    """A message to ingest, with its text and calls but no reasoning or images, or None."""
    found: Json = {"role": getattr(message, "role", message.type), "content": str(message.text)}
    if message.name:
        found["name"] = message.name
    if isinstance(message, AIMessage) and message.tool_calls:
        found["tool_calls"] = [
            {"id": call["id"], "name": call["name"], "args": call["args"]}
            for call in message.tool_calls
        ]
    if isinstance(message, ToolMessage):
        found["tool_call_id"] = message.tool_call_id
    return found if found["content"].strip() or "tool_calls" in found else None


def document_of(item: RecalledItem) -> Document:
    return Document(id=item.id, page_content=item.content, metadata=metadata_of(item))
