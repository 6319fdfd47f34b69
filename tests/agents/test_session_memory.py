"""The GeneratorAgent shows, compresses, restores and compacts the conversations of sessions."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest

from calling import RICHARD, caller_named
from factories import Listen, StartGenerator
from local2.bus.connection import BusMessage, Connection
from local2.bus.tool_host import ToolHost
from local2.client.queries import QueryClient
from local2.conversation.events import MemoryResetEvent
from local2.generator.turn import ATTEMPTS
from local2.ledger.records import Fact
from local2.memory.intake.intake import Question
from local2.memory.tenant import Memories, Memory
from local2.protocol.envelope import Caller, Sender, decode, encode, seal, seal_from, utc_now
from local2.protocol.memory_tools import LOAD_SESSION
from local2.protocol.payloads import ClearSession, Json, Query, ToolResult
from local2.tools.catalog import bind
from stand_ins.ollama_server import OllamaStandIn, Reply
from waiting import eventually

SMALL = 600
"""Context size in tokens; a dozen turns fill it."""


@pytest.fixture
async def load_session_tool(bus: Connection, memory: Memory) -> AsyncIterator[None]:
    async with ToolHost(bus, bind(LOAD_SESSION, Memories(memory))):
        yield


def last_chat(ollama: OllamaStandIn) -> tuple[str, list[str]]:
    """Return the last system message sent to the model, and the texts after it."""
    system, *texts = ollama.bodies("/api/chat")[-1]["messages"]
    assert system["role"] == "system"
    return system["content"], [message["content"] for message in texts]


async def stored(memory: Memory, count: int) -> None:
    """Wait until the MemoryAgent has stored `count` messages of the session."""

    async def all_stored() -> bool:
        return len((await memory.of(RICHARD).sessions.load(None, 1_000)).messages) == count

    await eventually(all_stored)


async def test_above_the_limit_the_model_is_sent_four_messages_and_told_to_recall(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(tools=0, context_size=SMALL)
    for number in range(40):
        await client.ask(f"Question {number} of many that fill a context", caller=RICHARD)

    system, texts = last_chat(ollama)

    assert "Call recall" in system
    assert texts == [
        "Question 37 of many that fill a context",
        "Understood.",
        "Question 38 of many that fill a context",
        "Understood.",
        "Question 39 of many that fill a context",
    ]


async def test_no_prompt_exceeds_its_share_of_the_context(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    """The stand-in accepts every prompt, so no refusal makes one smaller."""
    agent = await start(tools=0, context_size=SMALL)
    for number in range(30):
        turn = await client.ask(f"Question {number}: {'word ' * 30 * (number % 8)}", caller=RICHARD)
        assert turn.error is None

    sizes = [ollama.tokens_of(body) for body in ollama.bodies("/api/chat")]
    assert len(sizes) == 30
    assert max(sizes) <= SMALL * agent._settings.compressed_above


@pytest.mark.usefixtures("load_session_tool")
@pytest.mark.parametrize("query_id", ["q1", None], ids=["with its query id", "without one"])
async def test_a_question_received_before_its_turn_is_not_restored_beside_it(
    bus: Connection,
    start: StartGenerator,
    ollama: OllamaStandIn,
    memory: Memory,
    query_id: str | None,
) -> None:
    question = "What is my pin?"
    received = Question(
        text=question, at=utc_now(), session_id="s1", query_id=query_id, named=query_id is not None
    )
    await memory.of(RICHARD).intake.store_question(received)
    await start(tools=1)

    query = Query(query=question, session_id="s1", query_id=query_id)
    sender = Sender(user="richard", agent="shell")
    await bus.publish("query.received", encode(seal_from(sender, query, type="query")))

    await eventually(lambda: ollama.bodies("/api/chat"))
    assert last_chat(ollama)[1] == [question]


@pytest.mark.usefixtures("load_session_tool")
async def test_a_restored_session_includes_its_tool_calls(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    first = await start(tools=1)
    ollama.script(
        Reply(tool_calls=(("weather", {"town": "Bern"}),)), Reply(content="No such tool.")
    )
    await client.ask("How is the weather?", caller=RICHARD)
    await first.__aexit__(None, None, None)
    await stored(memory, 4)

    await start(tools=1)
    await client.ask("And now?", caller=RICHARD)

    messages: list[dict[str, Any]] = ollama.bodies("/api/chat")[-1]["messages"]
    assert [m["role"] for m in messages[1:]] == ["user", "assistant", "tool", "assistant", "user"]
    (call,) = messages[2]["tool_calls"]
    assert call["function"] == {"name": "weather", "arguments": {"town": "Bern"}}
    assert messages[3]["tool_name"] == "weather"


@pytest.mark.usefixtures("tools")
async def test_notes_and_important_memories_are_in_every_prompt(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    richard = memory.of(RICHARD)
    await richard.facts.store(
        Fact(content="Richard is allergic to nuts.", scope="user", importance=0.9)
    )
    await start()
    await client.ask("Hello", caller=RICHARD)
    await richard.sessions.note("The cake is ordered.", "planner")
    await client.ask("Go on", caller=RICHARD)

    system, _ = last_chat(ollama)

    assert "- Richard is allergic to nuts." in system
    assert "planner: The cake is ordered." in system


async def test_a_prompt_that_the_model_refuses_is_shortened(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, listen: Listen
) -> None:
    compactions = await listen("session.compaction")
    await start(tools=0)
    for number in range(8):
        await client.ask(f"Question {number}: {'word ' * 100}", caller=RICHARD)
    ollama.context_tokens = 600

    turn = await client.ask("What now?", caller=RICHARD)

    assert (turn.answer, turn.error) == ("Understood.", None)
    assert last_chat(ollama)[1][-1] == "What now?"
    await eventually(lambda: len(compactions) >= 2)
    statuses = [decode(event.data, Json).payload["status"] for event in compactions]
    assert statuses[:2] == ["started", "completed"]


async def test_a_prompt_reaches_its_smallest_size_in_a_few_calls_of_the_model(
    tools: Memory, start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start()
    question = "word " * 500
    await client.ask(question, caller=RICHARD)
    only_end_shown = 70  # tokens that tell the model to recall what it does not see
    ollama.context_tokens = ollama.tokens_of(ollama.bodies("/api/chat")[-1]) + only_end_shown
    for number in range(15):
        text = f"Rule {number}: {f'word{number} ' * 60}"
        fact = Fact(content=text, scope="user", durability="core", memory_type="instruction")
        await tools.of(RICHARD).facts.store(fact)

    turn = await client.ask(question, caller=caller_named("richard", session_id="s2"))

    sizes = list(map(ollama.tokens_of, ollama.bodies("/api/chat")))[1:]
    assert (turn.answer, turn.error) == ("Understood.", None)
    assert 2 < len(sizes) <= ATTEMPTS


async def test_a_question_that_never_fits_is_an_error_and_is_dropped_from_the_session(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(tools=0)
    ollama.context_tokens = 10

    turn = await client.ask("word " * 500, caller=RICHARD)

    assert turn.error is not None
    assert turn.error.message.startswith("Even the shortest prompt for this question")
    assert "context length" in turn.error.message
    assert len(ollama.bodies("/api/chat")) <= ATTEMPTS
    ollama.context_tokens = None
    await client.ask("And now?", caller=RICHARD)
    assert last_chat(ollama)[1] == ["And now?"]


async def test_a_long_conversation_is_summarised_by_the_model_and_announced(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, listen: Listen
) -> None:
    compactions = await listen("session.compaction")
    await start(tools=0, compaction_threshold=400)
    ollama.responder = lambda messages, _: Reply(
        content="They counted." if messages[0]["content"].startswith("Summarise") else "Understood."
    )

    for number in range(12):
        await client.ask(f"Question {number}: {'word ' * 30}", caller=RICHARD)

    await eventually(lambda: len(compactions) >= 2)
    done = decode(compactions[1].data, Json).payload
    assert (done["status"], done["session_id"], done["agent_name"]) == (
        "completed",
        "s1",
        "generator_agent",
    )
    assert done["post_tokens"] < done["pre_tokens"]
    assert "They counted." in "\n".join(last_chat(ollama)[1])


async def test_the_models_token_counts_decide_when_a_conversation_is_compressed(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(tools=0, context_size=2_000)
    ollama.tokens_a_character = 1.0
    for number in range(12):
        await client.ask(f"Question {number}: {'word ' * 20}", caller=RICHARD)

    assert "Call recall" in last_chat(ollama)[0]


@pytest.mark.usefixtures("load_session_tool")
async def test_a_compressed_prompt_keeps_the_last_answer_with_its_question_and_results(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn
) -> None:
    await start(tools=1, only=("load_session",), context_size=1_500)
    for number in range(12):
        await client.ask(f"Question {number}: {'word ' * 40}", caller=RICHARD)
    calls = (("load_session", {"limit": 0}),) * 4
    ollama.script(Reply(tool_calls=calls), Reply(content="Nothing."))

    await client.ask("What is noted?", caller=RICHARD)
    await client.ask("And now?", caller=RICHARD)

    system, *shown = ollama.bodies("/api/chat")[-1]["messages"]
    assert "Call recall" in system["content"]
    assert [m["role"] for m in shown[-8:]] == [
        "user",
        "assistant",
        *["tool"] * 4,
        "assistant",
        "user",
    ]
    assert [m["content"] for m in shown if m["role"] == "user"] == ["What is noted?", "And now?"]


async def clear(bus: Connection, caller: Caller) -> ToolResult:
    request = seal(
        ClearSession(),
        type="request",
        source="shell",
        user=caller.user,
        session_id=caller.session_id,
    )
    answer = await bus.request("session.clear", encode(request))
    return decode(answer.data, ToolResult).payload


@pytest.mark.usefixtures("load_session_tool")
async def test_a_cleared_session_starts_empty_and_the_reset_is_announced(
    bus: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    listen: Listen,
) -> None:
    resets = await listen("session.reset")
    await start(tools=1)
    await client.ask("My pin is 4714.", caller=RICHARD)
    eve = caller_named("eve", agent="shell", session_id="s1")
    await client.ask("My pin is 1111.", caller=eve)

    assert (await clear(bus, RICHARD)).ok

    await client.ask("What is my pin?", caller=RICHARD)
    assert last_chat(ollama)[1] == ["What is my pin?"]
    await client.ask("And mine?", caller=eve)
    assert last_chat(ollama)[1] == ["My pin is 1111.", "Understood.", "And mine?"]
    await eventually(lambda: resets)
    reset = decode(resets[0].data, MemoryResetEvent)
    assert (reset.user, reset.payload.session_id) == ("richard", "s1")
    assert len(resets) == 1


@pytest.mark.usefixtures("load_session_tool")
async def test_a_cleared_session_starts_empty_whichever_generator_answers(
    bus: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    memory: Memory,
) -> None:
    agents = [await start(tools=1, is_shared=True) for _ in range(2)]
    said: list[str] = []

    async def ask_until_both_have_answered() -> None:
        answered = before = [agent._endpoints[0].requests for agent in agents]
        while any(now < then + 2 for now, then in zip(answered, before, strict=True)):
            question = f"Question {len(said)}"
            await client.ask(question, caller=RICHARD)  # the server chooses who answers
            assert last_chat(ollama)[1] == [*said[cleared:], question]
            said.extend((question, "Understood."))
            await stored(memory, len(said))
            answered = [agent._endpoints[0].requests for agent in agents]

    cleared = 0
    await ask_until_both_have_answered()
    assert (await clear(bus, RICHARD)).ok
    cleared = len(said)
    await ask_until_both_have_answered()


async def test_clearing_without_a_session_is_refused(
    bus: Connection, start: StartGenerator
) -> None:
    await start(tools=0)

    refused = await clear(bus, caller_named("richard"))

    assert refused.error is not None
    assert refused.error.code == "invalid_arguments"


@pytest.mark.parametrize(
    "answer",
    [
        pytest.param({"ok": False, "content": "The disk is full."}, id="an error"),
        pytest.param({"ok": True, "content": "", "data": {"messages": "many"}}, id="nonsense"),
    ],
)
async def test_a_session_that_cannot_be_loaded_starts_empty(
    bus: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    answer: dict[str, Any],
) -> None:
    async def reply(message: BusMessage) -> None:
        await bus.publish(message.reply, json.dumps({"payload": answer}).encode())

    await bus.subscribe("tool.request.load_session", reply)
    await start(tools=0)

    turn = await client.ask("Hello", caller=RICHARD)

    assert (turn.answer, turn.error) == ("Understood.", None)
    assert last_chat(ollama)[1] == ["Hello"]


async def test_loading_a_session_is_retried_in_its_next_turn(
    bus: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    memory: Memory,
) -> None:
    before = await start(tools=0)
    await client.ask("My pin is 4714.", caller=RICHARD)
    await stored(memory, 2)
    await before.leave()
    await start(tools=0)
    await client.ask("Hello", caller=RICHARD)
    assert last_chat(ollama)[1] == ["Hello"]
    await stored(memory, 4)

    async with ToolHost(bus, bind(LOAD_SESSION, Memories(memory))):
        await client.ask("What is my pin?", caller=RICHARD)

    conversation = ["My pin is 4714.", "Understood.", "Hello", "Understood.", "What is my pin?"]
    assert last_chat(ollama)[1] == conversation
    await client.ask("And now?", caller=RICHARD)
    assert last_chat(ollama)[1] == [*conversation, "Understood.", "And now?"]


async def test_a_turn_that_fails_after_being_summarised_leaves_nothing_behind(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, listen: Listen
) -> None:
    compactions = await listen("session.compaction")
    await start(tools=0, max_rounds=9)
    await client.ask("Good morning", caller=RICHARD)

    def respond(messages: list[Json], _: list[Json]) -> Reply:
        if messages[0]["content"].startswith("Summarise"):
            return Reply(content="A summary of a secret.")
        if ollama.context_tokens is not None:
            return Reply(raw=b"broken")
        if len(messages) == 10:
            ollama.context_tokens = 600
        return Reply(content="A secret. " * 50, tool_calls=(("weather", {}),))

    ollama.responder = respond
    failed = await client.ask("How is the weather?", caller=RICHARD)
    await eventually(lambda: len(compactions) >= 2)
    ollama.responder = ollama.context_tokens = None
    await client.ask("And now?", caller=RICHARD)

    assert failed.error is not None
    assert last_chat(ollama)[1] == ["Good morning", "Understood.", "And now?"]


async def test_a_session_in_use_is_not_evicted_by_others(
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("local2.generator.agent.MAX_SESSIONS", 1)
    await start(tools=0)
    may_finish = threading.Event()
    ollama.script(Reply(content="First answer.", hold=may_finish))
    first = asyncio.create_task(client.ask("first", caller=RICHARD))
    await eventually(lambda: ollama.bodies("/api/chat"))
    for number in range(3):
        await client.ask("other", caller=caller_named(None, session_id=f"other {number}"))

    second = asyncio.create_task(client.ask("second", caller=RICHARD))
    await client.ask("other", caller=caller_named(None, session_id="other"))
    may_finish.set()
    await asyncio.gather(first, second)

    assert last_chat(ollama)[1] == ["first", "First answer.", "second"]


async def test_the_least_recently_used_sessions_are_evicted(
    start: StartGenerator, client: QueryClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("local2.generator.agent.MAX_SESSIONS", 2)
    agent = await start(tools=0)

    for number in range(5):
        await client.ask("Hello", caller=caller_named("richard", session_id=str(number)))

    await eventually(lambda: set(agent._sessions) == {("richard", "3"), ("richard", "4")})


async def test_summarised_messages_are_not_kept_in_the_working_memory(
    start: StartGenerator, client: QueryClient
) -> None:
    agent = await start(tools=0, compaction_threshold=400)
    for number in range(30):
        await client.ask(f"Question {number}: {'word ' * 30}", caller=RICHARD)

    memory = agent._sessions["richard", "s1"].conversation
    async with agent._sessions["richard", "s1"].turn:
        assert len(memory) == len(memory.context) < 20


@pytest.mark.usefixtures("tools")
async def test_an_important_memory_larger_than_the_context_does_not_fail_the_turn(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, memory: Memory
) -> None:
    await memory.of(RICHARD).facts.store(
        Fact(content="Nuts are bad. " * 4_000, scope="user", importance=0.9)
    )
    agent = await start()
    ollama.context_tokens = agent._settings.context_size

    turn = await client.ask("Hello", caller=RICHARD)

    assert (turn.answer, turn.error) == ("Understood.", None)
    assert "- Nuts are bad. Nuts are bad." in last_chat(ollama)[0]
