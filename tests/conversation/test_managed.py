"""ManagedConversationMemory counts tokens, compacts when due, and returns what models read."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from local2.conversation.compaction import MemoryState
from local2.conversation.config import ManagedMemoryConfig, Mode, SummarizationConfig
from local2.conversation.events import CompactionEvent, EventContext, MemoryResetEvent
from local2.conversation.managed import ManagedConversationMemory
from local2.conversation.message import Message, is_summary
from local2.conversation.stages import Compaction, StageInput
from talks import RecordedEvents, Writer, assistant, chat, config, runtime_with, tool, user, words


def filled(memory: ManagedConversationMemory, turns: int) -> list[Message]:
    messages = list(chat(turns))
    for message in messages:
        memory.add(message)
    return messages


def managed(threshold: int = 100, **policy: Any) -> ManagedConversationMemory:
    return ManagedConversationMemory(config(threshold, **policy))


def first_words(dicts: Sequence[dict[str, Any]]) -> list[str]:
    """Return the first word of each message."""
    return [message["content"].split()[0] for message in dicts]


async def test_compact_if_needed_does_nothing_below_the_threshold() -> None:
    memory = managed(1_000)
    filled(memory, 10)
    before = memory.get_messages()

    assert not await memory.compact_if_needed()
    assert memory.get_messages() == before


async def test_compact_if_needed_brings_the_context_down_to_its_target() -> None:
    memory = ManagedConversationMemory(config(100), description="You help.")
    filled(memory, 20)

    assert await memory.compact_if_needed()

    assert memory.tokens <= memory.config.compaction_target_tokens
    assert first_words(memory.get_messages())[0] == "You"
    assert first_words(memory.get_messages())[-1] == "answer19"
    assert not await memory.compact_if_needed()


async def test_get_raw_messages_is_the_full_history_even_after_a_compaction() -> None:
    memory = managed()
    messages = filled(memory, 20)

    await memory.compact_if_needed()

    assert memory.get_raw_messages() == messages
    assert len(memory.get_messages()) < len(messages)
    assert memory.retrieve_by_id(messages[0].message_id) == messages[0].to_llm_dict()
    assert memory.retrieve_all() == memory.get_messages()


async def test_summarised_messages_can_still_be_changed_and_removed_in_the_history() -> None:
    memory = managed()
    first, second = filled(memory, 20)[1:3]
    await memory.compact_if_needed()
    context, tokens = list(memory.context), memory.tokens

    memory.update(first.message_id, content="Else.")
    assert memory.remove_by_id(second.message_id)

    assert memory.get_raw_messages()[1].content == "Else."
    assert second not in memory.get_raw_messages()
    assert (list(memory.context), memory.tokens) == (context, tokens)


@pytest.mark.parametrize("change", ["removed", "replaced", "changed", "reset", "restored"])
async def test_a_message_changed_or_removed_while_the_model_writes_is_in_no_summary(
    change: str,
) -> None:
    memory = managed(1_000)
    secret = memory.add(user("The password is swordfish."))
    filled(memory, 60)
    recorded = RecordedEvents()
    memory.event_context = EventContext(agent_name="tester", event_bus=recorded, session_id="s1")
    empty = managed().snapshot()
    changes: dict[str, Callable[[], object]] = {
        "removed": lambda: memory.remove_by_id(secret),
        "replaced": lambda: memory.replace_memory(0, user("Never mind.")),
        "changed": lambda: memory.update(secret, content="Never mind."),
        "reset": memory.reset_memory,
        "restored": lambda: memory.restore(empty),
    }
    writer = Writer("swordfish", "swordfish", "swordfish")
    writer.may_answer.clear()
    compaction = asyncio.create_task(memory.compact_if_needed(runtime_with(writer)))
    await writer.asked.wait()

    changes[change]()
    writer.may_answer.set()

    assert not await compaction
    assert "swordfish" not in str(memory.get_messages())
    assert recorded.statuses == ["started", "failed"]


async def test_concurrent_compactions_run_once() -> None:
    memory = managed(1_000)
    filled(memory, 60)
    writer = Writer("one", "two", "three")
    writer.may_answer.clear()
    compactions = [
        asyncio.create_task(memory.compact_if_needed(runtime_with(writer))) for _ in range(3)
    ]
    await writer.asked.wait()
    writer.may_answer.set()

    assert await asyncio.gather(*compactions) == [True, False, False]
    assert len(writer.prompts) == 3


async def test_a_compaction_is_no_longer_due_when_enough_is_removed() -> None:
    memory = managed()
    messages = filled(memory, 6)

    for message in messages[:6]:
        memory.remove_by_id(message.message_id)

    assert not await memory.compact_if_needed()


async def test_a_disabled_policy_changes_nothing() -> None:
    memory = managed(enabled=False)
    messages = filled(memory, 50)

    assert not await memory.compact_if_needed()
    assert not await memory.compact_for_payload_error()
    assert len(memory.get_messages()) == len(messages)


async def test_a_sliding_window_returns_the_newest_rounds_and_summarises_nothing() -> None:
    memory = ManagedConversationMemory(config(100, mode="sliding_window"), description="You help.")
    messages = filled(memory, 20)

    returned = memory.get_messages()

    assert first_words(returned)[0] == "You"
    assert returned[-1] == messages[-1].to_llm_dict()
    assert memory.tokens <= 60
    assert not any(map(is_summary, memory.context))
    assert memory.get_raw_messages()[1:] == messages
    assert not await memory.compact_if_needed()


async def test_strategies_can_be_replaced() -> None:
    class Always:
        def is_due(self, state: MemoryState, config: ManagedMemoryConfig) -> bool:  # noqa: ARG002
            return state.messages > 2

    class NewestOnly:
        async def process(self, messages: Sequence[Message], job: StageInput) -> Compaction:  # noqa: ARG002
            return Compaction(messages=list(messages[-1:]), stages=["newest_only"])

    class Users:
        def retrieve(self, messages: Sequence[Message], job: StageInput) -> Sequence[Message]:  # noqa: ARG002
            return [message for message in messages if message.role == "user"]

    memory = ManagedConversationMemory(
        trigger_strategy=Always(), process_strategy=NewestOnly(), retrieval_strategy=Users()
    )
    filled(memory, 2)

    assert first_words(memory.get_messages()) == ["question0", "question1"]
    assert await memory.compact_if_needed()
    assert [first_words([message.to_llm_dict()])[0] for message in memory.context] == ["answer1"]
    assert memory.get_messages() == []


def test_get_cache_stats_counts_cache_hits_and_messages() -> None:
    memory = managed(1_000)
    filled(memory, 2)
    for _ in range(3):
        memory.get_messages()

    stats = memory.get_cache_stats()

    assert (stats.valid, stats.hits, stats.misses) == (True, 2, 1)
    assert (stats.cached_messages, stats.context_messages, stats.raw_messages) == (4, 4, 4)
    assert stats.tokens == 40


@pytest.mark.parametrize(
    "event", ["add", "remove_by_id", "delete_memory", "update", "replace_memory"]
)
def test_the_cache_is_invalid_after_events_that_invalidate_it(event: str) -> None:
    memory = managed(1_000)
    messages = filled(memory, 2)
    memory.get_messages()
    changes: dict[str, Callable[[], object]] = {
        "add": lambda: memory.add(user("More.")),
        "remove_by_id": lambda: memory.remove_by_id(messages[1].message_id),
        "delete_memory": lambda: memory.delete_memory(1),
        "update": lambda: memory.update(messages[1].message_id, content="Else."),
        "replace_memory": lambda: memory.replace_memory(1, assistant("Else.")),
    }

    changes[event]()

    assert not memory.get_cache_stats().valid
    assert memory.get_messages() == [m.to_llm_dict() for m in memory.get_raw_messages()]


def test_messages_that_do_not_invalidate_the_cache_are_appended_to_it() -> None:
    memory = ManagedConversationMemory(
        ManagedMemoryConfig(token_counter=words, cache_invalidation_events=["remove_by_id"])
    )
    filled(memory, 2)
    memory.get_messages()

    memory.add(user("More."))

    assert first_words(memory.get_messages())[-1] == "More."
    assert memory.get_cache_stats().hits == 1


def test_a_cache_that_is_kept_holds_only_what_the_retrieval_strategy_chooses() -> None:
    class Newest:
        def retrieve(self, messages: Sequence[Message], job: StageInput) -> Sequence[Message]:  # noqa: ARG002
            return messages[-2:]

    memory = ManagedConversationMemory(
        ManagedMemoryConfig(token_counter=words, cache_invalidation_events=[]),
        retrieval_strategy=Newest(),
    )
    for message in chat(5):
        memory.add(message)
        memory.get_messages()

    assert first_words(memory.get_messages()) == ["question4", "answer4"]


def test_reset_memory_keeps_the_system_prompt_and_emits_an_event() -> None:
    memory = ManagedConversationMemory(config(), description="You help.")
    recorded = RecordedEvents()
    memory.event_context = EventContext(agent_name="tester", event_bus=recorded, session_id="s1")
    filled(memory, 20)

    memory.reset_memory()

    assert first_words(memory.get_messages()) == ["You"]
    assert memory.tokens == 2
    assert recorded.events == [MemoryResetEvent(session_id="s1", agent_name="tester")]


async def test_a_compaction_emits_events_at_its_start_and_end() -> None:
    memory = managed()
    recorded = RecordedEvents()
    memory.event_context = EventContext(agent_name="tester", event_bus=recorded, session_id="s1")
    filled(memory, 20)

    await memory.compact_if_needed()

    started, completed = recorded.events
    assert started == CompactionEvent(
        session_id="s1", agent_name="tester", status="started", pre_tokens=400, pre_messages=40
    )
    assert isinstance(completed, CompactionEvent)
    assert completed.status == "completed"
    assert (completed.pre_tokens, completed.pre_messages) == (400, 40)
    assert (completed.post_tokens, completed.post_messages) == (memory.tokens, len(memory.context))
    assert completed.duration is not None
    assert completed.stages_run == ["summarization"]


async def test_a_failed_compaction_emits_an_event_and_changes_nothing() -> None:
    class Broken:
        async def process(self, messages: Sequence[Message], job: StageInput) -> Compaction:  # noqa: ARG002
            raise ArithmeticError

    memory = ManagedConversationMemory(config(), process_strategy=Broken())
    recorded = RecordedEvents()
    memory.event_context = EventContext(agent_name="tester", event_bus=recorded)
    messages = filled(memory, 20)

    with pytest.raises(ArithmeticError):
        await memory.compact_if_needed()

    assert recorded.statuses == ["started", "failed"]
    assert list(memory.context) == messages


async def test_a_cancelled_compaction_changes_nothing_and_can_be_repeated() -> None:
    memory = managed(1_000)
    messages = filled(memory, 60)
    recorded = RecordedEvents()
    memory.event_context = EventContext(agent_name="tester", event_bus=recorded)
    writer = Writer("one", "two", "three", "four")
    writer.may_answer.clear()
    compaction = asyncio.create_task(memory.compact_if_needed(runtime_with(writer)))
    await writer.asked.wait()

    compaction.cancel()
    with pytest.raises(asyncio.CancelledError):
        await compaction

    assert recorded.statuses == ["started", "failed"]
    assert list(memory.context) == messages
    writer.may_answer.set()
    assert await memory.compact_if_needed(runtime_with(writer))
    assert memory.tokens <= memory.config.compaction_target_tokens


async def test_a_tool_result_added_while_the_model_writes_keeps_its_call() -> None:
    memory = managed(1_000, summarization=SummarizationConfig(grace_recent_messages=0))
    filled(memory, 60)
    pending = [assistant(calls=["1", "2"]), tool("1"), user("Hurry up!")]
    for message in pending:
        memory.add(message)
    writer = Writer("one", "two", "three", "four")
    writer.may_answer.clear()
    compaction = asyncio.create_task(memory.compact_if_needed(runtime_with(writer)))
    await writer.asked.wait()

    late = tool("2")
    memory.add(late)
    writer.may_answer.set()

    assert await compaction
    assert list(memory.context[-4:]) == [*pending, late]


THRESHOLD = 60


class Recount:
    """A managed conversation and a plain list of its expected messages, changed together."""

    def __init__(self, mode: Mode) -> None:
        self.memory = managed(THRESHOLD, mode=mode)
        self.expected: list[Message] = []

    async def change(self, name: str, number: int) -> None:
        await getattr(self, name)(number)
        assert self.memory.tokens == sum(map(words, self.memory.context))
        assert self.memory.get_raw_messages() == self.expected
        if name != "get_messages":
            returned = self.memory.get_messages()
            assert self.memory.get_cache_stats().handed_out_tokens <= THRESHOLD
            if self.memory.tokens <= THRESHOLD:
                assert returned == [message.to_llm_dict() for message in self.memory.context]

    async def add(self, number: int) -> None:
        calls = [f"{len(self.expected)}.{n}" for n in range(number % 3)]
        text = "word " * (number % 40)
        for message in (user(text), assistant(text, calls=calls), *map(tool, calls)):
            self.memory.add(message)
            self.expected.append(message)

    async def update(self, number: int) -> None:
        if self.expected:
            index = number % len(self.expected)
            message_id = self.expected[index].message_id
            self.memory.update(message_id, content="new " * (number % 30))
            self.expected[index] = msgspec.structs.replace(
                self.expected[index], content="new " * (number % 30)
            )

    async def remove_by_id(self, number: int) -> None:
        if self.expected:
            message = self.expected.pop(number % len(self.expected))
            assert self.memory.remove_by_id(message.message_id)

    async def replace_memory(self, number: int) -> None:
        if self.expected:
            index = number % len(self.expected)
            self.expected[index] = user("other " * (number % 30))
            self.memory.replace_memory(index, self.expected[index])

    async def delete_memory(self, number: int) -> None:
        if self.expected:
            index = number % len(self.expected)
            del self.expected[index]
            self.memory.delete_memory(index)

    async def reset_memory(self, number: int) -> None:  # noqa: ARG002
        self.memory.reset_memory()
        self.expected.clear()

    async def get_messages(self, number: int) -> None:  # noqa: ARG002
        self.memory.get_messages()

    async def recount(self, number: int) -> None:  # noqa: ARG002
        self.memory.recount()

    async def restore(self, number: int) -> None:  # noqa: ARG002
        self.memory.restore(self.memory.snapshot())

    async def compact_if_needed(self, number: int) -> None:  # noqa: ARG002
        await self.memory.compact_if_needed()

    async def compact_for_payload_error(self, number: int) -> None:  # noqa: ARG002
        await self.memory.compact_for_payload_error()


CHANGES = [name for name in vars(Recount) if not name.startswith("_") and name != "change"]


@given(
    st.sampled_from(["compaction", "sliding_window"]),
    st.lists(st.tuples(st.sampled_from(["add", *CHANGES]), st.integers(0, 1_000)), max_size=40),
)
async def test_history_context_and_tokens_are_right_after_every_operation(
    mode: Mode, operations: list[tuple[str, int]]
) -> None:
    """The memory is compared with a plain list and with a fresh count."""
    recount = Recount(mode)
    for operation in operations:
        await recount.change(*operation)


def test_a_change_counts_the_tokens_of_no_other_message() -> None:
    counted: list[Message] = []

    def count(message: Message) -> int:
        counted.append(message)
        return words(message)

    memory = ManagedConversationMemory(ManagedMemoryConfig(token_counter=count))
    messages = filled(memory, 50)
    assert len(counted) == len(messages)
    counted.clear()

    memory.update(messages[10].message_id, content="Else.")
    memory.remove_by_id(messages[20].message_id)
    memory.delete_memory(30)
    memory.get_messages()
    memory.add(user("More."))

    assert [message.content for message in counted] == ["Else.", "More."]


async def test_tokens_are_recounted_after_the_counter_was_calibrated() -> None:
    factor = 1
    memory = ManagedConversationMemory(
        ManagedMemoryConfig(threshold_tokens=100, token_counter=lambda m: factor * words(m))
    )
    filled(memory, 3)
    factor = 2

    memory.recount()
    memory.get_messages()

    assert memory.tokens == 120
    assert memory.get_cache_stats().compaction_due
