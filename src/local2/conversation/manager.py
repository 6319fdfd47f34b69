"""One interface to the three kinds of conversation memory, and the files they are saved to.

A file is JSON with a version. It is written to a temporary file in the same folder and then
renamed, so that a crash leaves either the old file or the new one.
"""

import dataclasses
import os
from pathlib import Path
from typing import Annotated, Literal, Unpack, get_args

import msgspec

from local2.atomic_file import PRIVATE_FILE, write_atomically
from local2.conversation.config import ManagedMemoryConfig
from local2.conversation.context import TokenCounter
from local2.conversation.conversation import ConversationMemory, MessageFields, Snapshot
from local2.conversation.events import EventContext, EventSink
from local2.conversation.knowledge_graph import KGMemory
from local2.conversation.managed import ManagedConversationMemory
from local2.conversation.message import Message
from local2.conversation.stages import CompactionRuntime
from local2.errors import ConversationError
from local2.llm.models import StructuredModel
from local2.protocol.payloads import Json

MemoryType = Literal["conversation_history", "managed_conversation", "kg"]
VERSION = 1
"""Version of the file format. A file of a newer version is refused."""


class MemoryManager:
    """Creates a memory of the requested type, and delegates every call to it."""

    def __init__(
        self,
        memory_type: MemoryType = "conversation_history",
        description: str | None = None,
        model: StructuredModel | None = None,
        memory_config: ManagedMemoryConfig | None = None,
        token_counter: TokenCounter | None = None,
    ) -> None:
        """Create the memory.

        Args:
            memory_type: Without a `model`, `kg` extracts facts by rules.
            description: The system message to begin with.
            model: Extracts facts for `kg`.
            memory_config: The configuration of `managed_conversation`.
            token_counter: Replaces that of the configuration.

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

    def add(self, message: Message | None = None, **fields: Unpack[MessageFields]) -> str:
        return self.memory.add(message, **fields)

    def update(self, message_id: str, **fields: Unpack[MessageFields]) -> None:
        self.memory.update(message_id, **fields)

    def retrieve_all(self) -> list[Json]:
        return self.memory.retrieve_all()

    def retrieve_recent(self, n: int = 1) -> list[Json]:
        return self.memory.retrieve_recent(n)

    def get_messages(self) -> list[Json]:
        return self.memory.get_messages()

    def retrieve_by_id(self, message_id: str) -> Json | None:
        return self.memory.retrieve_by_id(message_id)

    def retrieve_by_role(self, role: str, n: int | None = None) -> list[Json]:
        return self.memory.retrieve_by_role(role, n)

    def remove_by_id(self, message_id: str) -> bool:
        return self.memory.remove_by_id(message_id)

    def replace_memory(
        self, idx: int, message: Message | None = None, **fields: Unpack[MessageFields]
    ) -> None:
        self.memory.replace_memory(idx, message, **fields)

    def delete_memory(self, idx: int) -> None:
        self.memory.delete_memory(idx)

    def reset_memory(self) -> None:
        self.memory.reset_memory()

    def set_event_context(
        self, agent_name: str, event_bus: EventSink, session_id: str | None = None
    ) -> None:
        """Send the events of resets and compactions to `event_bus`."""
        self.memory.event_context = EventContext(
            agent_name=agent_name, event_bus=event_bus, session_id=session_id or ""
        )

    async def compact_if_needed(self, runtime: CompactionRuntime | None = None) -> bool:
        """Compact the conversation if that is due; return whether it became smaller."""
        if isinstance(self.memory, ManagedConversationMemory):
            return await self.memory.compact_if_needed(runtime)
        return False

    async def compact_for_payload_error(self, runtime: CompactionRuntime | None = None) -> bool:
        """Shorten the context after a request was refused; return whether it became smaller."""
        if isinstance(self.memory, ManagedConversationMemory):
            return await self.memory.compact_for_payload_error(runtime)
        return False

    def save_to_file(self, filepath: str | Path, additional_state: Json | None = None) -> None:
        """Write everything to a JSON file that only its owner may read.

        This blocks: call it in a thread, and do not use the memory until it returns.

        Raises:
            ConversationError: It cannot be written, or not without loss. An existing file stays as
                it was.
        """
        saved = SavedConversation(
            version=VERSION,
            memory_type=self.memory_type,
            memory=self.memory.snapshot(),
            additional_state=additional_state,
        )
        save(Path(filepath), saved)

    def load_from_file(self, filepath: str | Path) -> Json | None:
        """Replace everything by the content of a file; return the additional state. This blocks.

        Raises:
            ConversationError: The file is not a saved conversation, or is one of another memory
                type.
        """
        saved = load(Path(filepath))
        if saved.memory_type != self.memory_type:
            raise ConversationError(
                f"{filepath} holds a memory of type {saved.memory_type}, not {self.memory_type}.",
                remedy="Make a MemoryManager of that type to load it.",
            )
        self.memory.restore(saved.memory)
        return saved.additional_state


class _Versioned(msgspec.Struct, frozen=True):
    """The part of the file that every version has."""

    version: Annotated[int, msgspec.Meta(ge=1)]


class SavedConversation(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a file."""

    version: int
    memory_type: str
    memory: Snapshot
    additional_state: Json | None = None


def save(path: Path, saved: SavedConversation) -> None:
    """Write the file, and return once it is on disk.

    A symbolic link stays a link: the file that it points to is written.

    Raises:
        ConversationError: The disk refuses it, or it could not be read back without loss.
    """
    try:
        data = msgspec.json.encode(saved)
        if msgspec.json.decode(data, type=SavedConversation) != saved:
            problem = "it has a value that JSON cannot represent, such as a tuple, bytes or NaN"
            raise ValueError(problem)  # noqa: TRY301
        write_atomically(Path(os.path.realpath(path)), data, mode=PRIVATE_FILE, durable=True)
    except (OSError, TypeError, ValueError, RecursionError) as error:
        raise ConversationError(f"The conversation cannot be saved to {path}: {error}.") from error


def load(path: Path) -> SavedConversation:
    """Read a file.

    Raises:
        ConversationError: It cannot be read, is damaged, or was written by a newer version.
    """
    try:
        data = path.read_bytes()
    except (OSError, ValueError) as error:
        raise ConversationError(f"The conversation in {path} cannot be read: {error}.") from error
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version == VERSION:
            return msgspec.json.decode(data, type=SavedConversation)
    except (ValueError, RecursionError) as error:
        raise ConversationError(
            f"{path} is not a saved conversation, or is damaged: {error}.",
            remedy="Load another file, or begin a new conversation.",
        ) from error
    raise ConversationError(
        f"{path} has version {version} of the file format; this local2 knows {VERSION}.",
        remedy="Update local2.",
    )
