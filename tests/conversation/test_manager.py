"""MemoryManager: three types of memory behind one door, and the file that keeps them."""

import json
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local.conversation import state
from local.conversation.config import ManagedMemoryConfig
from local.conversation.contents import images_of
from local.conversation.conversation import ConversationMemory
from local.conversation.events import CompactionEvent, MemoryResetEvent
from local.conversation.knowledge_graph import KGMemory
from local.conversation.managed import ManagedConversationMemory
from local.conversation.manager import MemoryManager, MemoryType
from local.conversation.message import AgentCallMsg, Message, ToolCallMsg
from local.errors import ConversationError
from local.llm.ollama import OllamaModel
from local.protocol.triplet import Triplet
from stand_ins.ollama_server import OllamaStandIn, Reply
from talks import Heard, Writer, chat, config, lent, user, words

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
    zip(TYPES, [ConversationMemory, ManagedConversationMemory, KGMemory], strict=True),
)
def test_memory_type_says_which_memory_is_made(memory_type: MemoryType, kind: type) -> None:
    assert type(MemoryManager(memory_type).memory) is kind


def test_memory_type_is_conversation_history_unless_said() -> None:
    manager = MemoryManager()

    assert manager.memory_type == "conversation_history"
    assert type(manager.memory) is ConversationMemory


def test_memory_type_refuses_others_and_names_those_there_are() -> None:
    with pytest.raises(ConversationError, match="'vector', only conversation_history, managed"):
        MemoryManager("vector")  # type: ignore[arg-type]


@pytest.mark.parametrize("memory_type", TYPES)
def test_description_is_the_system_prompt(memory_type: MemoryType) -> None:
    manager = MemoryManager(memory_type, description="You help.")

    assert manager.retrieve_all() == [{"role": "system", "content": "You help."}]


async def test_model_extracts_the_facts_of_kg(ollama: OllamaStandIn) -> None:
    facts = {"facts": [{"subject": "Ada", "predicate": "works for", "object": "Northwind"}]}
    ollama.replies.append(Reply(json.dumps(facts)))
    model = await OllamaModel.open(
        "gemma4", temperature=0.7, context_size=4096, url=ollama.url, needs="completion"
    )
    manager = MemoryManager("kg", model=model)
    assert isinstance(manager.memory, KGMemory)

    await manager.memory.extract_and_update_from_text("Ada earns her money at Northwind.")
    await model.close()

    assert manager.get_messages() == [{"role": "user", "content": "Ada works for Northwind."}]


def test_memory_config_is_the_managed_memorys() -> None:
    memory = MemoryManager("managed_conversation", memory_config=config(100)).memory

    assert isinstance(memory, ManagedConversationMemory)
    assert memory.config == config(100)


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


def each_method(memory: Any) -> list[object]:
    """What every method of the table gives, called on a conversation of its own."""
    first, second, third = (Message(role="user", content=c, message_id=c) for c in "abc")
    return [
        memory.add(first),
        memory.add(role="assistant", content="Hm.", name="Ada") in memory.memory_ids(),
        memory.add(second),
        memory.add(third),
        memory.update("a", content="A"),
        memory.retrieve_all(),
        memory.retrieve_recent(2),
        memory.get_messages(),
        memory.retrieve_by_id("a"),
        memory.retrieve_by_id("nowhere"),
        memory.retrieve_by_role("user", 2),
        memory.remove_by_id("b"),
        memory.remove_by_id("b"),
        memory.replace_memory(0, role="user", content="Else"),
        memory.delete_memory(-1),
        memory.retrieve_all(),
        memory.reset_memory(),
        memory.retrieve_all(),
    ]
