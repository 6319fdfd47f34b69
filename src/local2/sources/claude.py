"""Claude's export: `conversations.json`, with the messages of each conversation in a list.

Newer exports name the message that each one follows; then only the branch that was last shown is
read. The text of an attachment is stored as what a tool brought, not as the user's own words.
"""

from collections.abc import Iterable, Iterator, Sequence

import msgspec

from local2.protocol.conversation import ConversationMessage, is_blank
from local2.protocol.lenient.messages import THOUGHT_TYPES
from local2.protocol.lenient.values import as_text, moment_of
from local2.protocol.payloads import Json, ToolCallRecord
from local2.sources.items import Conversation, LeftOuts
from local2.sources.objects import FoundObject, converted

ROLES = {"human": "user", "assistant": "assistant"}


class Attachment(msgspec.Struct, frozen=True):
    file_name: str | None = None
    extracted_content: str | None = None


class Message(msgspec.Struct, frozen=True):
    """A message. Older exports have only `text`, newer ones also blocks of `content`."""

    uuid: str
    sender: str
    text: str | None = None
    content: list[Json] | None = None
    created_at: str | None = None
    parent_message_uuid: str | None = None
    attachments: list[Attachment] | None = None
    files: list[Json] | None = None


class Chat(msgspec.Struct, frozen=True):
    uuid: str
    chat_messages: list[Json]
    name: str | None = None
    created_at: str | None = None
    current_leaf_message_uuid: str | None = None


def items(objects: Iterable[FoundObject], left_out: LeftOuts) -> Iterator[Conversation]:
    """Read the conversations of an export."""
    for found in objects:
        chat = converted(found, Chat, left_out)
        if chat is None:
            continue
        name = f"{chat.name or 'untitled'} ({chat.uuid})"
        read = [
            message
            for number, value in enumerate(chat.chat_messages, 1)
            if (
                message := converted(
                    FoundObject(f"{name}: message {number}", value), Message, left_out
                )
            )
        ]
        branch = _current_branch(chat, read)
        if len(branch) < len(read):
            others = len(read) - len(branch)
            left_out.add(name, "messages of branches that were edited or asked for again", others)
        messages = [
            stored
            for message in branch
            for stored in _messages(chat, message, f"{name}: message {message.uuid}", left_out)
        ]
        if not messages:
            left_out.add(name, "conversations without messages")
            continue
        if chat.name:
            messages[0] = msgspec.structs.replace(messages[0], fields={"title": chat.name})
        yield Conversation(id=f"claude-{chat.uuid}", messages=messages)


def _current_branch(chat: Chat, messages: Sequence[Message]) -> Sequence[Message]:
    """The messages up to the current one, or else up to the last one, in order."""
    if not any(message.parent_message_uuid for message in messages):
        return messages
    by_id = {message.uuid: message for message in messages}
    at: Message | None = by_id.get(chat.current_leaf_message_uuid or "") or messages[-1]
    branch: dict[str, Message] = {}
    while at is not None and at.uuid not in branch:
        branch[at.uuid] = at
        at = by_id.get(at.parent_message_uuid or "")
    return list(reversed(branch.values()))


def _messages(
    chat: Chat, message: Message, name: str, left_out: LeftOuts
) -> Iterator[ConversationMessage]:
    """Yield what was attached to a message, and then the message."""
    at = moment_of(message.created_at) or moment_of(chat.created_at)
    for number, attachment in enumerate(message.attachments or ()):
        if is_blank(attachment.extracted_content or ""):
            left_out.add(f"{name}: {attachment.file_name}", "images, sound and files")
            continue
        yield ConversationMessage(
            role="tool",
            id=f"{message.uuid}.{number}",
            name=attachment.file_name or "attachment",
            timestamp=at,
            content=attachment.extracted_content,
        )
    for file in message.files or ():
        left_out.add(f"{name}: {file.get('file_name')}", "images, sound and files")
    texts: list[str] = []
    calls: dict[str, ToolCallRecord] = {}
    for number, block in enumerate(message.content or ()):
        match block:
            case {"type": "text", "text": str(words)}:
                texts += [] if is_blank(words) else [words]
            case {"type": "text"}:
                pass
            case {"type": "tool_use", "name": str(tool)}:
                id_ = block.get("id")
                id_ = id_ if isinstance(id_, str) and id_ else f"call {number}"
                args = block.get("input")
                calls[id_] = ToolCallRecord(
                    id=id_, name=tool, args=args if isinstance(args, dict) else {"input": args}
                )
            case {"type": "tool_result"}:
                # Without the id of its call, it goes to the first call without a result.
                id_ = block.get("tool_use_id")
                call = calls.get(id_) if isinstance(id_, str) else None
                if call is None:
                    call = next((call for call in calls.values() if not call.content), None)
                if call is not None:
                    call.content = as_text(block.get("content"))
            case {"type": str(kind)} if kind in THOUGHT_TYPES:
                left_out.add(name, "what the model thought before it answered")
            case _:
                left_out.add(f"{name}: {block.get('type')}", "parts of other types")
    text = "\n\n".join(texts) if message.content else message.text or ""
    if is_blank(text) and not calls:
        left_out.add(name, "messages without text")
        return
    yield ConversationMessage(
        role=ROLES.get(message.sender, message.sender),
        id=message.uuid,
        timestamp=at,
        content=text,
        tool_calls=list(calls.values()),
    )
