"""The GeneratorAgent: from a query over models and tools to one finished turn."""

import asyncio
import json
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from calling import RICHARD
from factories import Listen, StartGenerator
from local.bus.connection import BusMessage, Connection
from local.bus.streams import ensure_streams
from local.bus.tool_host import ToolHost
from local.client.queries import QueryClient
from local.errors import ModelError
from local.generator import publication
from local.generator.agent import GeneratorAgent
from local.llm.ollama import OllamaModel
from local.llm.rules import RulesModel
from local.memory.tenant import Memories, Memory
from local.protocol.envelope import Caller, decode
from local.protocol.generation import QUERY_EXAMPLE
from local.protocol.payloads import Delta, Generation, ToolResult
from local.protocol.tool import Tool, ToolOutput
from local.settings import GeneratorSettings
from local.tools.catalog import memory_tools
from stand_ins.ollama_server import OllamaStandIn, Reply
from waiting import eventually

SAVE_NAME = ("save_topic", {"topic": "user.name", "content": "Richard"})
RECALL_NAME = ("recall_topic", {"topic": "user.name"})


def chats(ollama: OllamaStandIn) -> list[list[dict[str, Any]]]:
    """The messages that the model was given, chat by chat."""
    return [body["messages"] for body in ollama.bodies("/api/chat")]


def offered(ollama: OllamaStandIn) -> list[list[str]]:
    """The names of the tools that the model was offered, chat by chat."""
    return [
        [tool["function"]["name"] for tool in body.get("tools") or []]
        for body in ollama.bodies("/api/chat")
    ]


@pytest.mark.usefixtures("tools")
async def test_a_turn_says_everything_about_itself(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, listen: Listen
) -> None:
    await start()
    heard = await listen("response.generation")
    ollama.script(
        Reply(thinking="A name.", tool_calls=(SAVE_NAME,)), Reply(content="Nice to meet you.")
    )

    turn = await client.ask("I am Richard.", caller=RICHARD)

    await eventually(lambda: heard)
    envelope = decode(heard[0].data, Generation)
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
    }
    assert (call.name, call.args, call.ok) == (*SAVE_NAME, True)
    assert call.content == "Memory saved: user.name"


@pytest.mark.usefixtures("tools")
async def test_the_pieces_of_an_answer_come_in_order_and_make_it_up(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, listen: Listen
) -> None:
    await start()
    heard = await listen("response.delta")
    ollama.script(
        Reply(content="Let me see. ", tool_calls=(RECALL_NAME,)),
        Reply(content="One two three four five."),
    )
    shown: list[str] = []

    turn = await client.ask("Count!", caller=RICHARD, on_delta=shown.append)
    deltas = [decode(message.data, Delta).payload for message in heard]

    assert [delta.index for delta in deltas] == list(range(len(deltas)))
    assert {(delta.session_id, delta.query_id) for delta in deltas} == {("s1", turn.query_id)}
    assert "".join(delta.text for delta in deltas).endswith(turn.answer)
    assert "".join(shown).endswith("One two three four five.")
    assert turn.answer == "One two three four five."
    assert len(deltas) > 5


@pytest.mark.usefixtures("tools")
async def test_several_tools_are_called_at_once_and_answered_in_order(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start()
    ollama.script(
        Reply(tool_calls=(SAVE_NAME,)),
        Reply(tool_calls=(RECALL_NAME, ("recall_topic", {"topic": "user.age"}))),
        Reply(content="You are Richard."),
    )

    turn = await client.ask("Who am I?", caller=RICHARD)

    answered = [m for m in chats(ollama)[-1] if m["role"] == "tool"]
    assert [m["content"] for m in answered] == [
        "Memory saved: user.name",
        "[Memory: user.name] Richard",
        "No memories found.",
    ]
    assert {call.args["topic"] for call in turn.tool_calls} == {"user.name", "user.age"}


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

    failing, missing = (m for m in chats(ollama)[-1] if m["role"] == "tool")
    assert failing["content"].startswith("Error (invalid_arguments): Object ")
    assert failing["tool_name"] == "recall_topic"
    names = ", ".join(sorted(_offered_tools(memory)))
    assert missing["content"] == f"Error: no tool open_door. Tools: {names}."
    assert [call.ok for call in turn.tool_calls] == [False, False]
    assert turn.answer == "I cannot."


class NoArgs(msgspec.Struct):
    pass


async def test_a_tool_that_takes_too_long_becomes_a_message_to_the_model(
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

    (told,) = (m for m in chats(ollama)[-1] if m["role"] == "tool")
    assert told["content"] == "Error (unavailable): The tool 'slow' did not answer within 0.1 s."
    assert turn.answer == "It hangs."


async def test_tools_that_say_a_lot_do_not_keep_a_turn_from_being_published(
    bus: Connection, start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    async def tell(_: Caller, args: NoArgs) -> ToolOutput:
        return ToolOutput(content="word " * 100_000, data=args)

    tool = Tool(name="book", description="A book.", version="1.0.0", args=NoArgs, run=tell)
    async with ToolHost(bus, tool):
        await start(tools=1, context_size=1_000_000)
        ollama.script(Reply(tool_calls=(("book", {}),) * 3), Reply(content="I have read it."))

        turn = await client.ask("Read.", caller=RICHARD, timeout=20)

    told = [m["content"] for m in chats(ollama)[-1] if m["role"] == "tool"]
    assert [len(content) for content in told] == [500_000] * 3, "the model gets all of it"
    assert turn.answer == "I have read it."
    assert all(call.content.startswith("word word") for call in turn.tool_calls)


async def test_a_tool_that_left_the_bus_becomes_a_message_to_the_model(
    bus: Connection,
    memory: Memory,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
) -> None:
    async with ToolHost(bus, memory_tools(Memories(memory))[1]):
        await start(tools=1)
    ollama.script(Reply(tool_calls=(RECALL_NAME,)), Reply(content="It is gone."))

    turn = await client.ask("Who am I?", caller=RICHARD)

    assert turn.tool_calls[0].content.startswith("Error (unknown_tool): ")


@pytest.mark.usefixtures("tools")
async def test_after_the_last_round_the_model_has_to_answer_without_tools(
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
async def test_a_model_that_fails_ends_the_turn_with_an_error_and_the_question_is_remembered(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    await start()
    ollama.fail_next(error="out of memory")

    failed = await client.ask("Hello?", caller=RICHARD)
    answered = await client.ask("Hello again?", caller=RICHARD)

    assert failed.error is not None
    assert failed.error.code == ModelError.code
    assert "out of memory" in failed.error.message
    assert failed.answer == ""
    assert answered.answer == "Understood."
    assert [m["content"] for m in chats(ollama)[-1][1:]] == ["Hello again?"]
    await eventually(lambda: _turns(memory, 1, failed=1))


async def _turns(memory: Memory, expected: int, *, failed: int = 0) -> bool:
    """A turn is an episode, a question and an answer; one that failed is a question."""
    return (await memory.ledger.counts()).records == 3 * expected + failed


def _offered_tools(memory: Memory) -> set[str]:
    """What a model is offered of the memory's tools, unless settings say something else."""
    return {tool.name for tool in memory_tools(Memories(memory)) if tool.for_models}


@pytest.mark.usefixtures("tools")
async def test_an_answered_turn_is_remembered(
    start: StartGenerator, client: QueryClient, memory: Memory, ollama: OllamaStandIn
) -> None:
    await start()
    ollama.script(Reply(content="Au."))
    await client.ask("Symbol of gold?", caller=RICHARD)
    await eventually(lambda: _turns(memory, 1))

    found = await memory.of(RICHARD).search_episodic("gold")
    assert [hit.content for hit in found.hits] == ["Q: Symbol of gold?\nA: Au."]


async def test_a_turn_is_published_again_until_the_stream_takes_it(
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


async def test_a_session_has_a_history_of_its_own(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(tools=0)
    for text, session in (("one", "s1"), ("two", "s1"), ("three", "s2"), ("four", "s1")):
        await client.ask(text, caller=Caller(tenant="default", session_id=session))

    said = [[m["content"] for m in messages if m["role"] != "system"] for messages in chats(ollama)]
    assert said == [
        ["one"],
        ["one", "Understood.", "two"],
        ["three"],
        ["one", "Understood.", "two", "Understood.", "four"],
    ]
    assert {messages[0]["role"] for messages in chats(ollama)} == {"system"}


async def test_a_session_of_the_same_id_is_another_one_for_another_user(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(tools=0)
    await client.ask("My pin is 4714.", caller=RICHARD)
    await client.ask(
        "What is my pin?", caller=Caller(tenant="default", user="eve", session_id="s1")
    )

    assert [m["content"] for m in chats(ollama)[-1][1:]] == ["What is my pin?"]


@pytest.mark.usefixtures("tools", "memory_agent")
async def test_a_query_that_comes_at_once_has_the_tools_all_the_same(
    bus: Connection, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    model = await OllamaModel.open("gemma4", temperature=0, context_size=8192, url=ollama.url)
    async with GeneratorAgent(bus, model, GeneratorSettings()):
        await client.ask("Hello?", caller=RICHARD)
    await model.close()

    assert set(offered(ollama)[0]) == _offered_tools(memory)


async def test_turns_of_one_session_follow_each_other_and_others_do_not_wait(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(tools=0)
    may_finish = threading.Event()
    ollama.script(Reply(content="First answer.", hold=may_finish))
    first = asyncio.create_task(client.ask("first", caller=RICHARD))
    await eventually(lambda: len(chats(ollama)) == 1)
    second = asyncio.create_task(client.ask("second", caller=RICHARD))

    other = await client.ask("other", caller=Caller(tenant="default", session_id="s2"))

    assert other.answer == "Understood."
    assert not second.done()
    may_finish.set()
    await asyncio.gather(first, second)
    assert [m["content"] for m in chats(ollama)[-1][1:]] == ["first", "First answer.", "second"]


@pytest.mark.usefixtures("tools")
async def test_the_settings_may_limit_the_tools(
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

    assert (
        await memory.of(Caller(tenant="default", user="richard")).recall_topic("user.name")
        == "Richard"
    )
    assert await memory.of(Caller(tenant="default", user="eve")).recall_topic("user.name") is None
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
async def test_what_is_no_query_is_refused_and_no_turn(
    bus: Connection, start: StartGenerator, ollama: OllamaStandIn, listen: Listen, query: bytes
) -> None:
    await start(tools=0)
    heard = await listen("response.generation")

    await bus.publish("query.received", query)
    answer = await bus.request("query.received", query)

    refusal = decode(answer.data, ToolResult).payload
    assert refusal.error is not None
    assert refusal.error.code == "bad_request"
    assert refusal.error.message.endswith(QUERY_EXAMPLE)
    assert chats(ollama) == []
    assert heard == []


async def test_a_query_without_ids_gets_some(
    bus: Connection, start: StartGenerator, listen: Listen
) -> None:
    await start(tools=0)
    heard = await listen("response.generation")

    await bus.publish("query.received", b'{"payload": {"query": "Hello?"}}')
    await eventually(lambda: heard)

    turn = decode(heard[0].data, Generation).payload
    assert turn.session_id
    assert turn.query_id


async def test_the_ids_of_a_query_may_stand_in_its_envelope(
    bus: Connection, start: StartGenerator, listen: Listen
) -> None:
    await start(tools=0)
    heard = await listen("response.generation")
    query = {"session_id": "s5", "query_id": "q5", "payload": {"query": "Hello?"}}

    await bus.publish("query.received", json.dumps(query).encode())
    await eventually(lambda: heard)

    turn = decode(heard[0].data, Generation).payload
    assert (turn.session_id, turn.query_id) == ("s5", "q5")


async def test_a_query_asked_twice_is_one_turn_in_the_stream(
    bus: Connection, start: StartGenerator, listen: Listen, memory: Memory
) -> None:
    await start(tools=0)
    heard: list[BusMessage] = await listen("response.generation")
    query = b'{"query_id": "q5", "session_id": "s5", "payload": {"query": "Hello?"}}'

    for _ in range(2):
        await bus.publish("query.received", query)
    await eventually(lambda: len(heard) == 2)

    await eventually(lambda: _turns(memory, 1))


@pytest.mark.usefixtures("tools", "memory_agent")
async def test_without_a_model_the_rules_remember_and_recall(
    bus: Connection, client: QueryClient, memory: Memory
) -> None:
    async with GeneratorAgent(bus, RulesModel(), GeneratorSettings()) as agent:
        await eventually(lambda: len(agent._toolbox.schemas) == len(memory_tools(Memories(memory))))
        saved = await client.ask("Remember that my preferred language is Elixir.", caller=RICHARD)
        recalled = await client.ask(
            "What language do I prefer?",
            caller=Caller(tenant="default", user="richard", session_id="s2"),
        )

    assert [call.name for call in saved.tool_calls] == ["save_topic"]
    assert "Elixir" in recalled.answer
    assert [call.name for call in recalled.tool_calls] == ["recall_topic"]
