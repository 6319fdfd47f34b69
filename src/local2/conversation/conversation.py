"""A conversation as a list of messages that can be looked up, changed and removed."""

from collections.abc import Sequence
from itertools import islice
from typing import TypedDict, TypeVar, Unpack

import msgspec

from local2.conversation.events import EventContext, MemoryResetEvent
from local2.conversation.message import AgentCallMsg, Message, Role, ToolCallMsg
from local2.conversation.parts import Content
from local2.errors import ConversationError
from local2.protocol.payloads import Json


class MessageFields(TypedDict, total=False):
    """The fields of a message, or of a change to it."""

    role: Role
    content: Content | None
    name: str | None
    tool_calls: list[ToolCallMsg] | None
    agent_calls: list[AgentCallMsg] | None
    structured_data: Json | None
    images: list[str] | None
    tool_call_id: str | None
    reasoning_details: list[Json] | None


T = TypeVar("T")

FIELD_NAMES = frozenset(MessageFields.__annotations__)


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """The whole state of a conversation. `context` is what a model sees; None means all of it."""

    messages: list[Message]
    context: list[Message] | None = None

    def __post_init__(self) -> None:
        for messages in (self.messages, self.context or ()):
            if len({message.message_id for message in messages}) < len(messages):
                raise ValueError("two messages have the same id")


class ConversationMemory:
    """A list of messages. Returned dicts are those of `Message.to_llm_dict()`."""

    def __init__(self, description: str | None = None) -> None:
        """Begin with `description` as the system message, if it is given."""
        self._by_id: dict[str, Message] = {}
        self.event_context: EventContext | None = None
        if description:
            self.add(role="system", content=description)

    def __len__(self) -> int:
        return len(self._by_id)

    @property
    def messages(self) -> Sequence[Message]:
        return list(self._by_id.values())

    def add(self, message: Message | None = None, **fields: Unpack[MessageFields]) -> str:
        """Append a message, or make one from these fields; return its id.

        Raises:
            ConversationError: Neither a message nor a role is given, both a message and fields are
                given, or the id is taken.
        """
        message = _new_message(message, fields)
        if message.message_id in self._by_id:
            raise ConversationError(f"The message {message.message_id} already exists.")
        self._by_id[message.message_id] = message
        self._on_change("add", message)
        return message.message_id

    def update(self, message_id: str, **fields: Unpack[MessageFields]) -> None:
        """Change fields of a message. A field given as None keeps its value.

        Raises:
            ConversationError: There is no such message or field.
        """
        if message_id not in self._by_id:
            raise ConversationError(f"There is no message {message_id}.")
        _check_names(fields)
        changes = {name: value for name, value in fields.items() if value is not None}
        changed = msgspec.structs.replace(self._by_id[message_id], **changes)
        self._by_id[message_id] = changed
        self._on_change("update", changed)

    def retrieve_all(self) -> list[Json]:
        return [message.to_llm_dict() for message in self._by_id.values()]

    def retrieve_recent(self, n: int = 1) -> list[Json]:
        """The last `n` messages, in their order."""
        return [message.to_llm_dict() for message in last(self.messages, n)]

    def get_messages(self) -> list[Json]:
        """The messages that a model sees."""
        messages = self.retrieve_all()
        self._on_change("get_messages")
        return messages

    def retrieve_by_id(self, message_id: str) -> Json | None:
        message = self._by_id.get(message_id)
        return message.to_llm_dict() if message else None

    def retrieve_by_role(self, role: str, n: int | None = None) -> list[Json]:
        """The messages of a role, or the last `n` of them, in their order."""
        found = [message for message in self._by_id.values() if message.role == role]
        return [message.to_llm_dict() for message in last(found, n)]

    def remove_by_id(self, message_id: str) -> bool:
        """Remove a message; return whether it existed."""
        message = self._by_id.pop(message_id, None)
        if message is not None:
            self._on_change("remove_by_id", message)
        return message is not None

    def replace_memory(
        self, idx: int, message: Message | None = None, **fields: Unpack[MessageFields]
    ) -> None:
        """Replace the message at an index by the given one, or by a new one from these fields.

        Raises:
            ConversationError: The index is out of range, or for the reasons that `add` has.
        """
        old = self._at(idx)
        new = _new_message(message, fields)
        if new.message_id != old.message_id and new.message_id in self._by_id:
            raise ConversationError(f"The message {new.message_id} already exists.")
        self._by_id = {
            (new if message is old else message).message_id: new if message is old else message
            for message in self._by_id.values()
        }
        self._on_change("replace_memory", new)

    def delete_memory(self, idx: int) -> None:
        """Remove the message at an index.

        Raises:
            ConversationError: The index is out of range.
        """
        message = self._at(idx)
        del self._by_id[message.message_id]
        self._on_change("delete_memory", message)

    def reset_memory(self) -> None:
        """Remove everything except a leading system message, and emit an event."""
        first = next(iter(self._by_id.values()), None)
        self._by_id = {first.message_id: first} if first and first.role == "system" else {}
        self._on_change("reset_memory")
        if (context := self.event_context) is not None:
            context.event_bus.emit(
                MemoryResetEvent(session_id=context.session_id, agent_name=context.agent_name)
            )

    def snapshot(self) -> Snapshot:
        return Snapshot(messages=list(self._by_id.values()))

    def restore(self, snapshot: Snapshot) -> None:
        """Replace the whole state by that of a snapshot."""
        self._by_id = {message.message_id: message for message in snapshot.messages}
        self._on_change("restore")

    def _at(self, idx: int) -> Message:
        if not -len(self._by_id) <= idx < len(self._by_id):
            raise ConversationError(f"There are {len(self._by_id)} messages, and no index {idx}.")
        return next(islice(self._by_id.values(), idx % len(self._by_id), None))

    def _on_change(self, event: str, message: Message | None = None) -> None:
        """Hook for subclasses: called after every change with the method's name and the message."""


def last(found: Sequence[T], n: int | None) -> Sequence[T]:
    """The last `n`, in their order; None means all."""
    return found if n is None else found[max(len(found) - max(n, 0), 0) :]


def _new_message(message: Message | None, fields: MessageFields) -> Message:
    if message is not None:
        if fields:
            raise ConversationError("Give either a message or its fields, not both.")
        if not isinstance(message, Message):
            raise ConversationError(f"Expected a Message, got a {type(message).__name__}.")
        return message
    if fields.get("role") is None:
        raise ConversationError("A message needs a role.")
    _check_names(fields)
    return Message(**fields)


def _check_names(fields: MessageFields) -> None:
    if not FIELD_NAMES.issuperset(fields):
        unknown = ", ".join(sorted(fields.keys() - FIELD_NAMES))
        raise ConversationError(f"These are not fields of a message that can be set: {unknown}.")
