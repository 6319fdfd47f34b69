"""ChatGPT's export: `conversations.json`, or `conversations-000.json` and so on since 2026.

A conversation is a tree of messages: an edited question and an answer that was asked for again are
branches. `current_node` is the end of the branch that was last shown, and only that one is read.
"""

from collections.abc import Iterable, Iterator
from typing import Any

import msgspec

from local2.protocol.conversation import ConversationMessage, is_blank
from local2.protocol.envelope import content_id
from local2.protocol.lenient.values import moment_of
from local2.protocol.payloads import Json, ToolCallRecord
from local2.sources.items import Conversation, LeftOuts
from local2.sources.objects import FoundObject, converted

INSTRUCTIONS = frozenset({"user_editable_context", "model_editable_context"})
REASONING = frozenset({"thoughts", "reasoning_recap"})
TO_EVERYBODY = frozenset({None, "", "all"})
"""The recipient of a message that is no call of a tool."""


class Author(msgspec.Struct, frozen=True):
    role: str = ""
    name: str | None = None


class Content(msgspec.Struct, frozen=True):
    """The content of a message. Its text is in `parts`, or for tools in `text` or `result`."""

    content_type: str | None = None
    parts: list[Any] | None = None
    text: str | None = None
    result: str | None = None


class Metadata(msgspec.Struct, frozen=True):
    is_visually_hidden_from_conversation: bool | None = None


class Message(msgspec.Struct, frozen=True):
    author: Author = Author()
    content: Content | None = None
    id: str | None = None
    create_time: float | None = None
    weight: float | None = None
    recipient: str | None = None
    metadata: Metadata | None = None

    @property
    def reason_to_leave_out(self) -> str | None:
        kind = self.content.content_type if self.content else None
        if kind in INSTRUCTIONS:
            return "custom instructions, which ChatGPT repeats in each conversation"
        if kind in REASONING:
            return "what the model thought before it answered"
        hidden = self.metadata is not None and self.metadata.is_visually_hidden_from_conversation
        return "messages that ChatGPT does not show" if hidden or self.weight == 0 else None


class Node(msgspec.Struct, frozen=True):
    message: Json | None = None
    parent: str | None = None


class Chat(msgspec.Struct, frozen=True):
    """A conversation of the export; older ones have only `id`, newer ones `conversation_id`."""

    mapping: dict[str, Node]
    current_node: str | None = None
    conversation_id: str | None = None
    id: str | None = None
    title: str | None = None
    create_time: float | None = None


def items(objects: Iterable[FoundObject], left_out: LeftOuts) -> Iterator[Conversation]:
    """Read the conversations of an export."""
    for found in objects:
        chat = converted(found, Chat, left_out)
        if chat is None:
            continue
        id_ = chat.conversation_id or chat.id or content_id(chat.title, chat.create_time)
        name = f"{chat.title or 'untitled'} ({id_})"
        branch = _current_branch(chat)
        others = sum(
            chat.mapping[id_].message is not None for id_ in chat.mapping.keys() - set(branch)
        )
        if others:
            left_out.add(name, "messages of branches that were edited or asked for again", others)
        messages = list(_messages(chat, branch, name, left_out))
        if not messages:
            left_out.add(name, "conversations without messages")
            continue
        if chat.title:
            messages[0] = msgspec.structs.replace(messages[0], fields={"title": chat.title})
        yield Conversation(id=f"chatgpt-{id_}", messages=messages)


def _current_branch(chat: Chat) -> list[str]:
    """The ids of the nodes from the root to the current one, or else to the newest one."""

    def time_of(id_: str) -> float:
        time = (chat.mapping[id_].message or {}).get("create_time")
        return float(time) if isinstance(time, int | float) else 0.0

    at = chat.current_node
    if at not in chat.mapping:
        at = max(chat.mapping, key=time_of, default=None)
    branch: list[str] = []
    seen: set[str] = set()
    while at is not None and at in chat.mapping and at not in seen:
        seen.add(at)
        branch.append(at)
        at = chat.mapping[at].parent
    branch.reverse()
    return branch


def _messages(
    chat: Chat, branch: list[str], name: str, left_out: LeftOuts
) -> Iterator[ConversationMessage]:
    """Yield the messages of a branch. One without a time has that of the message before it."""
    at = moment_of(chat.create_time)
    open_call: str | None = None
    for node_id in branch:
        node = chat.mapping[node_id]
        if node.message is None:
            continue
        named = f"{name}: message {node_id}"
        message = converted(FoundObject(named, node.message), Message, left_out)
        if message is None or message.content is None:
            continue
        at = moment_of(message.create_time) or at
        if (reason := message.reason_to_leave_out) is not None:
            left_out.add(named, reason)
            continue
        texts = [text for text in (message.content.text, message.content.result) if text]
        for part in message.content.parts or ():
            said = part.get("text") if isinstance(part, dict) else part
            if isinstance(said, str):
                texts.append(said)
            else:
                left_out.add(named, "images, sound and files")
        text = "\n".join(texts)
        if is_blank(text):
            left_out.add(named, "messages without text")
            continue
        id_ = message.id or node_id
        if message.author.role == "tool":
            yield ConversationMessage(
                role="tool",
                id=id_,
                name=message.author.name,
                timestamp=at,
                content=text,
                tool_call_id=open_call,
            )
        elif message.author.role == "assistant" and message.recipient not in TO_EVERYBODY:
            open_call = node_id  # a call of a tool is a message to it
            call = ToolCallRecord(
                id=node_id, name=message.recipient or "tool", args={"input": text}
            )
            yield ConversationMessage(role="assistant", id=id_, timestamp=at, tool_calls=[call])
        else:
            open_call = None
            yield ConversationMessage(
                role=message.author.role or "user", id=id_, timestamp=at, content=text
            )
