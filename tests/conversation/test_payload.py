"""compact_for_payload_error reduces bytes and keeps what the model needs to continue."""

import base64
import json
from collections.abc import Iterator

import pytest

from local2.conversation import compaction
from local2.conversation.compaction import payload_bytes
from local2.conversation.config import SummarizationConfig
from local2.conversation.events import CompactionEvent, EventContext
from local2.conversation.images import images_of
from local2.conversation.managed import ManagedConversationMemory
from local2.conversation.message import Message, is_summary, text_of
from talks import RecordedEvents, Writer, assistant, chat, config, runtime_with, tool, user

THRESHOLD = 1_000_000


def picture(number: int, size: int = 3_000) -> str:
    return "data:image/png;base64," + base64.b64encode(bytes([number]) * size).decode()


def image_questions(turns: int, *, size: int = 3_000) -> Iterator[Message]:
    for turn in range(turns):
        yield user("Look.", images=[picture(turn, size)])
        yield assistant("Ah.")


def memory_with(
    *messages: Message, threshold: int = THRESHOLD, **policy: object
) -> ManagedConversationMemory:
    memory = ManagedConversationMemory(config(threshold, **policy), description="You help.")
    for message in messages:
        memory.add(message)
    return memory


async def test_the_prefix_is_summarised_and_the_tail_stays_unchanged() -> None:
    tail = [assistant(calls=["1"]), tool("1", "long " * 100), user("And?")]
    memory = memory_with(*chat(50), *tail)
    before = payload_bytes(memory.context)

    assert await memory.compact_for_payload_error(runtime_with(Writer("In short.")))

    context = memory.context
    assert context[0].role == "system"
    assert sum(map(is_summary, context)) == 1
    assert list(context[-3:]) == tail
    assert payload_bytes(context) < before


async def test_it_returns_true_only_if_the_payload_shrank() -> None:
    memory = memory_with(user("Hi."), assistant("Hello."), user("word " * 100_000))
    before = list(memory.context)
    recorded = RecordedEvents()
    memory.event_context = EventContext(agent_name="tester", event_bus=recorded)

    assert not await memory.compact_for_payload_error()

    assert list(memory.context) == before
    assert recorded.statuses == ["started", "failed"]


async def test_it_returns_false_if_only_a_part_shrank_that_no_model_received() -> None:
    memory = memory_with(*chat(60), threshold=100)
    refused = len(json.dumps(memory.get_messages()))
    reduced = await memory.compact_for_payload_error(runtime_with(Writer("blah " * 60)))

    assert len(json.dumps(memory.get_messages())) >= refused
    assert not reduced


async def test_a_summary_longer_than_its_messages_is_discarded() -> None:
    memory = memory_with(user("Hi."), assistant("Ho."), user("Hm."), assistant("So."))

    assert not await memory.compact_for_payload_error(runtime_with(Writer("blah " * 1_000)))
    assert not any(map(is_summary, memory.context))


async def test_text_within_the_threshold_is_reduced_too() -> None:
    pages = [" ".join(f"Line{n} of page{page}." for n in range(15)) for page in range(20)]
    memory = memory_with(*(m for text in pages for m in (user(text), assistant("Noted."))))
    before = payload_bytes(memory.context)

    assert await memory.compact_for_payload_error()

    assert payload_bytes(memory.context) < before * 0.7


async def test_half_of_a_short_text_is_kept_below_the_summarys_heading() -> None:
    memory = memory_with(*chat(4))

    assert await memory.compact_for_payload_error()

    [summary] = filter(is_summary, memory.context)
    assert len(text_of(summary).splitlines()) == 3


async def test_a_second_recovery_finds_nothing_left_to_do() -> None:
    memory = memory_with(*chat(50))

    assert await memory.compact_for_payload_error()
    assert not await memory.compact_for_payload_error()


@pytest.mark.parametrize(("at_most", "expected_images"), [(None, 5), (2, 2), (0, 0)])
async def test_at_most_five_images_are_kept_unless_max_retained_images_is_set(
    at_most: int | None, expected_images: int
) -> None:
    talk = [m for n in range(20) for m in (user("Look.", images=[picture(n)]), assistant("Ah."))]
    memory = memory_with(*talk, summarization=SummarizationConfig(max_retained_images=at_most))

    assert await memory.compact_for_payload_error()

    images = [image for message in memory.context for image in images_of(message)]
    assert images == [picture(n) for n in range(20)][20 - expected_images :]


async def test_images_of_a_first_message_that_is_too_large_are_dropped() -> None:
    many = user("Compare these.", images=[picture(n) for n in range(9)])
    memory = memory_with(many, assistant("Well."))

    assert await memory.compact_for_payload_error()

    assert len(images_of(memory.context[1])) < 9


@pytest.mark.parametrize(("provider", "expected_images"), [(None, 2), ("small", 1)])
async def test_images_are_reduced_to_half_of_the_providers_limit(
    monkeypatch: pytest.MonkeyPatch, provider: str | None, expected_images: int
) -> None:
    monkeypatch.setattr(compaction, "REQUEST_BYTES", {"small": 30_000})
    memory = memory_with(*image_questions(4, size=10_000))

    assert await memory.compact_for_payload_error(runtime_with(provider=provider))

    assert sum(len(images_of(message)) for message in memory.context) == expected_images


async def test_images_within_structured_content_are_dropped_too() -> None:
    parts = [{"type": "image_url", "image_url": {"url": picture(n)}} for n in range(9)]
    question = Message(role="user", content=[{"type": "text", "text": "Compare."}, *parts])
    memory = memory_with(question, assistant("Well."))

    assert await memory.compact_for_payload_error()

    assert images_of(memory.context[1]) == [picture(n) for n in range(9)][-4:]


async def test_its_events_report_a_summarization() -> None:
    memory = memory_with(*chat(50))
    recorded = RecordedEvents()
    memory.event_context = EventContext(agent_name="tester", event_bus=recorded, session_id="s1")

    await memory.compact_for_payload_error()

    started, completed = recorded.events
    assert isinstance(started, CompactionEvent)
    assert started.status == "started"
    assert isinstance(completed, CompactionEvent)
    assert (completed.status, completed.stages_run) == ("completed", ["summarization"])


async def test_without_summarization_nothing_can_be_recovered() -> None:
    memory = memory_with(*chat(50), summarization=SummarizationConfig(enabled=False))

    assert not await memory.compact_for_payload_error()
