"""`LocalSession` and the SDK's `SQLiteSession` give the same answers to the same calls.

The SDK's own tests of sessions are only in its repository; these are their cases, for both.
"""

import asyncio
import copy
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, cast

import pytest
from agents.items import TResponseInputItem, TResponseOutputItem
from agents.models.interface import Model
from hypothesis import example, given, settings
from hypothesis import strategies as st
from openai.types.responses import (
    ResponseFunctionToolCall,
    ResponseOutputMessage,
    ResponseOutputText,
    ResponseReasoningItem,
)

from agents import (
    Agent,
    ModelResponse,
    RunConfig,
    Runner,
    Session,
    SQLiteSession,
    Usage,
    function_tool,
)
from integrations.finding import found_by
from local2.errors import TooLargeError
from local2.integrations.openai_agents import LocalSession
from local2.protocol.envelope import new_id

PNG = "data:image/png;base64," + "iVBORw0KGgo" * 40
ITEMS = cast(
    list[TResponseInputItem],
    [
        {"role": "user", "content": "Where did I leave the green umbrella?"},
        {
            "id": "rs_1",
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "It rained."}],
            "encrypted_content": "gAAAA==",
        },
        {
            "type": "function_call",
            "id": "fc_1",
            "call_id": "call_1",
            "name": "look_around",
            "arguments": '{"room": "hall",  "deep": true}',
            "status": "completed",
        },
        {"type": "function_call_output", "call_id": "call_1", "output": "An umbrella, green."},
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "status": "completed",
            "content": [
                {
                    "type": "output_text",
                    "text": "In the hall. ☂",
                    "annotations": [],
                    "logprobs": None,
                }
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Is it this one?"},
                {"type": "input_image", "image_url": PNG, "detail": "auto"},
            ],
        },
        {"role": "user", "content": ""},
        {"role": "user", "content": "Where did I leave the green umbrella?"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"n": 1.5e300}},
        {"role": "user", "content": "a lone surrogate \ud83d, a null \u0000, 9007199254740993"},
    ],
)


@pytest.fixture
async def session(home: Path, user: str) -> AsyncIterator[LocalSession]:
    async with LocalSession(new_id(), home=home, user=user) as opened:
        yield opened


@pytest.fixture
def reference() -> SQLiteSession:
    return SQLiteSession("reference")


Calls = list[list[TResponseInputItem] | int | str]
EVERY_CALL: Calls = [
    *(99, "pop", [], 99),
    *(ITEMS[:4], ITEMS[4:], 0, 1, 3, len(ITEMS), 99, -1, "pop", "pop", 99),
    *(ITEMS[2:3], 2, "clear", 99, "pop", "clear", ITEMS[:1]),
]


@settings(max_examples=8)
@example(EVERY_CALL)
@given(
    st.lists(
        st.one_of(
            st.lists(st.sampled_from(ITEMS), max_size=4),
            st.integers(-1, 5),
            st.sampled_from(["pop", "clear"]),
        ),
        max_size=8,
    )
)
async def test_any_calls_in_any_order_answer_like_sqlite_session(home: Path, calls: Calls) -> None:
    reference = SQLiteSession("reference")
    async with LocalSession(new_id(), home=home, user="any") as session:
        for call in calls:
            assert await _call(session, call) == await _call(reference, call)
        assert await session.get_items() == await reference.get_items()
    reference.close()


async def _call(session: Session, call: list[TResponseInputItem] | int | str) -> object:
    if isinstance(call, int):
        return await session.get_items(call)
    if call == "pop":
        return await session.pop_item()
    await (session.clear_session() if isinstance(call, str) else session.add_items(call))
    return None


async def test_a_session_is_unchanged_after_closing(home: Path, user: str) -> None:
    async with LocalSession("diary", home=home, user=user) as session:
        await session.add_items(ITEMS)
    async with LocalSession("diary", home=home, user=user) as again:
        assert await again.get_items() == ITEMS


async def test_a_session_serves_successive_event_loops(home: Path, user: str) -> None:
    session = LocalSession("diary", home=home, user=user)

    await asyncio.to_thread(lambda: asyncio.run(session.add_items(ITEMS[:2])))
    in_another = await asyncio.to_thread(lambda: asyncio.run(session.get_items()))

    assert in_another == await session.get_items() == ITEMS[:2]
    await session.close()


async def test_sessions_of_two_users_and_of_two_ids_are_separate(home: Path, user: str) -> None:
    async with (
        LocalSession("diary", home=home, user=user) as hers,
        LocalSession("diary", home=home, user=f"not {user}") as his,
        LocalSession("another", home=home, user=user) as another,
    ):
        await hers.add_items(ITEMS[:1])

        assert await his.get_items() == await another.get_items() == []
        assert await his.pop_item() is None
        await his.clear_session()
        assert await hers.get_items() == ITEMS[:1]


async def test_messages_are_found_in_later_sessions(home: Path, user: str) -> None:
    async with LocalSession("monday", home=home, user=user) as session:
        await session.add_items(ITEMS[:5])

    found = await found_by(home, user, "green umbrella")

    assert {item.content for item in found} == {
        "Where did I leave the green umbrella?",
        "An umbrella, green.",
        "In the hall. ☂",
    }
    assert {item.session_id for item in found} == {"monday"}


async def test_popped_or_cleared_items_are_no_longer_found(home: Path, user: str) -> None:
    async with LocalSession("monday", home=home, user=user) as session:
        await session.add_items(ITEMS[:5])
        await session.pop_item()
        popped = await found_by(home, user, "green umbrella")
        await session.clear_session()

    assert "In the hall. ☂" not in {item.content for item in popped}
    assert "An umbrella, green." in {item.content for item in popped}
    assert await found_by(home, user, "green umbrella") == []


async def test_a_popped_item_can_be_added_again(home: Path, user: str) -> None:
    async with LocalSession("monday", home=home, user=user) as session:
        await session.add_items(ITEMS[:1])
        await session.pop_item()
        await session.add_items(ITEMS[:1])

    assert len(await found_by(home, user, "green umbrella")) == 1


async def test_concurrent_pops_return_each_item_once(home: Path, user: str) -> None:
    async with LocalSession("diary", home=home, user=user) as session:
        await session.add_items(ITEMS)
        popped = await asyncio.gather(*(session.pop_item() for _ in range(len(ITEMS) + 2)))

    assert sorted(map(repr, popped)) == sorted([*map(repr, ITEMS), "None", "None"])


async def test_batches_added_concurrently_stay_together(home: Path, user: str) -> None:
    batches = [[message(f"{one} {two}") for two in range(3)] for one in range(8)]
    async with LocalSession("diary", home=home, user=user) as session:
        await asyncio.gather(*map(session.add_items, batches))
        items = await session.get_items()

    in_threes = [items[start : start + 3] for start in range(0, len(items), 3)]
    assert sorted(in_threes, key=repr) == sorted(batches, key=repr)


async def test_a_long_session_is_returned_whole(home: Path, user: str) -> None:
    opaque = "gAAAA" * 300
    many = [
        cast(
            TResponseInputItem, {"type": "reasoning", "id": f"rs_{n}", "encrypted_content": opaque}
        )
        for n in range(2_100)
    ]
    async with LocalSession("diary", home=home, user=user) as session:
        await session.add_items(many)

        assert await session.get_items() == many
        assert await session.get_items(1_001) == many[-1_001:]


async def test_an_item_that_is_too_large_is_refused_and_nothing_is_stored(
    home: Path, user: str
) -> None:
    async with LocalSession("diary", home=home, user=user) as session:
        with pytest.raises(TooLargeError, match="600,000"):
            await session.add_items([*ITEMS[:2], message("x" * 700_000)])

        assert await session.get_items() == []
    assert await found_by(home, user, "green umbrella") == []


def message(text: str) -> TResponseInputItem:
    return {"role": "user", "content": text}


class Scripted(Model):
    """A model that gives scripted answers and stores its inputs."""

    def __init__(self, *answers: list[TResponseOutputItem]) -> None:
        self.inputs: list[object] = []
        self._answers = list(answers)

    async def get_response(
        self,
        system_instructions: str | None,  # noqa: ARG002
        input: str | list[TResponseInputItem],  # noqa: A002
        *_: Any,
        **__: Any,
    ) -> ModelResponse:
        self.inputs.append(copy.deepcopy(input))
        return ModelResponse(output=self._answers.pop(0), usage=Usage(), response_id=None)

    def stream_response(self, *_: Any, **__: Any) -> Any:
        raise NotImplementedError


def output_message(id_: str, text: str) -> TResponseOutputItem:
    content = ResponseOutputText(type="output_text", text=text, annotations=[])
    return ResponseOutputMessage(
        id=id_, type="message", role="assistant", status="completed", content=[content]
    )


def script() -> Scripted:
    thought = ResponseReasoningItem(id="rs_1", type="reasoning", summary=[])
    call = ResponseFunctionToolCall(
        id="fc_1",
        call_id="call_1",
        type="function_call",
        name="weather",
        arguments='{"city": "Oslo"}',
    )
    return Scripted(
        [thought, call],
        [output_message("msg_1", "It is sunny in Oslo.")],
        [output_message("msg_2", "You asked about Oslo.")],
    )


@function_tool
def weather(city: str) -> str:
    """The weather in a city."""
    return f"Sunny in {city}."


async def model_inputs(session: Session) -> list[object]:
    """Return the model's inputs in a conversation of two runs, the first with a tool."""
    model = script()
    agent = Agent(name="assistant", model=model, tools=[weather])
    quiet = RunConfig(tracing_disabled=True)
    await Runner.run(agent, "How is the weather in Oslo?", session=session, run_config=quiet)
    result = await Runner.run(agent, "What did I ask?", session=session, run_config=quiet)
    assert result.final_output == "You asked about Oslo."
    return [*model.inputs, await session.get_items()]


async def test_an_agent_receives_the_same_history_as_with_sqlite(
    home: Path, session: LocalSession, reference: SQLiteSession, user: str
) -> None:
    expected = await model_inputs(reference)
    reference.close()

    assert await model_inputs(session) == expected
    found = {item.content for item in await found_by(home, user, "weather in Oslo")}
    assert {"How is the weather in Oslo?", "Sunny in Oslo.", "It is sunny in Oslo."} <= found
