"""Where a conversation may be cut, and what the stages that cut it leave together."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local.conversation.compaction import PROCESSORS
from local.conversation.config import Stage, SummarizationConfig, ToolTruncationConfig
from local.conversation.message import Message, is_from_user
from local.conversation.stages import protected_from, rounds
from talks import assistant, chat, job, system, tool, user


def sizes(messages: Sequence[Message]) -> list[int]:
    return [len(piece) for piece in rounds(messages)]


def test_a_round_is_an_assistant_message_with_the_tool_messages_that_answer_it() -> None:
    messages = [
        system(), user("Q"), assistant(calls=["1", "2"]), tool("1"), tool("2"), assistant("A"),
    ]  # fmt: skip

    assert sizes(messages) == [1, 1, 3, 1]


def test_a_late_answer_pulls_what_was_said_meanwhile_into_its_round() -> None:
    messages = [
        assistant(calls=["1"]),
        user("Still there?"),
        assistant("Yes."),
        tool("1"),
        user("Ok"),
    ]

    assert sizes(messages) == [4, 1]


def test_a_tool_message_without_a_known_call_stays_with_what_it_follows() -> None:
    assert sizes([assistant(calls=["1"]), tool(None), user("Q")]) == [2, 1]


def test_nothing_has_no_rounds() -> None:
    assert rounds([]) == []
    assert protected_from([], 1) == 0


@pytest.mark.parametrize(("grace", "index"), [(1, 5), (2, 3), (3, 1), (4, 0)])
def test_grace_counts_assistant_messages_from_the_end(grace: int, index: int) -> None:
    assert protected_from([*list(chat(3)), user("And?")], grace) == index


def test_without_grace_all_may_be_compacted_but_a_round_that_waits_for_answers() -> None:
    messages = list(chat(2))

    assert protected_from(messages, 0) == 4
    assert protected_from([*messages, assistant(calls=["1", "2"]), tool("1")], 0) == 4
    assert protected_from([*messages, assistant(calls=["1"]), tool("1")], 0) == 6


def test_a_call_waits_for_its_answers_until_the_assistant_speaks_again() -> None:
    messages = [*chat(2), assistant(calls=["1"]), user("Hurry up!")]

    assert protected_from(messages, 0) == 4
    assert protected_from([*messages, assistant("It fails.")], 0) == 7


@pytest.mark.parametrize("stage", PROCESSORS)
async def test_an_answer_that_comes_after_a_stage_finds_its_call(stage: Stage) -> None:
    messages = [*chat(5), assistant(calls=["1"]), user("Hurry up! " * 50)]

    kept = await PROCESSORS[stage].process(
        messages, job(10, summarization=SummarizationConfig(grace_recent_messages=0))
    )

    assert complete(tool("1"), [*kept, tool("1")])


def test_protection_begins_with_the_round_that_holds_the_assistant_message() -> None:
    messages = [user("Q"), assistant(calls=["1"]), assistant("Wait."), tool("1")]

    assert protected_from(messages, 1) == 1


@given(
    st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=20),
    st.integers(0, 4),
    st.integers(1, 100),
)
async def test_no_stage_parts_an_answer_from_its_call_or_drops_the_last_question(
    shape: list[tuple[int, bool]], grace: int, threshold: int
) -> None:
    """Whatever the calls, the order of their answers, the grace and the room."""
    messages: list[Message] = [system()]
    for turn, (calls, spoken_between) in enumerate(shape):
        names = [f"{turn}.{n}" for n in range(calls)]
        messages += [user("A question."), assistant("An answer.", calls=names)]
        messages += [user("Hurry up!")] if spoken_between else []
        messages += [tool(name) for name in reversed(names)]
    truncation = ToolTruncationConfig(max_tokens=1, grace_recent_messages=grace)
    summarization = SummarizationConfig(grace_recent_messages=grace)

    for processor in PROCESSORS.values():
        kept = await processor.process(
            messages, job(threshold, tool_truncation=truncation, summarization=summarization)
        )

        assert all(complete(message, kept) for message in kept)
        assert kept[0] == messages[0]
        assert questions(kept)[-1:] == questions(messages)[-1:]


def questions(messages: Sequence[Message]) -> list[str]:
    return [message.message_id for message in messages if is_from_user(message)]


def complete(message: Message, among: Sequence[Message]) -> bool:
    """Its calls are answered, and what it answers was called."""
    answers = {m.tool_call_id for m in among}
    calls = {call.id for m in among for call in m.tool_calls or ()}
    asked = {call.id for call in message.tool_calls or ()}
    return asked <= answers and (message.role != "tool" or message.tool_call_id in calls)
