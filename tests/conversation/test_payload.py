"""compact_for_payload_error: bytes go, and what the model needs to go on stays."""

import base64
from collections.abc import Iterator

import pytest

from local.conversation import compaction
from local.conversation.compaction import payload_bytes
from local.conversation.config import SummarizationConfig
from local.conversation.events import CompactionEvent, EventContext
from local.conversation.images import images_of
from local.conversation.managed import ManagedConversationMemory
from local.conversation.message import Message, is_summary, text_of
from talks import Heard, Writer, assistant, chat, config, lent, tool, user

THRESHOLD = 1_000_000


def picture(number: int, size: int = 3_000) -> str:
    return "data:image/png;base64," + base64.b64encode(bytes([number]) * size).decode()


def looking(turns: int, *, size: int = 3_000) -> Iterator[Message]:
    for turn in range(turns):
        yield user("Look.", images=[picture(turn, size)])
        yield assistant("Ah.")


def remembering(
    *messages: Message, threshold: int = THRESHOLD, **policy: object
) -> ManagedConversationMemory:
    memory = ManagedConversationMemory(config(threshold, **policy), description="You help.")
    for message in messages:
        memory.add(message)
    return memory


async def test_the_prefix_is_summarised_and_the_tail_stays_unchanged() -> None:
    tail = [assistant(calls=["1"]), tool("1", "long " * 100), user("And?")]
    memory = remembering(*chat(50), *tail)
    before = payload_bytes(memory.context)

    assert await memory.compact_for_payload_error(lent(Writer("In short.")))

    context = memory.context
    assert context[0].role == "system"
    assert sum(map(is_summary, context)) == 1
    assert list(context[-3:]) == tail
    assert payload_bytes(context) < before


async def test_it_is_bytes_that_count_and_not_the_threshold() -> None:
    memory = remembering(*chat(50))

    assert not await memory.compact_if_needed()
    assert await memory.compact_for_payload_error()


async def test_true_only_when_the_payload_shrank() -> None:
    memory = remembering(user("Hi."), assistant("Hello."), user("word " * 100_000))
    before = list(memory.context)
    heard = Heard()
    memory.event_context = EventContext(agent_name="tester", event_bus=heard)

    assert not await memory.compact_for_payload_error()

    assert list(memory.context) == before
    assert heard.statuses == ["started", "failed"]


async def test_a_summary_longer_than_what_it_stands_for_is_not_taken() -> None:
    memory = remembering(user("Hi."), assistant("Ho."), user("Hm."), assistant("So."))

    assert not await memory.compact_for_payload_error(lent(Writer("blah " * 1_000)))
    assert not any(map(is_summary, memory.context))


async def test_text_that_would_fit_the_threshold_is_made_less_all_the_same() -> None:
    said = [" ".join(f"Line{n} of page{page}." for n in range(15)) for page in range(20)]
    memory = remembering(*(m for text in said for m in (user(text), assistant("Noted."))))
    before = payload_bytes(memory.context)

    assert await memory.compact_for_payload_error()

    assert payload_bytes(memory.context) < before * 0.7


async def test_half_of_a_short_text_stays_besides_the_summarys_heading() -> None:
    memory = remembering(*chat(4))

    assert await memory.compact_for_payload_error()

    [summary] = filter(is_summary, memory.context)
    assert len(text_of(summary).splitlines()) == 3


async def test_a_second_recovery_finds_nothing_left_to_do() -> None:
    memory = remembering(*chat(50))

    assert await memory.compact_for_payload_error()
    assert not await memory.compact_for_payload_error()


@pytest.mark.parametrize(("at_most", "kept"), [(None, 5), (2, 2), (0, 0)])
async def test_at_most_five_images_stay_unless_max_retained_images_says_otherwise(
    at_most: int | None, kept: int
) -> None:
    shown = [m for n in range(20) for m in (user("Look.", images=[picture(n)]), assistant("Ah."))]
    memory = remembering(*shown, summarization=SummarizationConfig(max_retained_images=at_most))

    assert await memory.compact_for_payload_error()

    images = [image for message in memory.context for image in images_of(message)]
    assert images == [picture(n) for n in range(20)][20 - kept :]


async def test_images_of_a_first_message_that_alone_is_too_large_go() -> None:
    many = user("Compare these.", images=[picture(n) for n in range(9)])
    memory = remembering(many, assistant("Well."))

    assert await memory.compact_for_payload_error()

    assert len(images_of(memory.context[1])) < 9


async def test_images_keep_to_half_of_what_was_refused() -> None:
    large = [
        m for n in range(4) for m in (user("Look.", images=[picture(n, 30_000)]), assistant("Ah."))
    ]
    memory = remembering(*large)
    before = payload_bytes(memory.context)

    assert await memory.compact_for_payload_error()

    assert payload_bytes(memory.context) < before * 0.6


@pytest.mark.parametrize(("provider", "kept"), [(None, 2), ("small", 1)])
async def test_images_keep_to_half_of_what_the_provider_takes(
    monkeypatch: pytest.MonkeyPatch, provider: str | None, kept: int
) -> None:
    monkeypatch.setattr(compaction, "REQUEST_BYTES", {"small": 30_000})
    memory = remembering(*looking(4, size=10_000))

    assert await memory.compact_for_payload_error(lent(provider=provider))

    assert sum(len(images_of(message)) for message in memory.context) == kept


async def test_images_within_structured_content_go_too() -> None:
    parts = [{"type": "image_url", "image_url": {"url": picture(n)}} for n in range(9)]
    shown = Message(role="user", content=[{"type": "text", "text": "Compare."}, *parts])
    memory = remembering(shown, assistant("Well."))

    assert await memory.compact_for_payload_error()

    assert images_of(memory.context[1]) == [picture(n) for n in range(9)][-4:]


async def test_its_events_tell_of_a_summarization() -> None:
    memory = remembering(*chat(50))
    heard = Heard()
    memory.event_context = EventContext(agent_name="tester", event_bus=heard, session_id="s1")

    await memory.compact_for_payload_error()

    started, completed = heard.events
    assert isinstance(started, CompactionEvent)
    assert started.status == "started"
    assert isinstance(completed, CompactionEvent)
    assert (completed.status, completed.stages_run) == ("completed", ["summarization"])


async def test_without_summarization_nothing_can_be_recovered() -> None:
    memory = remembering(*chat(50), summarization=SummarizationConfig(enabled=False))

    assert not await memory.compact_for_payload_error()
