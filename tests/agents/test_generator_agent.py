"""The GeneratorAgent answers a query with a model and tools, and publishes one turn."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from calling import RICHARD, caller_named
from factories import Listen, StartGenerator
from local2.bus.connection import BusMessage, Connection
from local2.bus.streams import ensure_streams
from local2.bus.tool_host import ToolHost
from local2.client.queries import QueryClient
from local2.endpoint.address import Endpoint
from local2.errors import ModelError
from local2.generator import publication
from local2.generator.agent import GeneratorAgent
from local2.llm.ollama import OllamaModel
from local2.llm.openai import OpenAIModel
from local2.memory.tenant import Memories, Memory
from local2.protocol.envelope import Caller, decode
from local2.protocol.lenient.turns import QUERY_EXAMPLE
from local2.protocol.payloads import Delta, Generation, ToolResult
from local2.protocol.tool import Tool, ToolOutput
from local2.settings import GeneratorSettings
from local2.tools.catalog import memory_tools
from stand_ins.ollama_server import OllamaStandIn, Reply
from stand_ins.openai_server import OpenAIStandIn
from waiting import eventually

SAVE_NAME = ("save_topic", {"topic": "user.name", "content": "Richard"})
RECALL_NAME = ("recall_topic", {"topic": "user.name"})


def message_lists(ollama: OllamaStandIn) -> list[list[dict[str, Any]]]:
    """Return the messages of each request to the model."""
    return [body["messages"] for body in ollama.bodies("/api/chat")]


def offered(ollama: OllamaStandIn) -> list[list[str]]:
    """Return the names of the tools in each request to the model."""
    return [
        [tool["function"]["name"] for tool in body.get("tools") or []]
        for body in ollama.bodies("/api/chat")
    ]


@pytest.mark.usefixtures("tools")
async def test_a_published_turn_is_complete(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, listen: Listen
) -> None:
    await start()
    generations = await listen("response.generation")
    ollama.script(
        Reply(thinking="A name.", tool_calls=(SAVE_NAME,)), Reply(content="Nice to meet you.")
    )

    turn = await client.ask("I am Richard.", caller=RICHARD)

    await eventually(lambda: generations)
    envelope = decode(generations[0].data, Generation)
    assert envelope.payload == turn
    assert (envelope.user, envelope.session_id) == ("richard", "s1")
    assert envelope.query_id == turn.query_id
    assert envelope.source == "generator_agent"
    (call,) = turn.tool_calls
    assert call.id
    assert msgspec.structs.asdict(turn) | {"tool_calls": []} == {
        "answer": "Nice to meet you.",
        "query": "I am Richard.",
        "thinking": "A name.",
        "tool_calls": [],
        "session_id": "s1",
        "query_id": turn.query_id,
        "error": None,
        "metadata": {},
        "shown": [],
        "hint": "",
    }
    assert (call.name, call.args, call.ok) == (*SAVE_NAME, True)
    assert call.content == "Memory saved: user.name"


@pytest.mark.usefixtures("tools")
async def test_the_deltas_of_an_answer_are_in_order_and_complete(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, listen: Listen
) -> None:
    await start()
    deltas_published = await listen("response.delta")
    ollama.script(
        Reply(content="Let me see. ", tool_calls=(RECALL_NAME,)),
        Reply(content="One two three four five."),
    )
    shown: list[str] = []

    turn = await client.ask("Count!", caller=RICHARD, on_delta=shown.append)
    deltas = [decode(message.data, Delta).payload for message in deltas_published]

    assert [delta.index for delta in deltas] == list(range(len(deltas)))
    assert {(delta.session_id, delta.query_id) for delta in deltas} == {("s1", turn.query_id)}
    assert "".join(delta.text for delta in deltas).endswith(turn.answer)
    assert "".join(shown).endswith("One two three four five.")
    assert turn.answer == "One two three four five."
    assert len(deltas) > 5


@pytest.mark.usefixtures("tools")
async def test_a_failing_and_a_missing_tool_become_messages_to_the_model(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    await start()
    ollama.script(
        Reply(tool_calls=(("recall_topic", {"key": "user.name"}), ("open_door", {"door": "red"}))),
        Reply(content="I cannot."),
    )

    turn = await client.ask("Open the door.", caller=RICHARD)

    failing, missing = (m for m in message_lists(ollama)[-1] if m["role"] == "tool")
    assert failing["content"].startswith("Error (invalid_arguments): Object ")
    assert failing["tool_name"] == "recall_topic"
    names = ", ".join(sorted(_offered_tools(memory)))
    assert missing["content"] == f"Error: no tool open_door. Tools: {names}."
    assert [call.ok for call in turn.tool_calls] == [False, False]
    assert turn.answer == "I cannot."


@pytest.mark.usefixtures("tools", "memory_agent")
@pytest.mark.parametrize("written", ['{"topic": ', "[1]", "user.name"])
async def test_arguments_that_are_no_json_object_become_a_message_to_the_model(
    bus: Connection, client: QueryClient, openai: OpenAIStandIn, written: str
) -> None:
    call = {"index": 0, "function": {"name": "recall_topic", "arguments": written}}
    choice = {"delta": {"tool_calls": [call]}, "finish_reason": "tool_calls"}
    asked = b"data: " + msgspec.json.encode({"choices": [choice]}) + b"\n\n"
    openai.script(Reply(raw=asked), Reply(content="Which topic?"))
    endpoint = Endpoint(url=openai.url, key=None, settings="config/generator.yaml")
    model = await OpenAIModel.open("gemma4", temperature=0, endpoint=endpoint)
    async with GeneratorAgent(bus, model, GeneratorSettings()):
        turn = await client.ask("What is it?", caller=RICHARD)
    await model.close()

    (told,) = [m for m in openai.bodies("chat/completions")[-1]["messages"] if m["role"] == "tool"]
    assert told["content"].startswith("Error (invalid_arguments): The arguments of recall_topic")
    assert [(call.name, call.ok) for call in turn.tool_calls] == [("recall_topic", False)]
    assert turn.answer == "Which topic?"


class NoArgs(msgspec.Struct):
    pass


async def test_a_tool_timeout_becomes_a_message_to_the_model(
    bus: Connection, start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    may_finish = asyncio.Event()

    async def wait(_: Caller, args: NoArgs) -> ToolOutput:
        await may_finish.wait()
        return ToolOutput(content="late", data=args)

    tool = Tool(name="slow", description="Slow.", version="1.0.0", args=NoArgs, run=wait)
    async with ToolHost(bus, tool):
        await start(tools=1, tool_timeout=0.1)
        ollama.script(Reply(tool_calls=(("slow", {}),)), Reply(content="It hangs."))

        turn = await client.ask("Try it.", caller=RICHARD)
        may_finish.set()

    (tool_message,) = (m for m in message_lists(ollama)[-1] if m["role"] == "tool")
    assert (
        tool_message["content"]
        == "Error (unavailable): The tool 'slow' did not answer within 0.1 s."
    )
    assert turn.answer == "It hangs."


async def test_long_tool_results_do_not_prevent_the_publication_of_a_turn(
    bus: Connection, start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    async def read_book(_: Caller, args: NoArgs) -> ToolOutput:
        return ToolOutput(content="word " * 100_000, data=args)

    tool = Tool(name="book", description="A book.", version="1.0.0", args=NoArgs, run=read_book)
    async with ToolHost(bus, tool):
        await start(tools=1, context_size=1_000_000)
        ollama.script(Reply(tool_calls=(("book", {}),) * 3), Reply(content="I have read it."))

        turn = await client.ask("Read.", caller=RICHARD, timeout=20)

    results = [m["content"] for m in message_lists(ollama)[-1] if m["role"] == "tool"]
    assert [len(content) for content in results] == [500_000] * 3, "the model gets all of it"
    assert turn.answer == "I have read it."
    assert all(call.content.startswith("word word") for call in turn.tool_calls)


@pytest.mark.usefixtures("tools")
async def test_after_the_last_round_the_model_must_answer_without_tools(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(max_rounds=2)
    ollama.responder = lambda _, tools: (
        Reply(tool_calls=(RECALL_NAME,)) if tools else Reply(content="I give up.")
    )

    turn = await client.ask("Who am I?", caller=RICHARD)

    assert turn.answer == "I give up."
    assert len(turn.tool_calls) == 2
    assert [bool(tools) for tools in offered(ollama)] == [True, True, False]


@pytest.mark.usefixtures("tools")
async def test_a_model_that_only_calls_tools_ends_the_turn_with_an_error_that_names_the_setting(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(max_rounds=2)
    ollama.responder = lambda _messages, _tools: Reply(tool_calls=(RECALL_NAME,))

    turn = await client.ask("Who am I?", caller=RICHARD)

    assert turn.error is not None
    assert "max_rounds" in turn.error.message
    assert len(turn.tool_calls) == 2


@pytest.mark.usefixtures("tools")
async def test_a_model_failure_ends_the_turn_with_an_error_and_the_query_is_remembered(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    await start()
    ollama.fail_next(error="out of memory")

    failed = await client.ask("Hello?", caller=RICHARD)
    tool_messages = await client.ask("Hello again?", caller=RICHARD)

    assert failed.error is not None
    assert failed.error.code == ModelError.code
    assert "out of memory" in failed.error.message
    assert failed.answer == ""
    assert tool_messages.answer == "Understood."
    assert [m["content"] for m in message_lists(ollama)[-1][1:]] == ["Hello again?"]
    await eventually(lambda: _turns_stored(memory, 1, failed=1))


async def _turns_stored(memory: Memory, expected: int, *, failed: int = 0) -> bool:
    """A turn has three records (episode, question, answer); a failed turn only its question."""
    return (await memory.ledger.counts()).records == 3 * expected + failed


def _offered_tools(memory: Memory) -> set[str]:
    """Return the memory's tools that models are offered by default."""
    return {tool.name for tool in memory_tools(Memories(memory)) if tool.for_models}


async def test_publication_of_a_turn_is_retried_until_the_stream_stores_it(
    bus: Connection, ollama: OllamaStandIn, logs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(publication, "ATTEMPTS", 100)
    monkeypatch.setattr(publication, "RETRY_DELAY", 0.01)

    def failures() -> int:
        return logs.read_text().count('"turn_not_stored"')

    before = failures()
    model = await OllamaModel.open("gemma4", temperature=0, context_size=8192, url=ollama.url)
    async with GeneratorAgent(bus, model, GeneratorSettings()):
        await bus.publish("query.received", b'{"payload": {"query": "Hello?"}}')
        await eventually(lambda: failures() > before)
        await ensure_streams(bus, "default")

    stored = await bus.client.jetstream().stream_info("local2-turns-default")
    assert stored.state.messages == 1
    await model.close()


async def test_each_session_has_its_own_history(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(tools=0)
    for text, session in (("one", "s1"), ("two", "s1"), ("three", "s2"), ("four", "s1")):
        await client.ask(text, caller=caller_named(None, session_id=session))

    texts = [
        [m["content"] for m in messages if m["role"] != "system"]
        for messages in message_lists(ollama)
    ]
    assert texts == [
        ["one"],
        ["one", "Understood.", "two"],
        ["three"],
        ["one", "Understood.", "two", "Understood.", "four"],
    ]
    assert {messages[0]["role"] for messages in message_lists(ollama)} == {"system"}


@pytest.mark.usefixtures("tools", "memory_agent")
async def test_a_query_right_after_the_start_has_all_tools(
    bus: Connection, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    model = await OllamaModel.open("gemma4", temperature=0, context_size=8192, url=ollama.url)
    async with GeneratorAgent(bus, model, GeneratorSettings()):
        await client.ask("Hello?", caller=RICHARD)
    await model.close()

    assert set(offered(ollama)[0]) == _offered_tools(memory)


async def test_turns_of_one_session_run_in_order_and_other_sessions_do_not_wait(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(tools=0)
    may_finish = threading.Event()
    ollama.script(Reply(content="First answer.", hold=may_finish))
    first = asyncio.create_task(client.ask("first", caller=RICHARD))
    await eventually(lambda: len(message_lists(ollama)) == 1)
    second = asyncio.create_task(client.ask("second", caller=RICHARD))

    other = await client.ask("other", caller=caller_named(None, session_id="s2"))

    assert other.answer == "Understood."
    assert not second.done()
    may_finish.set()
    await asyncio.gather(first, second)
    assert [m["content"] for m in message_lists(ollama)[-1][1:]] == [
        "first",
        "First answer.",
        "second",
    ]


@pytest.mark.usefixtures("tools")
async def test_the_settings_can_limit_the_tools(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(only=("recall_topic", "search_memory"))
    ollama.script(Reply(tool_calls=(SAVE_NAME,)))

    turn = await client.ask("I am Richard.", caller=RICHARD)

    assert offered(ollama)[0] == ["recall_topic", "search_memory"]
    assert turn.tool_calls[0].content.startswith("Error: no tool save_topic.")


@pytest.mark.usefixtures("tools")
async def test_hidden_tools_are_not_offered(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    await start(hidden_tools=("recall",))

    await client.ask("Hello?", caller=RICHARD)

    assert set(offered(ollama)[0]) == _offered_tools(memory) - {"recall"}


@pytest.mark.usefixtures("tools")
async def test_tools_act_for_the_user_of_the_query(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    await start()
    ollama.script(Reply(tool_calls=(SAVE_NAME,)))

    await client.ask("I am Richard.", caller=RICHARD)

    assert await memory.of(caller_named("richard")).recall_topic("user.name") == "Richard"
    assert await memory.of(caller_named("eve")).recall_topic("user.name") is None
    (version,) = await memory.ledger.facts.history("user", "richard", "user.name")
    assert (version.agent, version.session_id) == ("generator_agent", "s1")


@pytest.mark.parametrize(
    "query",
    [
        pytest.param(b"Hello?", id="broken JSON"),
        pytest.param(b'{"payload": {}}', id="no query"),
        pytest.param(b'{"payload": {"query": ""}}', id="empty"),
        pytest.param(b'{"payload": {"query": " \\n"}}', id="blank"),
        pytest.param(b'{"payload": {"query": null}}', id="null"),
    ],
)
async def test_an_invalid_query_is_refused_and_starts_no_turn(
    bus: Connection, start: StartGenerator, ollama: OllamaStandIn, listen: Listen, query: bytes
) -> None:
    await start(tools=0)
    generations = await listen("response.generation")

    await bus.publish("query.received", query)
    answer = await bus.request("query.received", query)

    refusal = decode(answer.data, ToolResult).payload
    assert refusal.error is not None
    assert refusal.error.code == "bad_request"
    assert refusal.error.message.endswith(QUERY_EXAMPLE)
    assert message_lists(ollama) == []
    assert generations == []


@pytest.mark.parametrize(
    "query",
    [
        b'{"user": "richard", "session_id": "s", "payload": {"query": " ", "query_id": "refused"}}',
        b'{"user": "richard", "id": "refused", "payload": {"session_id": "s"}}',
    ],
)
async def test_a_refused_query_that_nobody_requested_ends_as_a_turn_with_the_reason(
    bus: Connection, start: StartGenerator, listen: Listen, query: bytes
) -> None:
    await start(tools=0)
    generations = await listen("response.generation")

    await bus.publish("query.received", query)

    await eventually(lambda: len(generations) == 1)
    outcome = decode(generations[0].data, Generation)
    assert outcome.payload.error is not None
    assert outcome.payload.error.code == "bad_request"
    assert (outcome.user, outcome.session_id, outcome.query_id) == ("richard", "s", "refused")
    assert (outcome.payload.session_id, outcome.payload.query_id) == ("s", "refused")


async def test_the_ids_of_a_query_may_be_in_its_envelope_or_are_made(
    bus: Connection, start: StartGenerator, listen: Listen
) -> None:
    await start(tools=0)
    generations = await listen("response.generation")

    for ids in ({"session_id": "s5", "query_id": "q5"}, {}):
        await bus.publish("query.received", json.dumps({**ids, "payload": {"query": "?"}}).encode())
    await eventually(lambda: len(generations) == 2)

    turns = [decode(message.data, Generation).payload for message in generations]
    made, given = sorted(turns, key=lambda turn: turn.session_id == "s5")
    assert (given.session_id, given.query_id) == ("s5", "q5")
    assert made.session_id
    assert made.query_id


async def test_a_query_published_twice_is_one_turn_in_the_stream(
    bus: Connection, start: StartGenerator, listen: Listen, memory: Memory
) -> None:
    await start(tools=0)
    generations: list[BusMessage] = await listen("response.generation")
    query = b'{"query_id": "q5", "session_id": "s5", "payload": {"query": "Hello?"}}'

    for _ in range(2):
        await bus.publish("query.received", query)
    await eventually(lambda: len(generations) == 2)

    await eventually(lambda: _turns_stored(memory, 1))
