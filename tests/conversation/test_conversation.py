"""ConversationMemory has every method of its table, and announces resets."""

import pytest

from local2.conversation.conversation import ConversationMemory, Snapshot
from local2.conversation.events import EventContext
from local2.conversation.message import AgentCallMsg, Message, ToolCallMsg
from local2.errors import ConversationError
from talks import assistant, chat, system, tool, user

PROMPT = {"role": "system", "content": "You help."}
CALL = ToolCallMsg("1", "1", "function", "look", "{}")


@pytest.fixture
def memory() -> ConversationMemory:
    """Return a memory with a system message, two questions and two answers."""
    memory = ConversationMemory("You help.")
    for message in chat(2, length=1):
        memory.add(message)
    return memory


def first_words(memory: ConversationMemory) -> list[str]:
    return [message["content"].split()[0] for message in memory.retrieve_all()]


@pytest.mark.parametrize("description", [None, ""])
def test_without_a_description_there_are_no_messages(description: str | None) -> None:
    assert ConversationMemory(description).retrieve_all() == []


def test_add_appends_a_message_and_returns_its_id(memory: ConversationMemory) -> None:
    message = user("Hello")

    assert memory.add(message) == message.message_id
    assert memory.messages[-1] is message
    assert len(memory) == 6


def test_add_creates_a_message_from_fields(memory: ConversationMemory) -> None:
    requests = [AgentCallMsg(agent_name="Other", request="Help")]

    memory.add(
        role="assistant",
        content="Hm.",
        name="Ada",
        tool_calls=[CALL],
        agent_calls=requests,
        images=["https://example.com/cat.png"],
        reasoning_details=[{"text": "Hm"}],
    )
    memory.add(role="tool", content="Found.", tool_call_id="1", structured_data={"found": True})

    request, result = memory.messages[-2:]
    assert request == Message(
        role="assistant",
        content="Hm.",
        message_id=request.message_id,
        name="Ada",
        tool_calls=[CALL],
        agent_calls=requests,
        images=["https://example.com/cat.png"],
        reasoning_details=[{"text": "Hm"}],
    )
    assert (result.tool_call_id, result.structured_data) == ("1", {"found": True})


def test_add_refuses_invalid_messages_and_ids_in_use(memory: ConversationMemory) -> None:
    before = memory.messages

    with pytest.raises(ConversationError, match="needs a role"):
        memory.add(content="Hello")
    with pytest.raises(ConversationError, match="'bot' is not a role"):
        memory.add(role="bot", content="Hello")  # type: ignore[arg-type]
    with pytest.raises(ConversationError, match="not fields of a message that can be set: colour"):
        memory.add(role="user", colour="red")  # type: ignore[call-arg]
    with pytest.raises(ConversationError, match="not both"):
        memory.add(user("Hello"), content="Bye")
    with pytest.raises(ConversationError, match="Expected a Message, got a dict"):
        memory.add({"role": "user", "content": "Hello"})  # type: ignore[arg-type]
    with pytest.raises(ConversationError, match=f"{before[1].message_id} already"):
        memory.add(before[1])
    assert memory.messages == before


def test_update_changes_the_given_fields_of_a_message(memory: ConversationMemory) -> None:
    message_id = memory.add(assistant("Hm.", calls=["1"]))

    memory.update(message_id, content="Found.", name="Ada")

    changed = memory.messages[-1]
    assert (changed.message_id, changed.content, changed.name) == (message_id, "Found.", "Ada")
    assert [call.id for call in changed.tool_calls or ()] == ["1"]
    assert len(memory) == 6


def test_update_leaves_fields_given_as_none_unchanged(memory: ConversationMemory) -> None:
    before = memory.messages

    memory.update(before[1].message_id, role=None, content=None)  # type: ignore[arg-type]

    assert memory.messages == before


def test_update_refuses_unknown_messages_and_fields(memory: ConversationMemory) -> None:
    before = memory.messages

    with pytest.raises(ConversationError, match="no message nowhere"):
        memory.update("nowhere", content="Bye")
    with pytest.raises(ConversationError, match="not fields of a message that can be set: colour"):
        memory.update(before[1].message_id, colour="red")  # type: ignore[call-arg]
    with pytest.raises(ConversationError, match="'bot' is not a role"):
        memory.update(before[1].message_id, role="bot")  # type: ignore[arg-type]
    assert memory.messages == before


def test_retrieve_all_returns_every_message_as_a_dict(memory: ConversationMemory) -> None:
    assert memory.retrieve_all() == [message.to_llm_dict() for message in memory.messages]
    assert first_words(memory) == ["You", "question0", "answer0", "question1", "answer1"]


def test_retrieve_recent_returns_the_last_messages_in_order(memory: ConversationMemory) -> None:
    everything = memory.retrieve_all()

    assert memory.retrieve_recent() == everything[-1:]
    assert memory.retrieve_recent(2) == everything[-2:]
    assert memory.retrieve_recent(n=100) == everything
    assert memory.retrieve_recent(0) == memory.retrieve_recent(-1) == []


def test_retrieve_by_id_returns_a_message_or_none(memory: ConversationMemory) -> None:
    message_id = memory.add(role="user", content="Hello")

    assert memory.retrieve_by_id(message_id) == {"role": "user", "content": "Hello"}
    assert memory.retrieve_by_id("nowhere") is None


def test_retrieve_by_role_returns_the_last_n_of_a_role(memory: ConversationMemory) -> None:
    questions = [message for message in memory.retrieve_all() if message["role"] == "user"]

    assert memory.retrieve_by_role("user") == questions
    assert memory.retrieve_by_role("user", 1) == questions[-1:]
    assert memory.retrieve_by_role("user", n=100) == questions
    assert memory.retrieve_by_role("user", 0) == memory.retrieve_by_role("user", -1) == []
    assert memory.retrieve_by_role("tool") == []


def test_remove_by_id_returns_whether_there_was_such_a_message(memory: ConversationMemory) -> None:
    message_id = memory.messages[2].message_id

    assert memory.remove_by_id(message_id)
    assert not memory.remove_by_id(message_id)
    assert first_words(memory) == ["You", "question0", "question1", "answer1"]


def test_replace_memory_replaces_the_message_at_an_index(memory: ConversationMemory) -> None:
    old, new = memory.messages[1], user("Else")

    memory.replace_memory(1, new)

    assert first_words(memory) == ["You", "Else", "answer0", "question1", "answer1"]
    assert memory.retrieve_by_id(old.message_id) is None
    assert memory.retrieve_by_id(new.message_id) == new.to_llm_dict()


def test_replace_memory_keeps_nothing_of_the_old_message(memory: ConversationMemory) -> None:
    call_id = memory.add(assistant("Hm.", calls=["1"]))

    memory.replace_memory(-1, role="assistant", content="Found.")

    assert memory.retrieve_recent() == [{"role": "assistant", "content": "Found."}]
    assert memory.retrieve_by_id(call_id) is None


def test_replace_memory_may_keep_the_id(memory: ConversationMemory) -> None:
    new = Message(role="user", content="Else", message_id=memory.messages[1].message_id)

    memory.replace_memory(1, new)

    assert first_words(memory)[1] == "Else"


def test_replace_memory_refuses_missing_indices_and_ids_in_use(memory: ConversationMemory) -> None:
    before = memory.messages

    with pytest.raises(ConversationError, match="5 messages, and no index 5"):
        memory.replace_memory(5, user("Else"))
    with pytest.raises(ConversationError, match="already"):
        memory.replace_memory(1, before[2])
    with pytest.raises(ConversationError, match="needs a role"):
        memory.replace_memory(1, content="Else")
    assert memory.messages == before


def test_delete_memory_removes_the_message_at_an_index(memory: ConversationMemory) -> None:
    memory.delete_memory(1)
    memory.delete_memory(-1)

    assert first_words(memory) == ["You", "answer0", "question1"]
    for index in (3, -4):
        with pytest.raises(ConversationError, match=f"3 messages, and no index {index}"):
            memory.delete_memory(index)


def test_reset_memory_keeps_the_changed_system_prompt(memory: ConversationMemory) -> None:
    memory.update(memory.messages[0].message_id, content="You sing.")
    memory.add(system("Loudly."))

    memory.reset_memory()

    assert memory.retrieve_all() == [{"role": "system", "content": "You sing."}]


def test_reset_memory_without_a_system_prompt_keeps_nothing() -> None:
    memory = ConversationMemory()
    memory.reset_memory()
    memory.add(user("Hello"))
    memory.reset_memory()

    assert memory.retrieve_all() == []


def test_a_reset_is_complete_when_its_event_is_emitted(memory: ConversationMemory) -> None:
    class LengthRecorder:
        length_at_reset = -1

        def emit(self, _: object) -> None:
            self.length_at_reset = len(memory)

    recorder = LengthRecorder()
    memory.event_context = EventContext(agent_name="Ada", event_bus=recorder)

    memory.reset_memory()

    assert recorder.length_at_reset == 1


def test_restore_copies_the_messages_of_a_snapshot(memory: ConversationMemory) -> None:
    memory.add(assistant("Hm.", calls=["1"]))
    memory.add(tool("1"))
    other = ConversationMemory("You sing.")

    other.restore(memory.snapshot())

    assert other.messages == memory.messages
    assert other.remove_by_id(memory.messages[1].message_id)
    assert len(memory) == len(other) + 1


def test_a_snapshot_refuses_two_messages_with_the_same_id() -> None:
    message = user("Hello")

    with pytest.raises(ValueError, match="same id"):
        Snapshot(messages=[message, message])
