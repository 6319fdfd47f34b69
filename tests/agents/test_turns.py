"""Every turn ends, whatever its model does and whatever tools are announced."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec
import pytest

from calling import RICHARD
from factories import Listen, StartGenerator
from local2.bus import participant
from local2.bus.connection import BusMessage, Connection, connect
from local2.client import queries
from local2.client.queries import QueryClient
from local2.errors import BusError, ModelError, StackNotRunningError, TooLargeError
from local2.generator.agent import GeneratorAgent
from local2.generator.publication import TurnPublisher
from local2.llm.models import ChatChunk, ChatMessage, ToolCall, ToolDefinition, Usage
from local2.memory.tenant import Memory
from local2.protocol import subjects
from local2.protocol.envelope import decode
from local2.protocol.payloads import Generation, Json
from local2.settings import GeneratorSettings
from stand_ins.ollama_server import OllamaStandIn, Reply
from waiting import eventually


async def announce(bus: Connection, name: str, parameters: Json) -> None:
    """Announce a tool as a participant written in another language might."""
    function = {"name": name, "description": "Foreign.", "parameters": parameters}
    schema = {"type": "function", "function": function}
    tool = {"name": name, "description": "Foreign.", "version": "1", "schema": schema}
    await bus.publish("tool.schema", json.dumps({"payload": tool}).encode())


@pytest.mark.parametrize(
    "parameters",
    [
        pytest.param({"type": "object", "properties": {"x": {"type": 7}}}, id="not a type"),
        pytest.param({"type": "object", "properties": {"x": False}}, id="not a schema"),
    ],
)
@pytest.mark.usefixtures("tools")
async def test_a_tool_with_an_invalid_schema_is_not_offered(
    bus: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    parameters: Json,
) -> None:
    agent = await start()
    await announce(bus, "odd", parameters)
    await eventually(lambda: "odd" in {schema.name for schema in agent._toolbox.schemas})

    turn = await client.ask("Hello?", caller=RICHARD, timeout=20)

    (chat,) = ollama.bodies("/api/chat")
    assert turn.answer == "Understood."
    offered = {tool["function"]["name"] for tool in chat["tools"]}
    for_models = {schema.name for schema in agent._toolbox.schemas if schema.for_models}
    assert offered == for_models - {"odd"}


async def test_thinking_too_long_for_a_message_is_left_out_of_the_turn(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, listen: Listen
) -> None:
    await start(tools=0)
    generations = await listen("response.generation")
    ollama.script(Reply(thinking="x" * 1_200_000, content="Au."))

    turn = await client.ask("Symbol of gold?", caller=RICHARD, timeout=20)

    await eventually(lambda: generations)
    assert decode(generations[0].data, Generation).payload == turn
    assert (turn.answer, turn.thinking, turn.error) == ("Au.", None, None)


Stream = Callable[
    [Sequence[ChatMessage], Sequence[ToolDefinition]], AsyncGenerator[ChatChunk, None]
]


class OwnModel:
    """A chat model that does what a test makes it do."""

    name = "own"

    def __init__(self, stream: Stream) -> None:
        self.stream = stream

    async def close(self) -> None:
        """Nothing is open."""


@pytest.mark.usefixtures("memory_agent")
async def test_a_bug_in_a_model_ends_the_turn_with_an_internal_error_and_is_not_stored(
    bus: Connection, client: QueryClient, memory: Memory, logs: Path
) -> None:
    is_broken = True

    async def break_once(*_: object) -> AsyncGenerator[ChatChunk, None]:
        nonlocal is_broken
        yield ChatChunk(content="Half an")
        if is_broken:
            is_broken = False
            raise ZeroDivisionError("secret of the inside")
        yield ChatChunk(content=" answer.")

    async with GeneratorAgent(bus, OwnModel(break_once), GeneratorSettings()):
        failed = await client.ask("First?", caller=RICHARD, timeout=20)
        answered = await client.ask("Second?", caller=RICHARD, timeout=20)

    assert failed.error is not None
    assert failed.error.code == "internal"
    assert "secret" not in failed.error.message
    assert failed.answer == ""
    assert (answered.answer, answered.error) == ("Half an answer.", None)
    await eventually(lambda: "secret of the inside" in logs.read_text())

    async def remembered() -> list[str]:
        found = await memory.of(RICHARD).search_episodic("First Second answer")
        return [hit.content for hit in found.hits]

    await eventually(remembered)
    assert await remembered() == ["Q: Second?\nA: Half an answer."]


@pytest.mark.usefixtures("memory_agent")
@pytest.mark.parametrize("is_replaced", [False, True])
async def test_whoever_asks_is_told_that_the_agent_died_within_its_answer(
    nats_url: str,
    bus: Connection,
    client: QueryClient,
    listen: Listen,
    monkeypatch: pytest.MonkeyPatch,
    *,
    is_replaced: bool,
) -> None:
    looks = await listen("query.running")
    monkeypatch.setattr(queries, "FIRST_LOOK", 0.1)
    monkeypatch.setattr(participant, "STOP_GRACE", 0.0)  # it never ends
    thinking = asyncio.Event()

    async def think(*_: object) -> AsyncGenerator[ChatChunk, None]:
        yield ChatChunk(content="Well,")
        thinking.set()
        await asyncio.Event().wait()

    async with AsyncExitStack() as agents:
        own = await agents.enter_async_context(connect(nats_url, name="dies"))
        await agents.enter_async_context(GeneratorAgent(own, OwnModel(think), GeneratorSettings()))
        asking = asyncio.create_task(client.ask("Why?", caller=RICHARD))
        await thinking.wait()
        await eventually(lambda: len(looks) > 2)
        assert not asking.done()  # the agent has the query, and says so
        if is_replaced:  # by one that has never heard of the query
            agent = GeneratorAgent(bus, OwnModel(think), GeneratorSettings())
            await agents.enter_async_context(agent)
        await own.client.close()

        with pytest.raises(StackNotRunningError, match="stopped before its answer was complete"):
            await asking


@pytest.mark.usefixtures("memory_agent")
async def test_an_answer_larger_than_a_message_is_an_error_and_is_removed_from_the_session(
    bus: Connection, client: QueryClient
) -> None:
    received: list[Sequence[ChatMessage]] = []

    async def talk_for_ever(
        messages: Sequence[ChatMessage], _: object
    ) -> AsyncGenerator[ChatChunk, None]:
        received.append(messages)
        for _part in range(3):  # each fits into a message
            yield ChatChunk(content="x" * 500_000)

    async with GeneratorAgent(bus, OwnModel(talk_for_ever), GeneratorSettings()):
        turn, _ = [await client.ask("Tell me all.", caller=RICHARD, timeout=20) for _ in range(2)]

    assert turn.error is not None
    assert turn.error.code == "too_large"
    assert turn.query == "Tell me all."
    first, second = received
    assert first == second


async def test_an_empty_answer_ends_the_turn_with_an_error(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    await start(tools=0)
    ollama.script(Reply(thinking="Hm.", content=" "))

    silent = await client.ask("First?", caller=RICHARD)
    await client.ask("Second?", caller=RICHARD)

    assert silent.error is not None
    assert (silent.error.code, silent.answer) == (ModelError.code, "")
    assert "no answer" in silent.error.message
    messages = ollama.bodies("/api/chat")[-1]["messages"]
    assert [m["content"] for m in messages[1:]] == ["Second?"]

    # Only the question of the first turn.
    await eventually(memory.ledger.counts, lambda found: found.records == 4)


@pytest.mark.usefixtures("memory_agent")
async def test_the_tokens_of_tools_are_counted_as_the_model_counts(
    bus: Connection, client: QueryClient
) -> None:
    prompts: list[int] = []

    async def call_on_and_on(
        messages: Sequence[ChatMessage], tools: Sequence[ToolDefinition]
    ) -> AsyncGenerator[ChatChunk, None]:
        prompts.append(len(msgspec.json.encode([messages, tools])) // 2)  # twice the estimate
        call = ToolCall(id=f"c{len(prompts)}", name="missing", arguments={})
        yield ChatChunk(content="word " * 100, tool_calls=(call,))
        yield ChatChunk(usage=Usage(prompt_tokens=prompts[-1], answer_tokens=1))

    settings = GeneratorSettings(max_rounds=40)
    async with GeneratorAgent(bus, OwnModel(call_on_and_on), settings) as agent:
        await announce(bus, "tool", {"type": "object", "description": "word " * 1_000})
        await eventually(lambda: agent._toolbox.schemas)
        turn = await client.ask("Go on!", caller=RICHARD, timeout=20)

    assert turn.error is None
    with_tools = prompts[20:-1]
    upper = settings.context_size * settings.compressed_above
    assert upper * 0.8 < max(with_tools) < upper * 1.05


async def test_calls_are_answered_and_listed_in_the_order_of_the_request(
    bus: Connection, start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    second_answered = asyncio.Event()

    async def slow(message: BusMessage) -> None:
        await second_answered.wait()
        await bus.publish(message.reply, b'{"payload": {"ok": true, "content": "1"}}')

    async def fast(message: BusMessage) -> None:
        await bus.publish(message.reply, b'{"payload": {"ok": true, "content": "2"}}')
        await bus.flush()
        second_answered.set()

    agent = await start(tools=0)
    for name, answer in (("slow", slow), ("fast", fast)):
        await bus.subscribe(f"tool.request.{name}", answer)
        await announce(bus, name, {"type": "object", "properties": {}})
    await eventually(lambda: len(agent._toolbox.schemas) == 2)
    ollama.script(Reply(tool_calls=(("slow", {}), ("fast", {}))))

    turn = await client.ask("Both?", caller=RICHARD, timeout=20)

    assert [(call.name, call.content) for call in turn.tool_calls] == [("slow", "1"), ("fast", "2")]
    answers = [m for m in ollama.bodies("/api/chat")[-1]["messages"] if m["role"] == "tool"]
    assert [(m["tool_name"], m["content"]) for m in answers] == [("slow", "1"), ("fast", "2")]


async def test_turns_of_two_users_with_the_same_query_id_are_both_remembered(
    bus: Connection, start: StartGenerator, memory: Memory
) -> None:
    await start(tools=0)
    for user in ("richard", "eve"):
        envelope = {"user": user, "session_id": "s1", "query_id": "1", "payload": {"query": "Hi?"}}
        await bus.publish("query.received", json.dumps(envelope).encode())

    await eventually(memory.ledger.counts, lambda found: found.records == 6)


@pytest.fixture
def unfinished(ollama: OllamaStandIn, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Make the model begin an answer that does not end, and a stop not wait for it."""
    monkeypatch.setattr(participant, "STOP_GRACE", 0.01)
    may_finish = threading.Event()
    ollama.script(Reply(content="Half an answer.", hold=may_finish))
    yield
    may_finish.set()


@pytest.mark.usefixtures("unfinished")
async def test_a_turn_interrupted_by_a_stop_ends_with_an_error_and_no_answer(
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
) -> None:
    agent = await start(tools=0)
    asking = asyncio.create_task(client.ask("Hello?", caller=RICHARD, timeout=20))
    await eventually(lambda: ollama.bodies("/api/chat"))

    await agent.__aexit__(None, None, None)
    turn = await asking

    assert turn.error is not None
    assert (turn.error.code, turn.answer) == ("unavailable", "")
    assert "stopped" in turn.error.message


@pytest.mark.usefixtures("unfinished")
async def test_a_turn_that_waits_for_an_interrupted_one_ends_with_an_error_too(
    start: StartGenerator,
    bus: Connection,
    listen: Listen,
    ollama: OllamaStandIn,
) -> None:
    agent = await start(tools=0)
    published = await listen(subjects.RESPONSE_GENERATION)
    for query in ("One", "Two"):
        envelope = {"user": "richard", "session_id": "s1", "payload": {"query": query}}
        await bus.request(subjects.QUERY_RECEIVED, json.dumps(envelope).encode())
    await eventually(lambda: ollama.bodies("/api/chat"))

    await agent.__aexit__(None, None, None)
    await eventually(lambda: len(published) == 2)

    turns = [decode(message.data, Generation).payload for message in published]
    assert sorted(turn.query for turn in turns) == ["One", "Two"]
    assert all(turn.error and "stopped" in turn.error.message for turn in turns)
    assert len(ollama.bodies("/api/chat")) == 1


async def test_a_turn_that_cannot_be_published_at_all_raises_an_error(
    bus: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_data: bytes, _headers: object) -> None:
        raise TooLargeError("The bus carries nothing.")

    monkeypatch.setattr(bus, "check_size", refuse)

    turn = Generation(answer="Au.", query="Gold?", query_id="q1")
    with pytest.raises(BusError, match="q1"):
        await TurnPublisher(bus).publish(turn, RICHARD)


async def test_a_failed_query_repeated_with_its_id_is_remembered(
    bus: Connection,
    start: StartGenerator,
    ollama: OllamaStandIn,
    memory: Memory,
    listen: Listen,
) -> None:
    generations = await listen("response.generation")
    await start(tools=0)
    ollama.fail_next(error="out of memory")
    query = b'{"query_id": "q5", "session_id": "s5", "payload": {"query": "Hi?"}}'
    for times in (1, 2):
        await bus.publish("query.received", query)
        await eventually(lambda: len(generations) == times)  # noqa: B023 - awaited in the loop

    await eventually(memory.ledger.counts, lambda found: found.records == 3)
