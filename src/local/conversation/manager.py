"""One door to the three kinds of conversation memory."""

import dataclasses
from pathlib import Path
from typing import Literal, Unpack, get_args

from local.conversation.compaction.stages import CompactionRuntime
from local.conversation.config import ManagedMemoryConfig
from local.conversation.conversation import ConversationMemory, Fields
from local.conversation.events import EventContext, EventSink
from local.conversation.knowledge_graph import KGMemory
from local.conversation.managed import ManagedConversationMemory
from local.conversation.message import Message
from local.conversation.parts import Dict
from local.conversation.state import VERSION, Saved, State, load, save
from local.conversation.tokens import TokenCounter
from local.errors import ConversationError
from local.llm.structured import StructuredModel

MemoryType = Literal["conversation_history", "managed_conversation", "kg"]


class MemoryManager:
    """Makes a memory of the wanted type, and passes everything on to it."""

    def __init__(
        self,
        memory_type: MemoryType = "conversation_history",
        description: str | None = None,
        model: StructuredModel | None = None,
        memory_config: ManagedMemoryConfig | None = None,
        token_counter: TokenCounter | None = None,
    ) -> None:
        """Make the memory.

        Args:
            memory_type: Which one; `kg` extracts facts by rules without a `model`.
            description: The system message to begin with.
            model: Extracts facts for `kg`.
            memory_config: For `managed_conversation`.
            token_counter: Instead of the configuration's.

        Raises:
            ConversationError: There is no such type.
        """
        self.memory_type = memory_type
        self.memory: ConversationMemory
        if memory_type == "conversation_history":
            self.memory = ConversationMemory(description)
        elif memory_type == "managed_conversation":
            config = memory_config or ManagedMemoryConfig()
            if token_counter is not None:
                config = dataclasses.replace(config, token_counter=token_counter)
            self.memory = ManagedConversationMemory(config, description=description)
        elif memory_type == "kg":
            self.memory = KGMemory(model, description)
        else:
            types = ", ".join(get_args(MemoryType))
            raise ConversationError(f"There is no memory type {memory_type!r}, only {types}.")

    def add(self, message: Message | None = None, **fields: Unpack[Fields]) -> str:
        return self.memory.add(message, **fields)

    def update(self, message_id: str, **fields: Unpack[Fields]) -> None:
        self.memory.update(message_id, **fields)

    def retrieve_all(self) -> list[Dict]:
        return self.memory.retrieve_all()

    def retrieve_recent(self, n: int = 1) -> list[Dict]:
        return self.memory.retrieve_recent(n)

    def get_messages(self) -> list[Dict]:
        return self.memory.get_messages()

    def retrieve_by_id(self, message_id: str) -> Dict | None:
        return self.memory.retrieve_by_id(message_id)

    def retrieve_by_role(self, role: str, n: int | None = None) -> list[Dict]:
        return self.memory.retrieve_by_role(role, n)

    def remove_by_id(self, message_id: str) -> bool:
        return self.memory.remove_by_id(message_id)

    def replace_memory(
        self, idx: int, message: Message | None = None, **fields: Unpack[Fields]
    ) -> None:
        self.memory.replace_memory(idx, message, **fields)

    def delete_memory(self, idx: int) -> None:
        self.memory.delete_memory(idx)

    def reset_memory(self) -> None:
        self.memory.reset_memory()

    def set_event_context(
        self, agent_name: str, event_bus: EventSink, session_id: str | None = None
    ) -> None:
        """Have resets and compactions told to `event_bus`."""
        self.memory.event_context = EventContext(
            agent_name=agent_name, event_bus=event_bus, session_id=session_id or ""
        )

    async def compact_if_needed(self, runtime: CompactionRuntime | None = None) -> bool:
        """Whether a compaction was due, and made the conversation smaller."""
        if isinstance(self.memory, ManagedConversationMemory):
            return await self.memory.compact_if_needed(runtime)
        return False

    async def compact_for_payload_error(self, runtime: CompactionRuntime | None = None) -> bool:
        """Whether a request that was refused as too large is smaller now."""
        if isinstance(self.memory, ManagedConversationMemory):
            return await self.memory.compact_for_payload_error(runtime)
        return False

    def save_to_file(self, filepath: str | Path, additional_state: State | None = None) -> None:
        """Write everything to a JSON file, which only its owner may read.

        Blocks: call it in a thread, and leave the memory alone until it returns.

        Raises:
            ConversationError: It cannot be written, or not without a loss; a file that was there
                stays as it was.
        """
        saved = Saved(
            version=VERSION,
            memory_type=self.memory_type,
            memory=self.memory.snapshot(),
            additional_state=additional_state,
        )
        save(Path(filepath), saved)

    def load_from_file(self, filepath: str | Path) -> State | None:
        """Become what was saved; returns the additional state. Blocks, as `save_to_file` does.

        Raises:
            ConversationError: It is no such file, or of another memory type.
        """
        saved = load(Path(filepath))
        if saved.memory_type != self.memory_type:
            raise ConversationError(
                f"{filepath} holds a memory of type {saved.memory_type}, not {self.memory_type}.",
                remedy="Make a MemoryManager of that type to load it.",
            )
        self.memory.restore(saved.memory)
        return saved.additional_state
