"""A managed conversation never returns more tokens than its threshold."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local2.conversation.config import (
    ActiveContextPolicyConfig,
    ManagedMemoryConfig,
    ToolTruncationConfig,
)
from local2.conversation.context import estimate
from local2.conversation.fitting import limit_tokens
from local2.conversation.managed import ManagedConversationMemory
from local2.conversation.manager import MemoryManager
from local2.conversation.message import AgentCallMsg, Message, ToolCallMsg
from local2.conversation.stages import StageInput, rounds
from local2.protocol.payloads import Json
from talks import Writer, assistant, chat, config, runtime_with, system, tool, user, words

PROMPT = "You help."
LONG = "word " * 2_000


def managed(threshold: int, messages: Sequence[Message] = ()) -> ManagedConversationMemory:
    memory = ManagedConversationMemory(config(threshold), description=PROMPT)
    for message in messages:
        memory.add(message)
    return memory


def tokens(messages: Sequence[Json]) -> int:
    """Count the tokens of returned messages from their texts."""
    return sum(len(str(message["content"]).split()) for message in messages)


def test_without_a_compaction_the_newest_rounds_that_fit_are_returned() -> None:
    manager = MemoryManager(
        "managed_conversation", PROMPT, memory_config=ManagedMemoryConfig(threshold_tokens=100)
    )
    for message in chat(200):
        manager.add(message)

    returned = manager.get_messages()

    returned_messages = [Message(role=m["role"], content=m["content"]) for m in returned]
    assert 40 < sum(map(estimate, returned_messages)) <= 100
    assert returned[0]["content"] == PROMPT
    assert returned[-1]["content"].startswith("answer199")
    assert returned[-2]["content"].startswith("question199")


async def test_messages_left_out_are_still_compacted() -> None:
    memory = managed(100, [*chat(50)])
    assert tokens(memory.get_messages()) <= 100
    assert memory.tokens > 1_000

    assert await memory.compact_if_needed(runtime_with(Writer(*["All of it."] * 99)))

    assert "All of it." in str(memory.get_messages())
    assert memory.get_messages() == [message.to_llm_dict() for message in memory.context]


def test_all_methods_return_the_same_limited_messages() -> None:
    memory = managed(100, [*chat(50)])

    returned = memory.get_messages()

    assert len(returned) < 10
    assert memory.retrieve_all() == returned
    assert memory.retrieve_recent(2) == returned[-2:]
    assert memory.retrieve_recent(999) == returned
    assert memory.retrieve_recent(0) == []
    users = [message for message in returned if message["role"] == "user"]
    assert memory.retrieve_by_role("user") == users
    assert memory.retrieve_by_role("user", 1) == users[-1:]
    assert len(memory.get_raw_messages()) == 101


def test_older_results_of_tools_are_cut_before_rounds_are_left_out() -> None:
    talk = [
        user("Look."), assistant(calls=["1"]), tool("1", LONG), assistant("Done."),
        user("Again."), assistant("There.")
    ]  # fmt: skip
    memory = managed(500, talk)

    returned = memory.get_messages()

    assert [m["role"] for m in returned] == ["system", *(m.role for m in talk)]
    assert "characters left out" in returned[3]["content"]


@pytest.mark.parametrize(
    "message",
    [
        pytest.param(user(LONG), id="a question"),
        pytest.param(assistant(LONG), id="an answer"),
        pytest.param(tool("1", LONG), id="a result"),
        pytest.param(user(f"Look. {LONG}", images=["a.png"] * 30), id="images"),
    ],
)
def test_a_message_larger_than_the_limit_is_shortened_with_a_note(message: Message) -> None:
    memory = managed(60, [user("First?"), assistant("Yes."), message])

    first, *_, last = memory.get_messages()

    assert first["content"] == PROMPT
    assert last["role"] == message.role
    assert "left out" in last["content"]
    assert memory.get_cache_stats().handed_out_tokens <= 60
    assert memory.retrieve_by_id(message.message_id) == message.to_llm_dict()


def test_a_text_is_cut_before_an_image_beside_it_is_left_out() -> None:
    question = user(LONG, images=["a.png"])

    (shown,) = limit_tokens([question], config(words(question) - 30), words)

    assert shown.images == question.images
    assert words(shown) <= words(question) - 30


def test_a_call_whose_arguments_are_too_large_is_shown_without_them() -> None:
    call = ToolCallMsg.calling("write", {"text": LONG}, id_="1")
    talk = [user("Write."), Message(role="assistant", tool_calls=[call]), tool("1", "Written.")]
    memory = managed(60, talk)

    returned = memory.get_messages()

    assert [m["role"] for m in returned] == ["system", "user", "assistant", "tool"]
    function = returned[2]["tool_calls"][0]["function"]
    assert function == {"name": "write", "arguments": '{"left_out":"10,011 characters"}'}


@pytest.mark.parametrize("where", ["policy", "strategy"])
def test_the_choice_of_a_strategy_is_limited_unless_the_policy_is_disabled(where: str) -> None:
    class Everything:
        def retrieve(self, messages: Sequence[Message], job: StageInput) -> Sequence[Message]:  # noqa: ARG002
            return messages

    memory = ManagedConversationMemory(
        config(100, enabled=where == "strategy"), retrieval_strategy=Everything()
    )
    for message in chat(50):
        memory.add(message)

    assert (tokens(memory.get_messages()) <= 100) == (where == "strategy")


def test_adding_to_a_long_history_does_not_recount_it() -> None:
    counted = 0

    def count(message: Message) -> int:
        nonlocal counted
        counted += 1
        return words(message)

    memory = ManagedConversationMemory(
        ManagedMemoryConfig(threshold_tokens=200, token_counter=count)
    )
    for message in chat(2_000):
        memory.add(message)
    memory.get_messages()
    counted = 0

    for message in chat(100):
        memory.add(message)
        assert len(memory.get_messages()) <= 20

    assert counted < 200 * 5


TEXTS = st.integers(0, 80).map(lambda n: "word " * n)
ROUNDS = st.one_of(
    st.builds(lambda text, n: [user(text, images=["a.png"] * n)], TEXTS, st.integers(0, 3)),
    st.builds(lambda text: [assistant(text)], TEXTS),
    st.builds(
        lambda text, n: [assistant(text, calls=list("ab"[:n])), *(tool(c, text) for c in "ab"[:n])],
        TEXTS,
        st.integers(1, 2),
    ),
    st.builds(
        lambda text: [Message(role="assistant", agent_calls=[AgentCallMsg("Eve", text)])], TEXTS
    ),
)


@given(st.lists(ROUNDS, max_size=12), st.booleans(), TEXTS, st.integers(1, 300))
def test_the_limit_holds_for_every_conversation(
    talk: list[list[Message]], starts_with_system: bool, prompt: str, threshold: int
) -> None:
    messages = [
        *([system(prompt)] if starts_with_system else []),
        *(m for piece in talk for m in piece),
    ]
    policy = ActiveContextPolicyConfig(tool_truncation=ToolTruncationConfig(max_tokens=5))
    limits = ManagedMemoryConfig(threshold_tokens=threshold, active_context=policy)

    limited = limit_tokens(messages, limits, estimate)

    assert sum(map(estimate, limited)) <= threshold
    if threshold > 50 and messages:
        assert limited
        assert limited[0].role == messages[0].role or not starts_with_system
    for piece in rounds(limited):
        call_ids = {call.id for message in piece for call in message.tool_calls or ()}
        assert {m.tool_call_id for m in piece if m.role == "tool"} <= call_ids
