"""One message of a conversation, and its forms for models and their replies."""

import re
from copy import deepcopy
from typing import Any, Literal, Self, TypeVar, get_args

import msgspec

from local.conversation.parts import Content, Dict, as_json, text_or_parts, text_parts, urls_of
from local.errors import ConversationError, echoed, quoted
from local.protocol.envelope import new_id

Role = Literal["system", "user", "assistant", "tool"]
Action = Literal["call_tool", "invoke_agent", "final_response"]
T = TypeVar("T")

ROLES: tuple[Role, ...] = get_args(Role)
ACTIONS: tuple[Action, ...] = get_args(Action)
NOT_OF_NAMES = re.compile(r"[^a-zA-Z0-9_-]+")
LONGEST_NAME = 64
"""What OpenAI's chat API refuses in the name of a message, and how long one may be."""
REPLY = ("role", "content", "refusal", "tool_calls", "agent_calls", "structured_data", "images")
REASONING = ("reasoning", "reasoning_content", "thinking")
"""What servers call the text of a reasoning."""


class ToolCallMsg(msgspec.Struct, frozen=True):
    """A tool that a message asks for. `arguments` is JSON text, as models write it."""

    id: str
    call_id: str
    type: str
    name: str
    arguments: str

    def to_dict(self) -> Dict:
        """`{"id", "type", "function": {"name", "arguments"}}`."""
        function = {"name": self.name, "arguments": self.arguments}
        return {"id": self.call_id or self.id, "type": self.type, "function": function}

    @classmethod
    def calling(cls, name: str, arguments: Dict, *, id_: str) -> Self:
        """A call of a function with these arguments."""
        return cls(id=id_, call_id=id_, type="function", name=name, arguments=as_json(arguments))

    @classmethod
    def from_dict(cls, call: Dict) -> Self:
        """From OpenAI's form, or from this Struct's own fields; arguments may be an object.

        Raises:
            ConversationError: It names no tool, or its fields have other types.
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
        return _checked(fields, cls)


class AgentCallMsg(msgspec.Struct, frozen=True):
    """An agent that a message asks for something."""

    agent_name: str
    request: Any

    def to_dict(self) -> Dict:
        """`{"agent_name", "request"}`."""
        return {"agent_name": self.agent_name, "request": deepcopy(self.request)}


class MessageContent(msgspec.Struct, frozen=True):
    """What an agent decided to do next; `to_dict` is the content of a Message."""

    thought: str | None = None
    next_action: Action | None = None
    action_input: Dict | None = None

    def __post_init__(self) -> None:
        if self.next_action is not None and self.next_action not in ACTIONS:
            raise ConversationError(
                f"{quoted(self.next_action)} is no next action.",
                remedy=f"One of: {', '.join(ACTIONS)}.",
            )

    def to_dict(self) -> Dict:
        """The fields that are set."""
        fields = msgspec.structs.asdict(self)
        return {name: value for name, value in fields.items() if value is not None}


class Message(msgspec.Struct, frozen=True):
    """One message. `images` are URLs, data URIs or paths.

    A list as content holds parts, each with a type and what that names, such as `{"type": "text",
    "text"}`; any other list is data, as a dict is. `reasoning_details` are what a model gave, and
    are given back to it as they came.
    """

    role: Role
    content: Content | None = None
    message_id: str = msgspec.field(default_factory=new_id)
    name: str | None = None
    tool_calls: list[ToolCallMsg] | None = None
    agent_calls: list[AgentCallMsg] | None = None
    structured_data: Dict | None = None
    images: list[str] | None = None
    tool_call_id: str | None = None
    reasoning_details: list[Dict] | None = None

    def __post_init__(self) -> None:
        if self.role not in ROLES:
            raise ConversationError(
                f"{quoted(self.role)} is no role.", remedy=f"One of: {', '.join(ROLES)}."
            )

    def to_llm_dict(self) -> Dict:
        """As a model's adapter takes it: role, content, and whatever else is set; the caller's own.

        Data as content become JSON text; images become parts of the content,
        `{"type": "image_url", "image_url": {"url"}}`, a path among them as it stands: see
        `images.embedded`.
        """
        fields: Dict = {"role": self.role, "content": self._content()}
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

    def to_api_format(self) -> Dict:
        """As OpenAI's chat API and its like take it.

        `{"role", "content", "name"?, "tool_calls"?, "tool_call_id"?, "reasoning_details"?}`, where
        content is text or parts, null only beside tool calls, and only a user's has images.
        Requests to agents are left out, and so is the name of a tool message.
        """
        fields = self.to_llm_dict()
        fields.pop("agent_calls", None)
        if self.role == "tool":
            fields.pop("name", None)
        elif "name" in fields:
            fields["name"] = NOT_OF_NAMES.sub("_", fields["name"])[:LONGEST_NAME]
        if self.role != "user" and isinstance(fields["content"], list):
            fields["content"] = [part for part in fields["content"] if part.get("type") == "text"]
        if not fields["content"]:
            fields["content"] = None if self.tool_calls else ""
        return fields

    @classmethod
    def from_response_dict(
        cls, response_dict: Dict, *, name: str | None = None, message_id: str | None = None
    ) -> Self:
        """From a model's reply: its message, or the whole response with `choices`.

        Images may be URLs, or parts with them. Where a model refuses, that is the content.

        Raises:
            ConversationError: It says nothing, names no tool in a call, or has other types.
        """
        try:
            whole = "choices" in response_dict
            reply = response_dict["choices"][0]["message"] if whole else response_dict
            said = _said(reply)
            spoken = {
                "role": reply.get("role") or "assistant",
                "message_id": message_id or new_id(),
                "name": name or reply.get("name"),
                "tool_call_id": reply.get("tool_call_id"),
            }
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise ConversationError(
                f"The model's reply cannot be read: {echoed(repr(error))}."
            ) from error
        if all(value is None for value in said.values()):
            raise ConversationError("The model's reply says nothing.")
        return _checked({**spoken, **said}, cls)

    @classmethod
    def from_harmonized_response(
        cls, response: object, *, name: str | None = None, message_id: str | None = None
    ) -> Self:
        """From an adapter's reply object, whose attributes are named as the reply's fields.

        Raises:
            ConversationError: As `from_response_dict`.
        """
        names = (*REPLY, "reasoning_details", *REASONING)
        fields = {field: getattr(response, field, None) for field in names}
        for field in ("tool_calls", "agent_calls"):
            fields[field] = [_as_dict(call) for call in fields[field] or ()] or None
        return cls.from_response_dict(fields, name=name, message_id=message_id)

    def _content(self) -> str | list[Dict] | None:
        content = deepcopy(text_or_parts(self.content))
        if not self.images:
            return content
        return [*text_parts(content), *({"type": "image_url", "image_url": {"url": image}}
                                         for image in self.images)]  # fmt: skip


def _said(reply: Dict) -> Dict:
    """What a reply says, None for what it does not."""
    content = reply.get("content")
    calls = [ToolCallMsg.from_dict(call) for call in reply.get("tool_calls") or ()]
    requests = [
        {"agent_name": call["agent_name"], "request": call.get("request")}
        for call in reply.get("agent_calls") or ()
    ]
    return {
        "content": reply.get("refusal") if content is None else content,
        "tool_calls": calls or None,
        "agent_calls": requests or None,
        "structured_data": reply.get("structured_data"),
        "images": urls_of(reply.get("images")) or None,
        "reasoning_details": _reasoning(reply),
    }


def _reasoning(reply: Dict) -> Any:
    """The details as they came, to be sent back as they came; else the text of the reasoning."""
    if reply.get("reasoning_details"):
        return reply["reasoning_details"]
    texts = (reply.get(name) for name in REASONING)
    text = next((text for text in texts if isinstance(text, str) and text), None)
    return [{"type": "reasoning.text", "text": text}] if text else None


def _as_dict(call: Any) -> Dict:
    """A call as a dict, whether it came as one, or as an object with such attributes."""
    if isinstance(call, dict):
        return call
    names = ("id", "call_id", "type", "name", "arguments", "function", "agent_name", "request")
    fields = {name: getattr(call, name) for name in names if getattr(call, name, None) is not None}
    if "function" in fields:
        fields["function"] = _as_dict(fields["function"])
    return fields


def _checked(fields: Dict, type_: type[T]) -> T:
    try:
        return msgspec.convert(fields, type_)
    except msgspec.ValidationError as error:
        raise ConversationError(f"The model's reply cannot be read: {echoed(error)}.") from error
