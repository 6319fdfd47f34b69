"""One message of a conversation, and its conversion to and from the forms that models use."""

import re
from copy import deepcopy
from typing import Any, Literal, Self, TypeVar, get_args

import msgspec

from local2.conversation.checked import Checked
from local2.conversation.parts import (
    REASONING_FIELDS,
    Content,
    as_json,
    as_parts,
    call_fields,
    reasoning_of,
    text_and_parts,
    text_or_parts,
    urls_of,
)
from local2.errors import ConversationError, abridged, quoted
from local2.protocol.envelope import new_id
from local2.protocol.payloads import Json

Role = Literal["system", "user", "assistant", "tool"]
Action = Literal["call_tool", "invoke_agent", "final_response"]
T = TypeVar("T")

ROLES: tuple[Role, ...] = get_args(Role)
ACTIONS: tuple[Action, ...] = get_args(Action)
SUMMARY = "conversation_summary"
"""The `name` of a message that summarises those before it."""
MAX_NAME = 64
"""Maximum characters of a message's name in OpenAI's chat API."""
REPLY_FIELDS = (
    "role",
    "content",
    "refusal",
    "tool_calls",
    "agent_calls",
    "structured_data",
    "images",
)
"""The fields that are read from a model's reply."""

_REFUSED_IN_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
"""The characters that OpenAI's chat API refuses in a message's name."""


class ToolCallMsg(Checked, frozen=True):
    """A call of a tool. `arguments` is JSON text, as models write it.

    It is a type of its own because this package's callers choose its fields: they are OpenAI's.
    """

    id: str
    call_id: str
    type: str
    name: str
    arguments: str

    def to_dict(self) -> Json:
        """`{"id", "type", "function": {"name", "arguments"}}`."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.call_id or self.id, "type": self.type, "function": function}

    @classmethod
    def calling(cls, name: str, arguments: Json, *, id_: str) -> Self:
        """A call of the tool with these arguments."""
        return cls(id=id_, call_id=id_, type="function", name=name, arguments=as_json(arguments))

    @classmethod
    def from_dict(cls, call: Json) -> Self:
        """Read OpenAI's form, or this Struct's own fields. The arguments may be an object.

        Raises:
            ConversationError: The call names no tool, or its fields have other types.
        """
        function = call.get("function") or call
        arguments = function.get("arguments") or "{}"
        if not function.get("name"):
            raise ConversationError("A tool call names no tool.")
        id_ = call.get("id") or call.get("call_id") or new_id()
        fields = {
            "id": id_,
            "call_id": call.get("call_id") or id_,
            "type": call.get("type") or "function",
            "name": function["name"],
            "arguments": arguments if isinstance(arguments, str) else as_json(arguments),
        }
        return _converted(fields, cls)


class AgentCallMsg(Checked, frozen=True):
    """A request to another agent."""

    agent_name: str
    request: Any

    def to_dict(self) -> Json:
        """`{"agent_name", "request"}`."""
        return {"agent_name": self.agent_name, "request": deepcopy(self.request)}


class MessageContent(Checked, frozen=True):
    """An agent's decision about its next step; `to_dict` is the content of a Message."""

    thought: str | None = None
    next_action: Action | None = None
    action_input: Json | None = None

    def __post_init__(self) -> None:
        if self.next_action is not None and self.next_action not in ACTIONS:
            raise ConversationError(
                f"{quoted(self.next_action)} is not a next action.",
                remedy=f"One of: {', '.join(ACTIONS)}.",
            )
        super().__post_init__()

    def to_dict(self) -> Json:
        """The fields that are set."""
        fields = msgspec.structs.asdict(self)
        return {name: value for name, value in fields.items() if value is not None}


class Message(Checked, frozen=True):
    """One message. `images` are URLs, data URIs or paths.

    It is a type of its own because it holds whatever any model's API takes; `ChatMessage` has only
    what our adapters send.

    A list as content holds parts, each with a type and the field that the type names, such as
    `{"type": "text", "text": …}`. Any other list is data, and so is a dict. `reasoning_details` are
    returned to the model as it gave them.
    """

    role: Role
    content: Content | None = None
    message_id: str = msgspec.field(default_factory=new_id)
    name: str | None = None
    tool_calls: list[ToolCallMsg] | None = None
    agent_calls: list[AgentCallMsg] | None = None
    structured_data: Json | None = None
    images: list[str] | None = None
    tool_call_id: str | None = None
    reasoning_details: list[Json] | None = None

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ConversationError(
                f"{quoted(self.role)} is not a role.", remedy=f"One of: {', '.join(ROLES)}."
            )
        lists = (
            ("tool_calls", self.tool_calls, ToolCallMsg),
            ("agent_calls", self.agent_calls, AgentCallMsg),
            ("images", self.images, str),
        )
        for name, values, kind in lists:
            if not isinstance(values or [], list) or not all(
                isinstance(value, kind) for value in values or ()
            ):
                raise ConversationError(
                    f"{name}: expected a list of {kind.__name__}, got {quoted(values)}.",
                    remedy="Message.from_response_dict reads messages in the forms of model APIs.",
                )
        super().__post_init__()

    def to_llm_dict(self) -> Json:
        """Role, content and all other fields that are set, for a model's adapter.

        The dict shares nothing with the message. Data as content becomes JSON text. Images become
        parts of the content, `{"type": "image_url", "image_url": {"url": …}}`. A path stays a path;
        see `images.embedded`.
        """
        content = deepcopy(text_or_parts(self.content))
        if self.images:
            images = ({"type": "image_url", "image_url": {"url": url}} for url in self.images)
            content = [*as_parts(content), *images]
        fields: Json = {"role": self.role, "content": content}
        if self.name:
            fields["name"] = self.name
        if self.tool_calls:
            fields["tool_calls"] = [call.to_dict() for call in self.tool_calls]
        if self.agent_calls:
            fields["agent_calls"] = [call.to_dict() for call in self.agent_calls]
        if self.tool_call_id:
            fields["tool_call_id"] = self.tool_call_id
        if self.reasoning_details:
            fields["reasoning_details"] = deepcopy(self.reasoning_details)
        return fields

    def to_api_format(self) -> Json:
        """The form that OpenAI's chat API and compatible ones accept.

        `{"role", "content", "name"?, "tool_calls"?, "tool_call_id"?, "reasoning_details"?}`. The
        content is text or parts; it is null only beside tool calls, and only user messages have
        images. Requests to agents and the names of tool messages are left out.
        """
        fields = self.to_llm_dict()
        fields.pop("agent_calls", None)
        if self.role == "tool":
            fields.pop("name", None)
        elif "name" in fields:
            fields["name"] = _REFUSED_IN_NAMES.sub("_", fields["name"])[:MAX_NAME]
        if self.role != "user" and isinstance(fields["content"], list):
            fields["content"] = [part for part in fields["content"] if part.get("type") == "text"]
        if not fields["content"]:
            fields["content"] = None if self.tool_calls else ""
        return fields

    @classmethod
    def from_response_dict(
        cls, response_dict: Json, *, name: str | None = None, message_id: str | None = None
    ) -> Self:
        """Read a model's reply: its message, or the whole response with `choices`.

        Images may be URLs, or parts with URLs. A refusal becomes the content.

        Raises:
            ConversationError: The reply is empty, a call names no tool, or a field has another
                type.
        """
        try:
            whole = "choices" in response_dict
            reply = response_dict["choices"][0]["message"] if whole else response_dict
            content = reply.get("content")
            calls = [ToolCallMsg.from_dict(call) for call in reply.get("tool_calls") or ()]
            requests = [
                {"agent_name": call["agent_name"], "request": call.get("request")}
                for call in reply.get("agent_calls") or ()
            ]
            fields = {
                "content": reply.get("refusal") if content is None else content,
                "tool_calls": calls or None,
                "agent_calls": requests or None,
                "structured_data": reply.get("structured_data"),
                "images": urls_of(reply.get("images")) or None,
                "reasoning_details": reasoning_of(reply),
            }
            identity = {
                "role": reply.get("role") or "assistant",
                "message_id": message_id or new_id(),
                "name": name or reply.get("name"),
                "tool_call_id": reply.get("tool_call_id"),
            }
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ConversationError(
                f"The model's reply cannot be read: {abridged(repr(error))}."
            ) from error
        if all(value is None for value in fields.values()):
            raise ConversationError("The model's reply is empty.")
        if isinstance(content, list) and not all(isinstance(part, dict) for part in content):
            raise ConversationError("The model's reply cannot be read: its content has no parts.")
        return _converted({**identity, **fields}, cls)

    @classmethod
    def from_harmonized_response(
        cls, response: object, *, name: str | None = None, message_id: str | None = None
    ) -> Self:
        """Read an adapter's reply object, whose attributes are named like the reply's fields.

        Raises what `from_response_dict` raises.
        """
        names = (*REPLY_FIELDS, "reasoning_details", *REASONING_FIELDS)
        fields = {field: getattr(response, field, None) for field in names}
        for field in ("tool_calls", "agent_calls"):
            fields[field] = [call_fields(call) for call in fields[field] or ()] or None
        return cls.from_response_dict(fields, name=name, message_id=message_id)


def is_summary(message: Message) -> bool:
    return message.role == "user" and message.name == SUMMARY


def is_from_user(message: Message) -> bool:
    """Whether the user wrote the message; a summary only has the user's role."""
    return message.role == "user" and message.name != SUMMARY


def text_of(message: Message) -> str:
    """The message's text and its requests to tools and agents, one per line."""
    text = text_and_parts(message.content)[0]
    calls = [f"{call.name}({call.arguments})" for call in message.tool_calls or ()]
    requests = [f"asks {call.agent_name}: {call.request}" for call in message.agent_calls or ()]
    return "\n".join(filter(None, [text, *calls, *requests]))


def _converted(fields: Json, type_: type[T]) -> T:
    try:
        return msgspec.convert(fields, type_)
    except msgspec.ValidationError as error:
        raise ConversationError(f"The model's reply cannot be read: {abridged(error)}.") from error
