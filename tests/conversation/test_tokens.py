"""Token counts are estimated from messages and calibrated by a model's own counts."""

from typing import Any

import pytest

from local2.conversation.context import (
    IMAGE_TOKENS,
    MAX_FACTOR,
    MESSAGE_TOKENS,
    MIN_FACTOR,
    CalibratedCounter,
    estimate,
    estimate_tokens,
)
from local2.conversation.message import AgentCallMsg, Message, ToolCallMsg
from talks import user

CALL = ToolCallMsg("1", "1", "function", "look", '{"for": "the answer to everything"}')
REQUEST = AgentCallMsg(agent_name="Other", request="Process the sales data")
DETAIL = {"type": "reasoning.text", "text": "Six by seven is forty-two."}
PART = {"type": "image_url", "image_url": {"url": "https://example.com/cat.png"}}


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("a", 1),
        ("four", 1),
        ("The quick brown fox jumps over the lazy dog.", 11),
        ("Größe und Höhe.", 4),
        ("速い茶色の狐", 6),
        ("fox 狐", 2),
        ("狐 fox 狐 fox", 5),
        ("čtyři ɏ", 2),
        ("четыре", 6),
    ],
)
def test_four_characters_of_a_latin_script_are_a_token_and_one_of_others(
    text: str, tokens: int
) -> None:
    assert estimate_tokens(text) == tokens


def test_a_list_of_data_counts_as_its_json_text() -> None:
    rows = [{"type": "file", "name": "a.py", "size": size} for size in range(10)]
    message = Message(role="tool", content=rows)

    assert estimate(message) == MESSAGE_TOKENS + estimate_tokens(message.to_llm_dict()["content"])


def test_an_empty_message_costs_something() -> None:
    assert estimate(Message(role="assistant")) == MESSAGE_TOKENS


@pytest.mark.parametrize(
    "fields",
    [
        {"content": {"thought": "What is six by seven?"}},
        {"content": [{"type": "text", "text": "What is six by seven?"}]},
        {"content": [PART]},
        {"tool_calls": [CALL]},
        {"agent_calls": [REQUEST]},
        {"reasoning_details": [DETAIL]},
        {"images": ["https://example.com/cat.png"]},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_every_field_that_a_model_reads_is_counted(fields: dict[str, Any]) -> None:
    assert estimate(Message(role="assistant", **fields)) >= MESSAGE_TOKENS + 5


def test_an_image_has_a_fixed_cost_regardless_of_its_bytes() -> None:
    small, large = (user("See", images=[f"data:,{'A' * size}"]) for size in (10, 100_000))

    assert estimate(small) == estimate(large) == estimate(user("See")) + IMAGE_TOKENS
    assert estimate(large, image_tokens=100) == estimate(user("See")) + 100
    assert estimate(Message(role="user", content=[PART]), 100) == MESSAGE_TOKENS + 100


def test_a_calibrated_counter_starts_with_the_estimate() -> None:
    message = user("The quick brown fox jumps over the lazy dog.")

    assert CalibratedCounter()(message) == estimate(message)


@pytest.mark.parametrize("share", [0.5, 0.8, 1.3, 2.5])
def test_a_calibrated_counter_converges_to_the_models_counts(share: float) -> None:
    count = CalibratedCounter()
    message = user("word " * 1_000)

    for _ in range(20):
        count.observe(count(message), round(estimate(message) * share))

    assert count(message) == pytest.approx(estimate(message) * share, rel=0.01)


def test_one_count_moves_a_calibrated_counter_part_of_the_way() -> None:
    count = CalibratedCounter()

    count.observe(1_000, 2_000)

    assert 1.0 < count.factor < 2.0


@pytest.mark.parametrize(("reported", "bound"), [(1, MIN_FACTOR), (1_000_000, MAX_FACTOR)])
def test_absurd_counts_move_a_calibrated_counter_only_to_its_bounds(
    reported: int, bound: float
) -> None:
    count = CalibratedCounter()

    for _ in range(20):
        count.observe(1_000, reported)

    assert count.factor == bound


@pytest.mark.parametrize(("counted", "reported"), [(0, 10), (10, 0), (10, -1)])
def test_a_count_of_zero_or_less_is_ignored(counted: int, reported: int) -> None:
    count = CalibratedCounter()

    count.observe(counted, reported)

    assert count.factor == 1.0
