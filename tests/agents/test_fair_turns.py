"""A chat model that hangs delays only the users who asked it, and does not prevent a stop."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from typing import Any

import pytest
from msgspec.structs import replace

from calling import caller_named
from factories import Listen
from local2.bus import participant
from local2.bus.connection import Connection
from local2.bus.streams import ensure_streams, publish_durably
from local2.client.queries import QueryClient
from local2.errors import OverloadedError
from local2.generator import publication
from local2.generator.agent import GeneratorAgent
from local2.llm.models import ChatChunk, ChatMessage, ToolDefinition
from local2.protocol import subjects
from local2.protocol.envelope import Caller, decode, encode, seal
from local2.protocol.payloads import (
    ClearSession,
    Empty,
    ErrorReply,
    Generation,
    Query,
    ToolResult,
)
from local2.settings import GeneratorSettings
from waiting import eventually

QUERIES = 260


class Hanging:
    """A model that answers immediately, except for queries with "hang", which wait."""

    name = "hanging"

    def __init__(self) -> None:
        self.may_answer = asyncio.Event()
        self.queries: list[str] = []

    async def stream(
        self, messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> AsyncGenerator[ChatChunk, None]:
        del tools
        query = messages[-1].content
        self.queries.append(query)
        if query.startswith("hang"):
            await self.may_answer.wait()
        yield ChatChunk(content=f"To {query}: {len(messages)} messages.")

    async def close(self) -> None:
        pass


@pytest.fixture
def model() -> Hanging:
    return Hanging()


@pytest.fixture
async def agent(
    bus: Connection, model: Hanging, monkeypatch: pytest.MonkeyPatch
) -> AsyncIterator[GeneratorAgent]:
    monkeypatch.setattr(participant, "STOP_GRACE", 0.1)
    await ensure_streams(bus, "default")
    async with GeneratorAgent(bus, model, GeneratorSettings(turns_per_user=2)) as running:
        yield running


def eve(session: int) -> Caller:
    return caller_named("eve", agent="test", session_id=f"s{session}")


async def publish(bus: Connection, text: str, caller: Caller) -> ToolResult:
    """Publish a query and return its acknowledgement."""
    query = seal(
        Query(query=text), type="query", source="test", user=caller.user,
        session_id=caller.session_id,
    )  # fmt: skip
    answer = await bus.request(subjects.QUERY_RECEIVED, encode(query))
    return decode(answer.data, ToolResult).payload


@pytest.mark.usefixtures("agent")
async def test_260_hanging_queries_of_a_user_leave_the_model_to_others(
    bus: Connection, model: Hanging, client: QueryClient
) -> None:
    for number in range(QUERIES):
        assert (await publish(bus, f"hang {number}", eve(number))).ok
    await eventually(lambda: len(model.queries) == 2)

    answer = await client.ask("Hello?", caller=caller_named("ann", session_id="s1"), timeout=20)

    assert answer.answer.startswith("To Hello?")
    assert model.queries == ["hang 0", "hang 1", "Hello?"]


@pytest.mark.usefixtures("agent")
async def test_queries_that_wait_for_their_session_do_not_block_the_users_others(
    bus: Connection, model: Hanging, client: QueryClient
) -> None:
    for number in range(9):
        await publish(bus, f"hang {number}", eve(1))
    await eventually(lambda: model.queries)

    assert (await client.ask("Hello?", caller=eve(2), timeout=20)).answer.startswith("To Hello?")


@pytest.mark.usefixtures("agent")
async def test_a_session_whose_model_hangs_is_cleared_at_once(
    bus: Connection, model: Hanging, client: QueryClient
) -> None:
    await publish(bus, "hang", eve(1))
    await eventually(lambda: model.queries)
    request = seal(ClearSession(session_id="s1"), type="request", source="test", user="eve")

    cleared = await bus.request(subjects.SESSION_CLEAR, encode(request), timeout=5)

    assert decode(cleared.data, ToolResult).payload.ok
    first = await client.ask("Hello?", caller=eve(1), timeout=20)
    model.may_answer.set()
    second = await client.ask("Hello?", caller=eve(1), timeout=20)
    message_counts = [int(turn.answer.split()[2]) for turn in (first, second)]
    assert message_counts[1] == message_counts[0] + 2, "the query that hung is not in the prompt"


@pytest.mark.usefixtures("agent")
async def test_a_cancelled_query_ends_its_turn_and_lets_its_sessions_next_one_run(
    model: Hanging, client: QueryClient, listen: Listen
) -> None:
    generations = await listen(subjects.RESPONSE_GENERATION)
    asking = asyncio.create_task(client.ask("hang", caller=eve(1)))
    await eventually(lambda: model.queries)

    asking.cancel()
    await asyncio.wait([asking])

    next_answer = await client.ask("Hello?", caller=eve(1), timeout=20)
    assert next_answer.answer == "To Hello?: 2 messages."
    stopped = decode(generations[0].data, Generation).payload
    assert stopped.error == ErrorReply(code="cancelled", message="The query was cancelled.")
    assert (stopped.query, stopped.answer) == ("hang", "")


@pytest.mark.usefixtures("agent")
async def test_an_answer_that_is_being_stored_when_its_query_is_cancelled_is_published(
    client: QueryClient, listen: Listen, monkeypatch: pytest.MonkeyPatch
) -> None:
    generations = await listen(subjects.RESPONSE_GENERATION)
    begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def wait_and_store(bus: Connection, subject: str, data: bytes, **options: Any) -> None:
        if not begun.is_set():
            begun.set()
            await may_go_on.wait()
        await publish_durably(bus, subject, data, **options)

    monkeypatch.setattr(publication, "publish_durably", wait_and_store)
    asking = asyncio.create_task(client.ask("Hello?", caller=eve(1)))
    await begun.wait()
    asking.cancel()
    await asyncio.wait([asking])
    await client.ask("Hello?", caller=eve(2), timeout=20)  # it is received after the cancellation

    may_go_on.set()
    await eventually(lambda: len(generations) == 2)
    sessions = [decode(message.data, Generation).payload for message in generations]
    assert [(turn.session_id, turn.error) for turn in sessions] == [("s2", None), ("s1", None)]
    again = await client.ask("Hello?", caller=eve(1), timeout=20)
    assert again.answer == "To Hello?: 4 messages.", "the session goes on from the answer"


@pytest.mark.usefixtures("agent")
async def test_only_who_asked_a_query_can_cancel_it(
    bus: Connection, model: Hanging, client: QueryClient, listen: Listen
) -> None:
    generations = await listen(subjects.RESPONSE_GENERATION)
    query = seal(Query(query="hang", session_id="s1"), type="query", source="test", user="eve")
    await bus.request(subjects.QUERY_RECEIVED, encode(query))
    await eventually(lambda: model.queries)

    cancel = seal(Empty(), type="cancel", source="test", user="ann", correlation_id=query.id)
    await bus.publish(subjects.QUERY_CANCEL, encode(cancel))

    await client.ask("Hello?", caller=eve(2), timeout=20)  # it is received after the cancellation
    model.may_answer.set()
    await eventually(lambda: len(generations) == 2)
    assert [decode(message.data, Generation).payload.error for message in generations] == [None] * 2


async def test_a_stop_ends_every_query_with_an_error(
    agent: GeneratorAgent, bus: Connection, model: Hanging, listen: Listen
) -> None:
    generations = await listen(subjects.RESPONSE_GENERATION)
    for number in range(QUERIES):
        await publish(bus, f"hang {number}", eve(number % 50))
    await eventually(lambda: len(model.queries) == 2)

    await agent.__aexit__(None, None, None)

    await eventually(lambda: len(generations) == QUERIES)
    errors = [decode(message.data, Generation).payload.error for message in generations]
    assert all(error is not None and "stopped" in error.message for error in errors)


async def test_queries_over_the_limit_of_waiting_ones_are_refused(
    agent: GeneratorAgent, bus: Connection, client: QueryClient
) -> None:
    agent._turns._limits = replace(agent._turns._limits, user_waiting=3)
    for number in range(3):
        assert (await publish(bus, f"hang {number}", eve(number))).ok

    with pytest.raises(OverloadedError):
        await client.ask("One more?", caller=eve(9), timeout=20)
    assert (await client.ask("Hello?", caller=caller_named("ann"), timeout=20)).answer
