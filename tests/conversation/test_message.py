"""Message has fields and roles, and converts to and from the formats of models."""

import base64
import json
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from local2.conversation import images
from local2.conversation.conversation import ConversationMemory
from local2.conversation.events import CompactionEvent, MemoryResetEvent
from local2.conversation.images import embedded, with_images
from local2.conversation.message import (
    AgentCallMsg,
    Message,
    MessageContent,
    Role,
    ToolCallMsg,
    text_of,
)
from local2.errors import ConversationError
from talks import assistant, system, tool, user

SEARCH = ToolCallMsg(
    id="call_123", call_id="call_123", type="function", name="search", arguments='{"query": "AI"}'
)
SEARCH_DICT = {
    "id": "call_123",
    "type": "function",
    "function": {"name": "search", "arguments": '{"query": "AI"}'},
}
SIGNED = {"type": "reasoning.encrypted", "data": "c2lnbmVk", "id": "r1", "format": "google"}
URL = "https://example.com/cat.png"
URL_PART = {"type": "image_url", "image_url": {"url": URL}}
CALLS = ("tool_calls", "agent_calls")
PNG = b"\x89PNG\r\n\x1a\n and the rest"


@pytest.mark.parametrize("role", get_args(Role))
def test_role_is_system_user_assistant_or_tool(role: Role) -> None:
    assert Message(role=role, content="Hello").to_llm_dict() == {"role": role, "content": "Hello"}


def test_another_role_is_refused_and_the_roles_are_named() -> None:
    with pytest.raises(ConversationError, match=r"'bot' is not a role. One of: system, user"):
        Message(role="bot")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tool_calls", [{"id": "c1", "function": {"name": "search", "arguments": "{}"}}]),
        ("tool_calls", "search"),
        ("agent_calls", [{"agent_name": "writer", "request": "Go."}]),
        ("images", "photo.jpg"),
        ("images", [5]),
    ],
)
def test_a_list_of_something_else_is_refused_by_name_when_the_message_is_made(
    field: str, value: Any
) -> None:
    with pytest.raises(ConversationError, match=f"^{field}: expected a list of"):
        Message(role="user", content="Hello", **{field: value})


@pytest.mark.parametrize(
    ("type_", "fields"),
    [
        (Message, {"role": "user", "content": 5}),
        (Message, {"role": "user", "content": b"Hello"}),
        (Message, {"role": "user", "message_id": None}),
        (Message, {"role": "user", "name": 5}),
        (Message, {"role": "tool", "tool_call_id": 5}),
        (Message, {"role": "assistant", "structured_data": ["a"]}),
        (Message, {"role": "assistant", "reasoning_details": {"text": "Hm."}}),
        (
            ToolCallMsg,
            {"id": "c", "call_id": "c", "type": "function", "name": "f", "arguments": {"q": 1}},
        ),
        (AgentCallMsg, {"request": "Go.", "agent_name": 5}),
        (MessageContent, {"action_input": "Go."}),
        (CompactionEvent, {"session_id": "s", "agent_name": "a", "status": "paused"}),
        (
            CompactionEvent,
            {"session_id": "s", "agent_name": "a", "status": "failed", "duration": "1"},
        ),
        (MemoryResetEvent, {"session_id": "s", "agent_name": None}),
    ],
)
def test_a_value_of_another_type_is_refused_by_the_name_of_its_field(
    type_: Any, fields: dict[str, Any]
) -> None:
    with pytest.raises(ConversationError, match=rf"^{type_.__name__}: .* at `\$\.{[*fields][-1]}`"):
        type_(**fields)


def test_a_change_to_a_value_of_another_type_is_refused_and_changes_nothing() -> None:
    memory = ConversationMemory()
    id_ = memory.add(role="user", content="Hello")

    with pytest.raises(ConversationError, match=r"at `\$\.content`"):
        memory.update(id_, content=5)  # type: ignore[arg-type]

    assert memory.retrieve_by_id(id_) == {"role": "user", "content": "Hello"}


def test_message_id_is_unique_to_every_message() -> None:
    assert len({user("Hello").message_id for _ in range(100)}) == 100


def test_a_message_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        user("Hello").content = "Bye"  # type: ignore[misc]


def test_tool_call_msg_converts_to_and_from_openais_format() -> None:
    assert SEARCH.to_dict() == SEARCH_DICT
    assert ToolCallMsg.from_dict(SEARCH_DICT) == SEARCH


@pytest.mark.parametrize(
    ("arguments", "text"),
    [({"query": "AI"}, '{"query":"AI"}'), ("", "{}"), (None, "{}"), ({}, "{}")],
)
def test_tool_call_msg_keeps_arguments_as_json_text(arguments: object, text: str) -> None:
    call = {"id": "1", "function": {"name": "search", "arguments": arguments}}

    assert ToolCallMsg.from_dict(call).arguments == text


def test_tool_call_msg_without_an_id_is_given_one() -> None:
    call = ToolCallMsg.from_dict({"function": {"name": "search"}})

    assert call.id
    assert call.call_id == call.id


def test_a_tool_call_with_two_ids_is_answered_by_its_call_id() -> None:
    call = ToolCallMsg.from_dict({"id": "fc_1", "call_id": "call_1", "name": "search"})

    assert (call.id, call.call_id) == ("fc_1", "call_1")
    assert call.to_dict()["id"] == "call_1"


def test_agent_call_msg_has_the_name_of_an_agent_and_a_request() -> None:
    message = Message(
        role="assistant",
        agent_calls=[AgentCallMsg(agent_name="DataProcessor", request="Process the sales data")],
    )

    assert message.to_llm_dict()["agent_calls"] == [
        {"agent_name": "DataProcessor", "request": "Process the sales data"}
    ]


@pytest.mark.parametrize("action", ["call_tool", "invoke_agent", "final_response"])
def test_message_content_becomes_the_content_of_a_message(action: Any) -> None:
    content = MessageContent(thought="Hm.", next_action=action, action_input={"response": "42"})
    fields = {"thought": "Hm.", "next_action": action, "action_input": {"response": "42"}}

    assert content.to_dict() == fields
    written = Message(role="assistant", content=content.to_dict()).to_llm_dict()
    assert json.loads(written["content"]) == fields


def test_message_content_leaves_out_what_is_not_set() -> None:
    assert MessageContent(thought="Hm.").to_dict() == {"thought": "Hm."}


def test_message_content_refuses_other_actions() -> None:
    with pytest.raises(ConversationError, match=r"'fly' is not a next action. One of: call_tool"):
        MessageContent(next_action="fly")  # type: ignore[arg-type]


def test_to_llm_dict_has_role_content_and_all_fields_that_are_set() -> None:
    message = Message(role="assistant", name="Ada", tool_calls=[SEARCH], reasoning_details=[SIGNED])

    assert message.to_llm_dict() == {
        "role": "assistant",
        "content": None,
        "name": "Ada",
        "tool_calls": [SEARCH_DICT],
        "reasoning_details": [SIGNED],
    }


def test_to_llm_dict_of_a_tool_message_has_the_id_of_its_call() -> None:
    assert tool("call_123", '{"result": "found"}').to_llm_dict() == {
        "role": "tool",
        "content": '{"result": "found"}',
        "name": "look",
        "tool_call_id": "call_123",
    }


@pytest.mark.parametrize(
    ("content", "parts"),
    [
        ("Describe this", [{"type": "text", "text": "Describe this"}, URL_PART]),
        ([{"type": "text", "text": "This"}], [{"type": "text", "text": "This"}, URL_PART]),
        ({"see": "this"}, [{"type": "text", "text": '{"see":"this"}'}, URL_PART]),
        ("", [URL_PART]),
        (None, [URL_PART]),
    ],
)
def test_to_llm_dict_makes_images_parts_of_the_content(content: Any, parts: object) -> None:
    message = Message(role="user", content=content, images=[URL])

    assert message.to_llm_dict()["content"] == parts
    assert message.content == content


@pytest.mark.parametrize("role", get_args(Role))
def test_content_that_is_a_list_of_data_becomes_json_text_everywhere(role: Role) -> None:
    pages: list[Any] = [{"title": "A", "text": "Of it.", "image_url": URL}, "A bare text."]
    rows = [{"type": "file", "name": "a.py"}, *pages]
    message = Message(role=role, content=rows)

    for content in (
        message.to_llm_dict()["content"],
        message.to_api_format()["content"],
        text_of(message),
    ):
        assert json.loads(content) == rows
    assert with_images(message, ()) is message
    assert with_images(msgspec.structs.replace(message, images=[URL]), ()) == message


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": "Hi."},
        URL_PART,
        {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}},
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AA"}},
    ],
    ids=lambda part: part["type"],
)
def test_content_that_is_a_list_of_parts_is_unchanged(part: dict[str, Any]) -> None:
    assert Message(role="user", content=[part]).to_api_format()["content"] == [part]


def test_changing_a_returned_dict_does_not_change_the_message() -> None:
    message = Message(
        role="assistant",
        content=[{"type": "text", "text": "Hi."}],
        agent_calls=[AgentCallMsg(agent_name="Other", request={"task": "Help"})],
        reasoning_details=[dict(SIGNED)],
    )
    written = json.dumps(message.to_llm_dict())

    returned = message.to_llm_dict()
    returned["content"][0]["cache_control"] = {"type": "ephemeral"}
    returned["agent_calls"][0]["request"].clear()
    returned["reasoning_details"].clear()

    assert json.dumps(message.to_llm_dict()) == written


def test_to_api_format_has_the_fields_that_openai_accepts_and_reasoning_details() -> None:
    message = Message(
        role="assistant",
        tool_calls=[SEARCH],
        agent_calls=[AgentCallMsg(agent_name="Other", request="Help")],
        structured_data={"a": 1},
        reasoning_details=[SIGNED],
    )

    assert message.to_api_format() == {
        "role": "assistant",
        "content": None,
        "tool_calls": [SEARCH_DICT],
        "reasoning_details": [SIGNED],
    }


def test_to_api_format_of_a_tool_message_has_the_id_of_its_call_and_no_name() -> None:
    assert tool("call_123", "Found.").to_api_format() == {
        "role": "tool",
        "content": "Found.",
        "tool_call_id": "call_123",
    }


@pytest.mark.parametrize("role", get_args(Role))
def test_to_api_format_has_content_if_there_are_no_tool_calls(role: Role) -> None:
    assert Message(role=role).to_api_format()["content"] == ""


@pytest.mark.parametrize("role", get_args(Role))
def test_to_api_format_has_only_images_of_users(role: Role) -> None:
    text = {"type": "text", "text": "See."}
    message = Message(role=role, content="See.", images=[URL])

    content = message.to_api_format()["content"]

    assert content == ([text, URL_PART] if role == "user" else [text])


@pytest.mark.parametrize(
    ("name", "accepted"), [("Ada", "Ada"), ("Ada  Lovelace", "Ada_Lovelace"), ("a" * 80, "a" * 64)]
)
def test_to_api_format_has_names_that_openai_accepts(name: str, accepted: str) -> None:
    assert Message(role="user", content="Hi", name=name).to_api_format()["name"] == accepted


def test_from_response_dict_reads_a_message() -> None:
    reply = {"role": "assistant", "content": "Let me look.", "tool_calls": [SEARCH_DICT]}

    message = Message.from_response_dict(reply, name="Ada", message_id="m1")

    assert message == Message(
        role="assistant", content="Let me look.", message_id="m1", name="Ada", tool_calls=[SEARCH]
    )


def test_from_response_dict_reads_a_whole_response() -> None:
    response = {"id": "r1", "choices": [{"index": 0, "message": {"content": "Hello"}}]}

    message = Message.from_response_dict(response)

    assert (message.role, message.content) == ("assistant", "Hello")


def test_from_response_dict_reads_agent_calls_images_and_structured_data() -> None:
    call = AgentCallMsg(agent_name="Other", request={"task": "Help"})
    reply = {"agent_calls": [call.to_dict()], "images": [URL], "structured_data": {"a": 1}}

    message = Message.from_response_dict(reply)

    assert (message.agent_calls, message.images) == ([call], [URL])
    assert message.structured_data == {"a": 1}


@pytest.mark.parametrize("image", [URL, URL_PART, {"type": "image_url", "image_url": URL}])
def test_from_response_dict_reads_images_as_urls_and_as_parts(image: object) -> None:
    assert Message.from_response_dict({"content": "See.", "images": [image]}).images == [URL]


def test_from_response_dict_reads_a_refusal_as_content() -> None:
    message = Message.from_response_dict({"content": None, "refusal": "I may not."})

    assert message.content == "I may not."


def test_reasoning_details_are_sent_back_to_the_model_unchanged() -> None:
    reply = {"content": None, "tool_calls": [SEARCH_DICT], "reasoning_details": [SIGNED]}

    message = Message.from_response_dict({**reply, "reasoning": "The same, readable."})

    assert message.to_llm_dict()["reasoning_details"] == [SIGNED]
    assert message.to_api_format()["reasoning_details"] == [SIGNED]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "thinking"])
def test_reasoning_details_hold_the_text_of_reasoning_without_details(field: str) -> None:
    message = Message.from_response_dict({"content": "42", field: "Six by seven."})

    assert message.reasoning_details == [{"type": "reasoning.text", "text": "Six by seven."}]


@pytest.mark.parametrize(
    "reply",
    [
        pytest.param({}, id="nothing"),
        pytest.param({"role": "assistant", "content": None}, id="nothing but a role"),
        pytest.param({"content": 42}, id="a number"),
        pytest.param({"content": ["Hi"]}, id="texts instead of parts"),
        pytest.param({"content": "Hi", "images": URL}, id="a text instead of images"),
        pytest.param({"content": "Hi", "images": [{"url": 1}]}, id="an image without a URL"),
        pytest.param(
            {"content": "Hi", "reasoning_details": SIGNED}, id="a detail instead of a list"
        ),
        pytest.param({"tool_calls": [{"id": 1, "name": "search"}]}, id="a number as an id"),
        pytest.param({"error": {"message": "Overloaded"}}, id="an error"),
        pytest.param({"choices": []}, id="no choices"),
        pytest.param({"choices": [{}]}, id="a choice without a message"),
        pytest.param({"choices": None}, id="null for choices"),
        pytest.param({"tool_calls": [{"id": "1"}]}, id="a call without a function"),
        pytest.param({"tool_calls": [{"function": {"name": ""}}]}, id="a call without a name"),
        pytest.param({"tool_calls": ["search"]}, id="a text instead of a call"),
        pytest.param({"agent_calls": [{"request": "Help"}]}, id="no agent"),
        pytest.param({"role": "bot", "content": "Hi"}, id="not a role"),
        pytest.param(None, id="null"),
        pytest.param([], id="a list"),
    ],
)
def test_from_response_dict_refuses_invalid_messages(reply: Any) -> None:
    with pytest.raises(ConversationError):
        Message.from_response_dict(reply)


def test_from_harmonized_response_reads_an_objects_attributes() -> None:
    function = SimpleNamespace(name="search", arguments='{"query": "AI"}')
    response = SimpleNamespace(
        role="assistant",
        content="Let me look.",
        tool_calls=[SimpleNamespace(id="call_123", type="function", function=function)],
        agent_calls=[SimpleNamespace(agent_name="Other", request="Help")],
        reasoning_details=[SIGNED],
        metadata=SimpleNamespace(model="some"),
    )

    message = Message.from_harmonized_response(response, name="Ada", message_id="m1")

    assert message == Message(
        role="assistant",
        content="Let me look.",
        message_id="m1",
        name="Ada",
        tool_calls=[SEARCH],
        agent_calls=[AgentCallMsg(agent_name="Other", request="Help")],
        reasoning_details=[SIGNED],
    )


@pytest.mark.parametrize("call", [SEARCH, SEARCH_DICT, SimpleNamespace(**SEARCH_DICT)])
def test_from_harmonized_response_reads_calls_in_any_form(call: object) -> None:
    response = SimpleNamespace(content=None, tool_calls=[call], thinking="Hm.")

    message = Message.from_harmonized_response(response)

    assert message.tool_calls == [SEARCH]
    assert message.reasoning_details == [{"type": "reasoning.text", "text": "Hm."}]


def test_from_harmonized_response_reads_a_refusal() -> None:
    response = SimpleNamespace(role="assistant", content=None, refusal="I may not.")

    assert Message.from_harmonized_response(response).content == "I may not."


def test_from_harmonized_response_refuses_empty_responses() -> None:
    for response in (object(), SimpleNamespace(role="assistant", content=None, tool_calls=[])):
        with pytest.raises(ConversationError, match="is empty"):
            Message.from_harmonized_response(response)


texts = st.text(max_size=20)
objects = st.dictionaries(texts, texts | st.integers() | st.booleans(), max_size=3)
parts = st.lists(st.builds(lambda text: {"type": "text", "text": text}, texts), max_size=3)
tool_calls = st.builds(
    ToolCallMsg,
    id=st.text(min_size=1),
    call_id=st.text(min_size=1),
    type=st.just("function"),
    name=st.text(min_size=1),
    arguments=objects.map(json.dumps),
)
agent_calls = st.builds(AgentCallMsg, agent_name=st.text(min_size=1), request=texts | objects)
messages = st.builds(
    Message,
    role=st.sampled_from(get_args(Role)),
    content=st.none() | texts | objects | parts | st.lists(objects, max_size=3),
    name=st.none() | texts,
    tool_calls=st.none() | st.lists(tool_calls, max_size=2),
    agent_calls=st.none() | st.lists(agent_calls, max_size=2),
    structured_data=st.none() | objects,
    images=st.none() | st.lists(texts, max_size=2),
    tool_call_id=st.none() | texts,
    reasoning_details=st.none() | st.lists(objects, max_size=2),
)


@given(messages)
def test_from_response_dict_reads_the_output_of_to_llm_dict(message: Message) -> None:
    written = message.to_llm_dict()
    assume(written["content"] is not None or written.keys() & {*CALLS, "reasoning_details"})

    assert Message.from_response_dict(written).to_llm_dict() == written


@given(messages)
def test_every_format_is_valid_json(message: Message) -> None:
    for form in (message.to_llm_dict(), message.to_api_format()):
        assert json.loads(json.dumps(form)) == form
    assert msgspec.json.decode(msgspec.json.encode(message), type=Message) == message


@pytest.mark.parametrize(
    ("data", "type_"),
    [
        (PNG, "image/png"),
        (b"\xff\xd8\xff\xe0 and the rest", "image/jpeg"),
        (b"GIF89a and the rest", "image/gif"),
        (b"RIFF\x00\x00\x00\x00WEBP and the rest", "image/webp"),
    ],
)
async def test_image_files_are_embedded(tmp_path: Path, data: bytes, type_: str) -> None:
    path = tmp_path / "image.jpg"
    path.write_bytes(data)
    message = user("Describe this", images=[URL, str(path), "data:image/png;base64,AAAA"])

    embedded_message = await embedded(message)

    encoded = f"data:{type_};base64,{base64.b64encode(data).decode()}"
    assert embedded_message.images == [URL, encoded, "data:image/png;base64,AAAA"]
    assert embedded_message.message_id == message.message_id


async def test_messages_without_image_files_are_unchanged() -> None:
    for message in (user("Hi"), user("See", images=[URL]), system(), assistant("Hello")):
        assert await embedded(message) is message


async def test_only_files_that_are_images_are_embedded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "secret.png").write_text("password")
    (tmp_path / "large.png").write_bytes(PNG)
    os.mkfifo(tmp_path / "pipe.png")

    for name, problem in {
        "secret.png": "is not a PNG, JPEG, GIF or WebP",
        "pipe.png": "is not a file",
        "none.png": "cannot be read",
        "nul\0.png": "cannot be read",
    }.items():
        with pytest.raises(ConversationError, match=problem):
            await embedded(user("See", images=[str(tmp_path / name)]))
    monkeypatch.setattr(images, "MAX_IMAGE_BYTES", len(PNG) - 1)
    with pytest.raises(ConversationError, match="has 21 bytes; the maximum is 20"):
        await embedded(user("See", images=[str(tmp_path / "large.png")]))
