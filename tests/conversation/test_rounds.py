"""Conversations are cut between rounds, so calls and their results stay together."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local2.conversation.compaction import PROCESSORS
from local2.conversation.config import Stage, SummarizationConfig, ToolTruncationConfig
from local2.conversation.message import Message, is_from_user
from local2.conversation.stages import protected_from, rounds
from talks import assistant, chat, job, system, tool, user


def sizes(messages: Sequence[Message]) -> list[int]:
    return [len(piece) for piece in rounds(messages)]


def test_a_round_is_an_assistant_message_with_the_tool_messages_that_answer_it() -> None:
    messages = [
        system(), user("Q"), assistant(calls=["1", "2"]), tool("1"), tool("2"), assistant("A"),
    ]  # fmt: skip

    assert sizes(messages) == [1, 1, 3, 1]


def test_messages_before_a_late_tool_result_belong_to_its_round() -> None:
    messages = [
        assistant(calls=["1"]),
        user("Still there?"),
        assistant("Yes."),
        tool("1"),
        user("Ok"),
    ]

    assert sizes(messages) == [4, 1]


def test_a_tool_message_without_a_known_call_belongs_to_the_preceding_round() -> None:
    assert sizes([assistant(calls=["1"]), tool(None), user("Q")]) == [2, 1]


def test_an_empty_conversation_has_no_rounds() -> None:
    assert rounds([]) == []
    assert protected_from([], 1) == 0


@pytest.mark.parametrize(("grace", "index"), [(1, 5), (2, 3), (3, 1), (4, 0)])
def test_grace_counts_assistant_messages_from_the_end(grace: int, index: int) -> None:
    assert protected_from([*list(chat(3)), user("And?")], grace) == index


def test_without_grace_only_a_round_that_waits_for_results_is_protected() -> None:
    messages = list(chat(2))

    assert protected_from(messages, 0) == 4
    assert protected_from([*messages, assistant(calls=["1", "2"]), tool("1")], 0) == 4
    assert protected_from([*messages, assistant(calls=["1"]), tool("1")], 0) == 6


def test_a_call_waits_for_its_results_until_the_assistants_next_message() -> None:
    messages = [*chat(2), assistant(calls=["1"]), user("Hurry up!")]

    assert protected_from(messages, 0) == 4
    assert protected_from([*messages, assistant("It fails.")], 0) == 7


@pytest.mark.parametrize("stage", PROCESSORS)
async def test_a_tool_result_that_arrives_after_a_stage_still_has_its_call(stage: Stage) -> None:
    messages = [*chat(5), assistant(calls=["1"]), user("Hurry up! " * 50)]

    compacted = await PROCESSORS[stage].process(
        messages, job(10, summarization=SummarizationConfig(grace_recent_messages=0))
    )

    assert is_complete(tool("1"), [*compacted, tool("1")])


def test_protection_starts_at_the_round_of_the_assistant_message() -> None:
    messages = [user("Q"), assistant(calls=["1"]), assistant("Wait."), tool("1")]

    assert protected_from(messages, 1) == 1


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=20),
    st.integers(0, 4),
    st.integers(1, 100),
)
async def test_no_stage_separates_a_result_from_its_call_or_drops_the_last_question(
    shape: list[tuple[int, bool]], grace: int, threshold: int
) -> None:
    """It holds for any calls, order of their results, grace and threshold."""
    messages: list[Message] = [system()]
    for turn, (calls, spoken_between) in enumerate(shape):
        names = [f"{turn}.{n}" for n in range(calls)]
        messages += [user("A question."), assistant("An answer.", calls=names)]
        messages += [user("Hurry up!")] if spoken_between else []
        messages += [tool(name) for name in reversed(names)]
    truncation = ToolTruncationConfig(max_tokens=1, grace_recent_messages=grace)
    summarization = SummarizationConfig(grace_recent_messages=grace)

    for processor in PROCESSORS.values():
        compacted = await processor.process(
            messages, job(threshold, tool_truncation=truncation, summarization=summarization)
        )

        assert all(is_complete(message, compacted) for message in compacted)
        assert compacted[0] == messages[0]
        assert questions(compacted)[-1:] == questions(messages)[-1:]


def questions(messages: Sequence[Message]) -> list[str]:
    return [message.message_id for message in messages if is_from_user(message)]


def is_complete(message: Message, among: Sequence[Message]) -> bool:
    """Return whether all calls of the message have results, and a result has its call."""
    results = {m.tool_call_id for m in among}
    calls = {call.id for m in among for call in m.tool_calls or ()}
    own_calls = {call.id for call in message.tool_calls or ()}
    return own_calls <= results and (message.role != "tool" or message.tool_call_id in calls)
