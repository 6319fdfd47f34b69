"""MemoryManager offers three types of memory behind one interface, and saves them to a file."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from local2.conversation.config import ManagedMemoryConfig
from local2.conversation.conversation import ConversationMemory
from local2.conversation.events import MemoryResetEvent
from local2.conversation.knowledge_graph import KGMemory
from local2.conversation.managed import ManagedConversationMemory
from local2.conversation.manager import MemoryManager, MemoryType
from local2.conversation.message import AgentCallMsg, Message, ToolCallMsg
from local2.errors import ConversationError
from local2.llm.ollama import OllamaModel
from local2.protocol.memories import Triplet
from local2.protocol.payloads import Json
from stand_ins.ollama_server import OllamaStandIn
from talks import RecordedEvents, Writer, chat, config, runtime_with, user, words

TYPES: list[MemoryType] = ["conversation_history", "managed_conversation", "kg"]
EVERYTHING = Message(
    role="assistant",
    content=[{"type": "text", "text": "Größe: 狐 🦊 \u2028 \0"}],
    name="Ada",
    tool_calls=[ToolCallMsg("1", "c1", "function", "look", '{"a":  1}')],
    agent_calls=[AgentCallMsg(agent_name="Other", request={"deep": [1, 2.5, None, True]})],
    structured_data={"big": 2**70, "small": 1e-300},
    images=["https://example.com/cat.png"],
    tool_call_id="",
    reasoning_details=[{"type": "reasoning.encrypted", "data": "c2lnbmVk"}],
)


def filled(manager: MemoryManager, turns: int = 3) -> MemoryManager:
    for message in chat(turns):
        manager.add(message)
    return manager


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "memory.json"


@pytest.mark.parametrize(
    ("memory_type", "kind"),
    list(zip(TYPES, [ConversationMemory, ManagedConversationMemory, KGMemory], strict=True)),
)
def test_memory_type_selects_the_class_of_the_memory(memory_type: MemoryType, kind: type) -> None:
    assert type(MemoryManager(memory_type).memory) is kind


def test_memory_type_refuses_unknown_types_and_names_the_known_ones() -> None:
    with pytest.raises(ConversationError, match="'vector', only conversation_history, managed"):
        MemoryManager("vector")  # type: ignore[arg-type]


@pytest.mark.parametrize("memory_type", TYPES)
def test_description_is_the_system_prompt(memory_type: MemoryType) -> None:
    manager = MemoryManager(memory_type, description="You help.")

    assert manager.retrieve_all() == [{"role": "system", "content": "You help."}]


async def test_model_extracts_the_facts_of_kg(ollama: OllamaStandIn) -> None:
    facts = {"facts": [{"subject": "Ada", "predicate": "works for", "object": "Northwind"}]}
    ollama.script_json(facts)
    model = await OllamaModel.open(
        "gemma4", temperature=0.7, context_size=4096, url=ollama.url, needs="completion"
    )
    manager = MemoryManager("kg", model=model)
    assert isinstance(manager.memory, KGMemory)

    await manager.memory.extract_and_update_from_text("Ada earns her money at Northwind.")
    await model.close()

    assert manager.get_messages() == [{"role": "user", "content": "Ada works for Northwind."}]


@pytest.mark.parametrize("memory_config", [None, ManagedMemoryConfig(threshold_tokens=100)])
def test_token_counter_counts_for_the_managed_memory(
    memory_config: ManagedMemoryConfig | None,
) -> None:
    manager = MemoryManager(
        "managed_conversation", memory_config=memory_config, token_counter=words
    )
    manager.add(role="user", content="three words only")

    assert isinstance(manager.memory, ManagedConversationMemory)
    assert manager.memory.tokens == 3


def results_of_every_method(memory: ConversationMemory | MemoryManager) -> list[object]:
    """Return the result of each method of ConversationMemory on the same conversation."""
    return [
        *(memory.add(Message(role="user", content=text, message_id=text)) for text in "abcd"),
        memory.update("a", content="A", name="Ada"),
        memory.retrieve_all(),
        memory.retrieve_recent(2),
        memory.retrieve_recent(),
        memory.get_messages(),
        memory.retrieve_by_id("a"),
        memory.retrieve_by_role("user", 2),
        memory.retrieve_by_role("system"),
        memory.remove_by_id("b"),
        memory.remove_by_id("b"),
        memory.replace_memory(1, role="assistant", content="Else"),
        memory.replace_memory(2, user("More")),
        memory.delete_memory(-1),
        memory.retrieve_all(),
        memory.reset_memory(),
        memory.retrieve_all(),
    ]


@pytest.mark.parametrize("memory_type", TYPES)
def test_the_manager_has_every_method_of_a_memory(memory_type: MemoryType) -> None:
    expected = results_of_every_method(ConversationMemory("You help."))

    assert results_of_every_method(MemoryManager(memory_type, description="You help.")) == expected


@pytest.mark.parametrize("memory_type", TYPES)
def test_set_event_context_enables_memory_reset_events(memory_type: MemoryType) -> None:
    recorded = RecordedEvents()
    manager = MemoryManager(memory_type)

    manager.reset_memory()
    manager.set_event_context(agent_name="Researcher", event_bus=recorded, session_id="run_123")
    manager.reset_memory()
    manager.set_event_context("Writer", recorded)
    manager.reset_memory()

    assert recorded.events == [
        MemoryResetEvent(session_id="run_123", agent_name="Researcher"),
        MemoryResetEvent(session_id="", agent_name="Writer"),
    ]


async def test_compact_if_needed_compacts_with_the_runtimes_model() -> None:
    writer = Writer("One third.", "Another.", "In short.")
    manager = filled(MemoryManager("managed_conversation", memory_config=config(1_000)), turns=60)

    assert await manager.compact_if_needed(runtime_with(writer))

    assert any("In short." in message["content"] for message in manager.get_messages())


async def test_compact_for_payload_error_compacts_below_the_threshold() -> None:
    manager = filled(
        MemoryManager("managed_conversation", memory_config=config(1_000_000)), turns=60
    )

    assert await manager.compact_for_payload_error(runtime_with(Writer("In short.")))

    assert len(manager.get_messages()) < 120


@pytest.mark.parametrize("memory_type", ["conversation_history", "kg"])
async def test_compactions_return_false_if_they_are_not_supported(memory_type: MemoryType) -> None:
    manager = filled(MemoryManager(memory_type, memory_config=config(1)))
    before = manager.retrieve_all()

    assert not await manager.compact_if_needed()
    assert not await manager.compact_for_payload_error(runtime_with(Writer("In short.")))
    assert manager.retrieve_all() == before


@pytest.mark.parametrize("memory_type", TYPES)
@pytest.mark.parametrize("additional_state", [None, {}, {"plan": ["a", {"b": None}], "ü": 2.5}])
def test_load_from_file_returns_everything_that_save_to_file_was_given(
    memory_type: MemoryType, additional_state: Json | None, file: Path
) -> None:
    manager = filled(MemoryManager(memory_type, description="You help."))
    manager.add(EVERYTHING)
    loaded = filled(MemoryManager(memory_type, description="Something else."))

    manager.save_to_file(file, additional_state)

    assert loaded.load_from_file(str(file)) == additional_state
    assert loaded.memory.messages == manager.memory.messages
    assert loaded.retrieve_by_id(EVERYTHING.message_id) == EVERYTHING.to_llm_dict()
    assert loaded.get_messages() == manager.get_messages()


async def test_a_compacted_memory_is_loaded_unchanged(file: Path) -> None:
    manager, loaded = (
        MemoryManager("managed_conversation", memory_config=config(100)) for _ in range(2)
    )
    filled(manager, turns=20)
    await manager.compact_if_needed()

    manager.save_to_file(file)
    loaded.load_from_file(file)

    assert isinstance(loaded.memory, ManagedConversationMemory)
    assert len(loaded.memory.get_raw_messages()) == 40
    assert len(loaded.get_messages()) < 40
    assert loaded.get_messages() == manager.get_messages()
    assert loaded.memory.tokens == sum(map(words, loaded.memory.context))
    assert not await loaded.compact_if_needed()


def test_facts_are_loaded_as_facts(file: Path) -> None:
    manager, loaded = MemoryManager("kg"), MemoryManager("kg")
    assert isinstance(manager.memory, KGMemory)
    assert isinstance(loaded.memory, KGMemory)
    message_id = manager.memory.add_fact("user", "Ada", "works for", "Northwind")

    manager.save_to_file(file)
    loaded.load_from_file(file)

    assert loaded.memory.triplets == [
        Triplet(subject="Ada", predicate="works for", object="Northwind")
    ]
    assert loaded.memory.add_fact("user", "Ada", "works for", "Northwind") == message_id


def test_a_file_has_a_version_and_is_its_owners_only(file: Path) -> None:
    filled(MemoryManager()).save_to_file(file)

    saved = json.loads(file.read_text("utf-8"))
    assert (saved["version"], saved["memory_type"]) == (1, "conversation_history")
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_saving_again_replaces_the_file_and_leaves_no_other(file: Path) -> None:
    filled(MemoryManager()).save_to_file(file)
    MemoryManager(description="You help.").save_to_file(file)
    loaded = MemoryManager()

    loaded.load_from_file(file)

    assert loaded.retrieve_all() == [{"role": "system", "content": "You help."}]
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_failed_save_leaves_the_file_unchanged(
    call: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def raise_disk_full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    filled(MemoryManager()).save_to_file(file)
    before = file.read_bytes()
    monkeypatch.setattr(os if call == "fsync" else Path, call, raise_disk_full)

    with pytest.raises(ConversationError, match="No space left on device"):
        MemoryManager().save_to_file(file)

    assert file.read_bytes() == before
    assert list(file.parent.iterdir()) == [file]


def test_a_link_to_the_file_stays_a_link(file: Path, tmp_path: Path) -> None:
    linked = tmp_path / "linked.json"
    linked.symlink_to(file)

    filled(MemoryManager()).save_to_file(linked)

    assert linked.is_symlink()
    loaded = MemoryManager()
    loaded.load_from_file(file)
    assert len(loaded.memory) == 6


def test_a_file_name_of_the_maximum_length_can_be_used(tmp_path: Path) -> None:
    file = tmp_path / ("m" * 255)

    filled(MemoryManager()).save_to_file(file)

    assert [entry.name for entry in tmp_path.iterdir()] == [file.name]


def test_saving_into_a_missing_folder_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConversationError, match=r"cannot be saved to .*nowhere"):
        MemoryManager().save_to_file(tmp_path / "nowhere" / "memory.json")


def deeply_nested() -> list[object]:
    nested: list[object] = []
    for _ in range(100_000):
        nested = [nested]
    return nested


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(lambda: float("nan"), id="NaN"),
        pytest.param(lambda: (1, 2), id="a tuple"),
        pytest.param(lambda: b"bytes", id="bytes"),
        pytest.param(lambda: {1: "one"}, id="a number as key"),
        pytest.param(object, id="an object"),
        pytest.param(lambda: "\ud800", id="half a character"),
        pytest.param(deeply_nested, id="too deep"),
    ],
)
def test_values_that_json_would_change_are_not_saved(
    value: Callable[[], object], file: Path
) -> None:
    with pytest.raises(ConversationError, match="cannot be saved"):
        MemoryManager().save_to_file(file, {"value": value()})

    assert not list(file.parent.iterdir())


def saved_with(**fields: object) -> bytes:
    saved = {
        "version": 1,
        "memory_type": "conversation_history",
        "memory": {"messages": [{"role": "user", "content": "Hi", "message_id": "a"}]},
    }
    return json.dumps(saved | fields).encode()


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(saved_with()[:-5], id="cut off"),
        pytest.param(saved_with().replace(b"Hi", b"\xff"), id="not UTF-8"),
        pytest.param(b"[]", id="a list"),
        pytest.param(b"{}", id="no version"),
        pytest.param(saved_with(version=0), id="no such version"),
        pytest.param(saved_with(version="1"), id="a text as version"),
        pytest.param(saved_with(memory={"messages": [{"role": "bot"}]}), id="not a role"),
        pytest.param(
            saved_with(memory={"messages": [{"role": "user", "message_id": "a"}] * 2}),
            id="one id twice",
        ),
        pytest.param(saved_with()[:-1] + b', "additional_state": ' + b"[" * 100_000, id="too deep"),
    ],
)
def test_a_damaged_file_is_refused_and_changes_nothing(data: bytes, file: Path) -> None:
    file.write_bytes(data)
    manager = filled(MemoryManager())
    before = manager.memory.messages

    with pytest.raises(ConversationError, match=r"is damaged: .* Load another file"):
        manager.load_from_file(file)

    assert manager.memory.messages == before


def test_a_file_of_a_newer_version_is_refused_with_a_remedy(file: Path) -> None:
    file.write_bytes(saved_with(version=2, memory="in a form that is not known yet"))

    with pytest.raises(ConversationError, match=r"version 2 .* knows 1. Update local2"):
        MemoryManager().load_from_file(file)


def test_a_file_of_another_memory_type_is_refused_with_a_remedy(file: Path) -> None:
    MemoryManager("kg").save_to_file(file)

    with pytest.raises(ConversationError, match=r"of type kg, not conversation_history. Make"):
        MemoryManager().load_from_file(file)


def test_loading_a_missing_file_is_an_error(file: Path) -> None:
    with pytest.raises(ConversationError, match=r"cannot be read: .*No such file"):
        MemoryManager().load_from_file(file)


def test_an_invalid_file_name_is_an_error() -> None:
    with pytest.raises(ConversationError, match="cannot be read"):
        MemoryManager().load_from_file("memory\0.json")
    with pytest.raises(ConversationError, match="cannot be saved"):
        MemoryManager().save_to_file("memory\0.json")


def test_files_of_the_first_version_can_still_be_read(file: Path) -> None:
    file.write_bytes(saved_with(additional_state={"plan": "a"}))
    manager = MemoryManager()

    assert manager.load_from_file(file) == {"plan": "a"}
    assert manager.memory.messages == [Message(role="user", content="Hi", message_id="a")]
