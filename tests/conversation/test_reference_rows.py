"""Rows of the reference's tables that no other module has a test named after.

`docs/conversation.md` maps every row.
"""

import dataclasses
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from local2.conversation.compaction import MemoryState
from local2.conversation.config import (
    ActiveContextPolicyConfig,
    BackwardPackingConfig,
    ManagedMemoryConfig,
    SummarizationConfig,
    ToolTruncationConfig,
)
from local2.conversation.context import MESSAGE_TOKENS
from local2.conversation.events import CompactionEvent, EventContext, MemoryResetEvent
from local2.conversation.images import images_of
from local2.conversation.knowledge_graph import KGMemory
from local2.conversation.managed import ManagedConversationMemory
from local2.conversation.message import (
    AgentCallMsg,
    Message,
    MessageContent,
    ToolCallMsg,
    is_summary,
    text_of,
)
from local2.conversation.stages import Compaction, Job
from local2.errors import ConversationError
from local2.llm.ollama import OllamaModel
from local2.protocol.memories import Triplet
from stand_ins.ollama_server import OllamaStandIn
from talks import (
    RecordedEvents,
    Writer,
    assistant,
    chat,
    config,
    runtime_with,
    system,
    tool,
    user,
    words,
)

PROMPT = "You help."
IMAGES = [f"data:image/png;base64,{n}" for n in range(8)]
STAGES = ["tool_truncation", "summarization", "backward_packing"]
DEFAULTS: dict[Any, dict[str, object]] = {
    ManagedMemoryConfig: {
        "threshold_tokens": 150_000,
        "image_token_estimate": 800,
        "trigger_events": ["add", "get_messages"],
        "cache_invalidation_events": ["add", "remove_by_id", "delete_memory"],
        "token_counter": None,
        "active_context": ActiveContextPolicyConfig(),
        "compaction_target_tokens": 90_000,
    },
    ActiveContextPolicyConfig: {
        "enabled": True,
        "mode": "compaction",
        "processor_order": STAGES,
        "excluded_processors": [],
        "min_reduction_ratio": 0.4,
        "tool_truncation": ToolTruncationConfig(),
        "summarization": SummarizationConfig(),
        "backward_packing": BackwardPackingConfig(),
    },
    SummarizationConfig: {
        "enabled": True,
        "grace_recent_messages": 1,
        "output_max_tokens": 6_000,
        "include_original_instruction": True,
        "include_image_payload_bytes": False,
        "max_retained_images": None,
    },
}
FIELDS: list[tuple[Any, list[str]]] = [
    (Message, ["role", "content", "message_id", "name", "tool_calls", "agent_calls",
               "structured_data", "images", "tool_call_id", "reasoning_details"]),
    (MessageContent, ["thought", "next_action", "action_input"]),
    (ToolCallMsg, ["id", "call_id", "type", "name", "arguments"]),
    (AgentCallMsg, ["agent_name", "request"]),
    (CompactionEvent, ["session_id", "agent_name", "status", "pre_tokens", "post_tokens",
                       "pre_messages", "post_messages", "duration", "stages_run"]),
]  # fmt: skip


def filled(turns: int, *, threshold: int = 100, **policy: Any) -> ManagedConversationMemory:
    memory = ManagedConversationMemory(config(threshold, **policy))
    for message in chat(turns):
        memory.add(message)
    return memory


async def stages_of(memory: ManagedConversationMemory) -> list[str]:
    """Compact and return the stages that ran."""
    recorded = RecordedEvents()
    memory.event_context = EventContext(agent_name="tester", event_bus=recorded)
    await memory.compact_if_needed()
    return [
        stage
        for event in recorded.events
        if isinstance(event, CompactionEvent)
        for stage in event.stages_run or ()
    ]


@pytest.mark.parametrize(
    ("form", "field", "default"),
    [
        pytest.param(form, field, default, id=f"{form.__name__}.{field}")
        for form, defaults in DEFAULTS.items()
        for field, default in defaults.items()
    ],
)
def test_a_default_is_that_of_the_reference(form: Any, field: str, default: object) -> None:
    assert getattr(form(), field) == default


@pytest.mark.parametrize("form", DEFAULTS, ids=lambda form: form.__name__)
def test_a_configuration_is_a_dataclass_as_in_the_reference(form: Any) -> None:
    names = [name for name in DEFAULTS[form] if name != "compaction_target_tokens"]
    assert [field.name for field in dataclasses.fields(form)] == names
    assert form(*(DEFAULTS[form][name] for name in names)) == form()
    assert list(dataclasses.asdict(form())) == names


def test_a_configuration_is_serialised_as_in_the_reference() -> None:
    policy = ActiveContextPolicyConfig(True, "sliding_window", ["backward_packing"])
    written = dataclasses.asdict(ManagedMemoryConfig(1_000, active_context=policy))

    assert written["threshold_tokens"] == 1_000
    assert written["active_context"]["processor_order"] == ["backward_packing"]
    assert written["active_context"]["summarization"]["grace_recent_messages"] == 1


def test_a_configuration_can_be_changed_until_it_is_passed_to_a_memory() -> None:
    changed = ManagedMemoryConfig()
    changed.threshold_tokens = 100
    changed.trigger_events.append("update")

    memory = ManagedConversationMemory(changed)

    assert memory.config.compaction_target_tokens == 60
    assert ManagedMemoryConfig().trigger_events == ["add", "get_messages"]
    changed.active_context.summarization.grace_recent_messages = -1
    with pytest.raises(ConversationError, match="grace_recent_messages is -1"):
        ManagedConversationMemory(changed)


@pytest.mark.parametrize(
    ("form", "fields"), FIELDS, ids=lambda value: getattr(value, "__name__", None)
)
def test_a_constructor_has_the_fields_of_the_reference_in_its_order(
    form: Any, fields: list[str]
) -> None:
    assert list(form.__struct_fields__) == fields


@pytest.mark.parametrize(
    ("field", "value", "sent"),
    [
        ("content", "Hm.", {"content": "Hm."}),
        ("content", {"a": 1}, {"content": '{"a":1}'}),
        ("content", [{"a": 1}], {"content": '[{"a":1}]'}),
        ("name", "Ada", {"name": "Ada"}),
        ("tool_call_id", "call_123", {"tool_call_id": "call_123"}),
        ("structured_data", {"secret": 1}, {}),
        ("message_id", "m1", {}),
    ],
)  # fmt: skip
def test_message_field_is_sent_to_the_model_or_is_for_the_agent_alone(
    field: str, value: object, sent: dict[str, object]
) -> None:
    message = Message(**{"role": "assistant", field: value})  # type: ignore[arg-type]

    assert getattr(message, field) == value
    assert message.to_llm_dict() == {"role": "assistant", "content": None, **sent}


def test_tool_calls_of_a_message_are_sent_to_the_model() -> None:
    [call] = assistant(calls=["call_123"]).to_llm_dict()["tool_calls"]

    assert (call["id"], call["function"]["name"]) == ("call_123", "look")


@pytest.mark.parametrize(
    ("form", "field", "value"),
    [
        (ManagedMemoryConfig, "threshold_tokens", 0),
        (ManagedMemoryConfig, "image_token_estimate", -1),
        (ToolTruncationConfig, "max_tokens", -1),
        (ToolTruncationConfig, "grace_recent_messages", -1),
        (SummarizationConfig, "grace_recent_messages", -1),
        (SummarizationConfig, "output_max_tokens", -1),
        (SummarizationConfig, "max_retained_images", -1),
    ],
)
def test_a_number_out_of_range_is_refused(form: Any, field: str, value: int) -> None:
    with pytest.raises(ConversationError, match=rf"{field} is {value}. Give at least {value + 1}"):
        form(**{field: value})


def test_threshold_tokens_must_be_exceeded_before_a_compaction_is_due() -> None:
    memory = filled(1, threshold=20)

    assert not memory.get_cache_stats().compaction_due
    memory.add(user("more"))
    assert memory.get_cache_stats().compaction_due


def test_image_token_estimate_is_the_tokens_counted_per_image() -> None:
    memory = ManagedConversationMemory(ManagedMemoryConfig(image_token_estimate=123))

    memory.add(user("", images=IMAGES[:2]))

    assert memory.tokens == MESSAGE_TOKENS + 2 * 123


def test_trigger_events_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConversationError, match=r"'added' is not an event. One of: add, update"):
        ManagedMemoryConfig(trigger_events=["added", "get_messages"])


@pytest.mark.parametrize(
    "event",
    ["add", "update", "get_messages", "remove_by_id", "replace_memory", "delete_memory",
     "reset_memory"],
)  # fmt: skip
def test_trigger_events_are_followed_by_a_check_of_the_trigger(event: str) -> None:
    checked: list[str] = []

    class RecordingTrigger:
        def is_due(self, state: MemoryState, config: ManagedMemoryConfig) -> bool:  # noqa: ARG002
            checked.append(state.event)
            return False

    memory = ManagedConversationMemory(
        ManagedMemoryConfig(trigger_events=[event]), RecordingTrigger()
    )
    first, second = memory.add(user("Hi.")), memory.add(user("Ho."))
    memory.update(first, content="Hello.")
    memory.get_messages()
    memory.remove_by_id(first)
    memory.replace_memory(0, user("He."))
    memory.delete_memory(0)
    memory.reset_memory()

    assert second
    assert set(checked) == {event}


@pytest.mark.parametrize(("events", "valid"), [(["add"], False), (["delete_memory"], True)])
def test_cache_invalidation_events_empty_the_cache(events: list[str], valid: bool) -> None:
    memory = ManagedConversationMemory(ManagedMemoryConfig(cache_invalidation_events=events))
    memory.get_messages()

    memory.add(user("Hi."))

    assert memory.get_cache_stats().valid is valid


def test_cache_invalidation_events_that_do_not_exist_are_refused() -> None:
    with pytest.raises(ConversationError, match="'adding' is not an event"):
        ManagedMemoryConfig(cache_invalidation_events=["adding"])


def test_changing_parts_of_returned_messages_does_not_change_the_cache() -> None:
    memory = ManagedConversationMemory()
    memory.add(Message(role="user", content=[{"type": "text", "text": "Hi."}]))
    returned = memory.get_messages()

    for _ in range(2):
        part = memory.get_messages()[0]["content"][0]
        part["cache_control"] = {"type": "ephemeral"}

    assert memory.get_messages() == returned == [memory.get_raw_messages()[0].to_llm_dict()]


def test_token_counter_replaces_the_estimate() -> None:
    memory = ManagedConversationMemory(ManagedMemoryConfig(token_counter=words))

    memory.add(user("three words only"))

    assert memory.tokens == 3


def test_active_context_is_the_policy_of_a_compaction() -> None:
    policy = ActiveContextPolicyConfig(min_reduction_ratio=0.5)

    assert ManagedMemoryConfig(active_context=policy).compaction_target_tokens == 75_000


async def test_enabled_switches_a_policy_on_and_off() -> None:
    assert await filled(20, enabled=True).compact_if_needed()
    assert not await filled(20, enabled=False).compact_if_needed()


async def test_mode_compaction_changes_the_context_only_when_awaited() -> None:
    memory = filled(20, mode="compaction")

    assert len(memory.get_messages()) == 6
    assert len(memory.context) == 40
    assert await memory.compact_if_needed()
    assert is_summary(memory.context[1])
    assert len(memory.get_messages()) == len(memory.context) < 40


def test_mode_sliding_window_drops_old_rounds_at_once() -> None:
    assert len(filled(20, mode="sliding_window").get_messages()) == 6


async def test_processor_order_decides_which_stage_runs_first() -> None:
    assert await stages_of(filled(20)) == ["summarization"]
    assert await stages_of(filled(20, processor_order=STAGES[::-1])) == ["backward_packing"]


async def test_excluded_processors_do_not_run() -> None:
    memory = filled(20, excluded_processors=["summarization"])

    assert await stages_of(memory) == ["backward_packing"]


@pytest.mark.parametrize(("ratio", "target"), [(0, 100), (0.4, 60), (0.8, 20)])
async def test_min_reduction_ratio_is_the_share_that_a_compaction_saves(
    ratio: float, target: int
) -> None:
    memory = filled(20, min_reduction_ratio=ratio, excluded_processors=["summarization"])

    await memory.compact_if_needed()

    assert memory.config.compaction_target_tokens == target
    assert target - 10 <= memory.tokens <= target


@pytest.mark.parametrize(
    ("stage", "form"),
    [
        ("tool_truncation", ToolTruncationConfig),
        ("summarization", SummarizationConfig),
        ("backward_packing", BackwardPackingConfig),
    ],
)
async def test_enabled_decides_whether_a_stage_runs(stage: str, form: Any) -> None:
    stages = {}
    for enabled in (True, False):
        memory = ManagedConversationMemory(
            config(200, processor_order=[stage], **{stage: form(enabled=enabled)})
        )
        for message in [assistant(calls=["1"]), tool("1", "word " * 500), *chat(8)]:
            memory.add(message)
        stages[enabled] = await stages_of(memory)

    assert stages == {True: [stage], False: []}


@pytest.mark.parametrize("grace", [1, 2, 3])
async def test_grace_recent_messages_counts_rounds_of_the_assistant(grace: int) -> None:
    memory = filled(
        50, threshold=900, summarization=SummarizationConfig(grace_recent_messages=grace)
    )
    tail = memory.get_raw_messages()[-(2 * grace - 1) :]

    await memory.compact_if_needed()

    assert [len(tail), *memory.context[-len(tail) :]] == [2 * grace - 1, *tail]
    assert any(map(is_summary, memory.context[: -len(tail)]))


@pytest.mark.parametrize("included", [True, False])
async def test_include_original_instruction_keeps_the_users_first_message(included: bool) -> None:
    summarization = SummarizationConfig(include_original_instruction=included)
    memory = filled(50, threshold=900, summarization=summarization)
    instruction = memory.get_raw_messages()[0]

    await memory.compact_if_needed()

    assert (instruction in memory.context) is included


@pytest.mark.parametrize("included", [True, False])
async def test_include_image_payload_bytes_sends_them_to_the_model(included: bool) -> None:
    writer = Writer("In short.", "Again.")
    summarization = SummarizationConfig(include_image_payload_bytes=included)
    memory = ManagedConversationMemory(config(100, summarization=summarization))
    for message in [user("Hi."), user("Look.", images=["data:image/png;base64,QUJD"]), *chat(8)]:
        memory.add(message)

    await memory.compact_if_needed(runtime_with(writer))

    assert any("QUJD" in material.content for _, material in writer.prompts) is included


@pytest.mark.parametrize("at_most", [0, 3])
async def test_max_retained_images_are_kept_by_a_summarization(at_most: int) -> None:
    summarization = SummarizationConfig(max_retained_images=at_most)
    memory = ManagedConversationMemory(config(300, summarization=summarization))
    for image in IMAGES:
        memory.add(user("Look.", images=[image]))
    for message in chat(20):
        memory.add(message)

    await memory.compact_if_needed()

    retained = [image for message in memory.context for image in images_of(message)]
    assert retained == IMAGES[len(IMAGES) - at_most :]


async def test_compact_for_payload_error_follows_the_config_of_summarization() -> None:
    writer = Writer(*["word " * 100] * 2)
    summarization = SummarizationConfig(
        grace_recent_messages=2, output_max_tokens=40, include_original_instruction=False
    )
    memory = filled(50, threshold=10_000, summarization=summarization)
    tail = memory.get_raw_messages()[-3:]

    assert await memory.compact_for_payload_error(runtime_with(writer))

    [summary, *rest] = memory.context
    assert is_summary(summary)
    assert words(summary) <= 40
    assert rest == tail


async def test_compact_for_payload_error_keeps_the_leading_system_message() -> None:
    memory = ManagedConversationMemory(config(10_000), description=PROMPT)
    for message in chat(50):
        memory.add(message)

    assert await memory.compact_for_payload_error()
    assert memory.get_messages()[0] == {"role": "system", "content": PROMPT}


def test_config_of_a_managed_memory_has_a_default() -> None:
    assert ManagedConversationMemory().config == ManagedMemoryConfig()
    assert ManagedConversationMemory(config=config(7)).config.threshold_tokens == 7


def test_description_of_a_managed_memory_is_its_system_message() -> None:
    memory = ManagedConversationMemory(description=PROMPT)

    assert memory.get_messages() == [{"role": "system", "content": PROMPT}]


async def test_trigger_strategy_decides_when_a_compaction_is_due() -> None:
    class AtThree:
        def is_due(self, state: MemoryState, config: ManagedMemoryConfig) -> bool:  # noqa: ARG002
            return state.messages >= 3

    memory = ManagedConversationMemory(trigger_strategy=AtThree())
    due = []
    for message in chat(2):
        memory.add(message)
        due.append(memory.get_cache_stats().compaction_due)

    assert due == [False, False, True, True]


async def test_process_strategy_compacts_the_context() -> None:
    class NewestOnly:
        async def process(self, messages: Sequence[Message], job: Job) -> Compaction:  # noqa: ARG002
            return Compaction(messages=list(messages[-1:]), stages=["newest_only"])

    memory = ManagedConversationMemory(config(10), process_strategy=NewestOnly())
    for message in chat(3):
        memory.add(message)

    assert await memory.compact_if_needed()
    assert list(memory.context) == memory.get_raw_messages()[-1:]


def test_retrieval_strategy_chooses_the_returned_messages() -> None:
    class Users:
        def retrieve(self, messages: Sequence[Message], job: Job) -> Sequence[Message]:  # noqa: ARG002
            return [message for message in messages if message.role == "user"]

    memory = ManagedConversationMemory(retrieval_strategy=Users())
    for message in [system(), *chat(2)]:
        memory.add(message)

    assert [message["role"] for message in memory.get_messages()] == ["user", "user"]
    assert len(memory.get_raw_messages()) == 5


async def test_model_of_a_kg_memory_replaces_the_rules(ollama: OllamaStandIn) -> None:
    ollama.script_json({"facts": [{"subject": "Ada", "predicate": "earns", "object": "money"}]})
    model = await OllamaModel.open(
        "gemma4", temperature=0.7, context_size=4096, url=ollama.url, needs="completion"
    )

    facts = await KGMemory(model=model).extract_and_update_from_text("Ada is rich.", "user")
    await model.close()

    assert facts == [Triplet(subject="Ada", predicate="earns", object="money")]


def test_description_of_a_kg_memory_is_its_system_message() -> None:
    assert KGMemory(description=PROMPT).get_messages() == [{"role": "system", "content": PROMPT}]


def test_memory_reset_event_names_the_agent_and_the_session() -> None:
    recorded = RecordedEvents()
    memory = ManagedConversationMemory()
    memory.event_context = EventContext(
        agent_name="Researcher", event_bus=recorded, session_id="r1"
    )

    memory.reset_memory()

    assert recorded.events == [MemoryResetEvent(session_id="r1", agent_name="Researcher")]


async def test_compaction_event_has_the_figures_before_and_after() -> None:
    recorded = RecordedEvents()
    memory = filled(20)
    memory.event_context = EventContext(
        agent_name="Researcher", event_bus=recorded, session_id="r1"
    )

    await memory.compact_if_needed()

    started, completed = map(msgspec.structs.asdict, recorded.events)
    before = {
        "session_id": "r1", "agent_name": "Researcher", "pre_tokens": 400, "pre_messages": 40
    }  # fmt: skip
    assert started == {
        **before, "status": "started", "post_tokens": 0, "post_messages": 0, "duration": None,
        "stages_run": None,
    }  # fmt: skip
    assert completed.pop("duration") >= 0
    assert completed == {
        **before, "status": "completed", "post_tokens": sum(map(words, memory.context)),
        "post_messages": len(memory.context), "stages_run": ["summarization"],
    }  # fmt: skip


async def test_compaction_event_is_failed_if_nothing_could_be_dropped() -> None:
    recorded = RecordedEvents()
    memory = ManagedConversationMemory(config(10))
    memory.event_context = EventContext(agent_name="Researcher", event_bus=recorded)
    memory.add(user("word " * 50))

    assert not await memory.compact_for_payload_error()

    assert recorded.statuses == ["started", "failed"]
    assert text_of(memory.context[0]) == "word " * 50
