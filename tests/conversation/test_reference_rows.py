"""The reference's tables of fields and defaults, and the rows that no other module tests."""

import dataclasses
from typing import Any

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
from local2.conversation.events import CompactionEvent, EventContext
from local2.conversation.managed import ManagedConversationMemory
from local2.conversation.message import (
    AgentCallMsg,
    Message,
    MessageContent,
    ToolCallMsg,
    is_summary,
)
from local2.errors import ConversationError
from talks import (
    RecordedEvents,
    Writer,
    assistant,
    chat,
    config,
    runtime_with,
    tool,
    user,
    words,
)

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


@pytest.mark.parametrize("form", DEFAULTS, ids=lambda form: form.__name__)
def test_a_configuration_is_a_dataclass_as_in_the_reference(form: Any) -> None:
    names = list(DEFAULTS[form])
    assert [field.name for field in dataclasses.fields(form)] == names
    assert form(*(DEFAULTS[form][name] for name in names)) == form()
    assert list(dataclasses.asdict(form())) == names


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
    ("form", "field", "value"),
    [
        (ManagedMemoryConfig, "threshold_tokens", 0),
        (ManagedMemoryConfig, "threshold_tokens", 1.5),
        (ManagedMemoryConfig, "threshold_tokens", "many"),
        (ManagedMemoryConfig, "image_token_estimate", -1),
        (ToolTruncationConfig, "max_tokens", -1),
        (ToolTruncationConfig, "grace_recent_messages", -1),
        (SummarizationConfig, "grace_recent_messages", -1),
        (SummarizationConfig, "output_max_tokens", -1),
        (SummarizationConfig, "max_retained_images", -1),
    ],
)
def test_what_is_no_number_or_out_of_range_is_refused(form: Any, field: str, value: Any) -> None:
    least = 1 if field == "threshold_tokens" else 0

    with pytest.raises(ConversationError) as refused:
        form(**{field: value})

    assert f"{field} is {value!r}. Give a whole number of at least {least}." in str(refused.value)


@pytest.mark.parametrize(
    ("form", "part", "value"),
    [
        (ManagedMemoryConfig, "active_context", None),
        (ActiveContextPolicyConfig, "tool_truncation", None),
        (ActiveContextPolicyConfig, "summarization", {"enabled": False}),
        (ActiveContextPolicyConfig, "backward_packing", None),
    ],
)
def test_a_part_of_a_configuration_that_is_none_is_refused(
    form: Any, part: str, value: Any
) -> None:
    expected = type(DEFAULTS[form][part]).__name__

    with pytest.raises(ConversationError, match=f"{part} is .* Give a {expected}; with"):
        form(**{part: value})


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


async def test_processor_order_decides_which_stage_runs_first() -> None:
    assert await stages_of(filled(20)) == ["summarization"]
    assert await stages_of(filled(20, processor_order=STAGES[::-1])) == ["backward_packing"]


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
