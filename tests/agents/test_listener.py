"""The listener remembers queries and tool results once, as soon as it receives them."""

import json
from typing import Any

import pytest

from calling import RICHARD, caller_named
from factories import ConnectBus, StartGenerator
from local2.agents.listener import Listener
from local2.bus.connection import Connection, has_other_subscribers
from local2.bus.streams import publish_durably
from local2.bus.tool_host import ToolHost
from local2.client.queries import QueryClient
from local2.client.tools import call_tool
from local2.errors import NoRespondersError
from local2.ledger.engines.sqlite.database import Database
from local2.memory.tenant import Memories, Memory
from local2.protocol.envelope import decode
from local2.protocol.payloads import ToolResult
from local2.tools.catalog import memory_tools
from note_tool import Notes
from recalling import recall
from stand_ins.ollama_server import OllamaStandIn, Reply
from stored import records
from turns import GENERATION, all_done, turn
from waiting import eventually

QUESTION = "What is the symbol of gold?"


pytestmark = pytest.mark.usefixtures("listener", "memory_agent")


async def publish_query(bus: Connection, database: Database, **message: Any) -> None:
    """Publish a query, and wait until one more record is stored."""
    before = len(await records(database))
    await bus.publish("query.received", json.dumps(message).encode())
    await eventually(lambda: _has(database, before + 1))


async def publish_result(bus: Connection, database: Database, tool: str, **message: Any) -> None:
    """Publish a tool's result, and wait until one more is stored, whatever parts it has."""

    async def stored_results() -> int:
        return sum(row["kind"] == "tool_output" for row in await records(database))

    before = await stored_results()
    await bus.publish(f"tool.result.{tool}", json.dumps(message).encode())
    await eventually(stored_results, lambda found: found == before + 1)


async def _has(database: Database, count: int) -> bool:
    return len(await records(database)) == count


async def stored(database: Database) -> list[tuple[Any, ...]]:
    columns = ("kind", "role", "content", "session_id", "query_id")
    return [tuple(row[name] for name in columns) for row in await records(database)]


async def test_a_question_is_remembered_when_it_is_received(
    bus: Connection, memory: Memory, database: Database
) -> None:
    query = {"query": "I moved to Basel. Where is the city hall?", "query_id": "q1"}
    await publish_query(bus, database, user="richard", session_id="s1", payload=query)

    assert await stored(database) == [("chat_message", "user", query["query"], "s1", "q1")]
    assert await recall(memory.of(RICHARD), "Basel") == [query["query"]]
    loaded = await memory.of(RICHARD).sessions.load(None, 10)
    assert [message.content for message in loaded.messages] == [query["query"]]


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"payload": {"session_id": "s1", "query_id": "q1"}}, id="in the payload"),
        pytest.param({"session_id": "s1", "query_id": "q1"}, id="in the envelope"),
        pytest.param({"session_id": "s1", "id": "q1"}, id="the envelope's id"),
        pytest.param({"session_id": "s1", "id": "another"}, id="an id that the turn does not have"),
        pytest.param({"session_id": "s1"}, id="no query id"),
        pytest.param({"id": "q1"}, id="no session"),
        pytest.param({}, id="neither"),
    ],
)
async def test_a_turn_does_not_repeat_a_question_already_received(
    bus: Connection, database: Database, message: dict[str, Any]
) -> None:
    payload = {**message.get("payload", {}), "query": QUESTION}
    await publish_query(bus, database, **{**message, "user": "richard", "payload": payload})
    for _ in range(2):
        await publish_durably(bus, GENERATION, turn(query=QUESTION, tool_calls=[]))
        await all_done(bus)

    stored_roles = [(kind, role) for kind, role, *_ in await stored(database)]
    assert sorted(stored_roles) == [
        ("chat_message", "assistant"),
        ("chat_message", "user"),
        ("episode", None),
    ]
    (question,) = [one for one in await records(database) if one["role"] == "user"]
    assert (question["session_id"], question["query_id"], question["pending"]) == ("s1", "q1", 0)
    assert "unnamed" not in json.loads(question["metadata"])


async def test_an_answered_question_without_ids_that_is_repeated_is_a_new_question(
    bus: Connection, database: Database
) -> None:
    for query_id in ("q1", "q2"):
        await publish_query(
            bus, database, user="richard", session_id="s1", payload={"query": "yes"}
        )
        await publish_durably(bus, GENERATION, turn(query="yes", query_id=query_id, tool_calls=[]))
        await all_done(bus)

    assert [one[-1] for one in await stored(database) if one[1] == "user"] == ["q1", "q2"]


async def test_a_question_belongs_to_the_user_who_asked_it(
    bus: Connection, database: Database
) -> None:
    await publish_query(bus, database, user="eve", session_id="s1", payload={"query": QUESTION})
    await publish_durably(bus, GENERATION, turn(query=QUESTION, query_id="q9", tool_calls=[]))
    await all_done(bus)

    owners = [row["owner"] for row in await records(database) if row["role"] == "user"]
    assert owners == ["eve", "richard"]


async def test_a_query_that_no_generator_answers_is_refused_at_once(
    bus: Connection, listener: Listener, database: Database
) -> None:
    assert not await has_other_subscribers(listener.bus, "query.received", "listener")
    query = json.dumps({"user": "richard", "payload": {"query": QUESTION}}).encode()
    answer = decode((await bus.request("query.received", query, timeout=5)).data, ToolResult)

    assert answer.payload.error is not None
    assert answer.payload.error.code == "unavailable"
    assert "Nobody on the bus answers queries" in answer.payload.error.message
    assert [content for _, _, content, *_ in await stored(database)] == [QUESTION]
    async with QueryClient(bus) as client:
        with pytest.raises(NoRespondersError):
            await client.ask("Anybody there?", caller=RICHARD)


async def test_the_memory_does_not_answer_queries_of_another_generator(
    connect_bus: ConnectBus, bus: Connection, database: Database
) -> None:
    other = await connect_bus()

    async def answer(message: Any) -> None:
        await eventually(lambda: _has(database, 1))  # so the memory could have answered first
        await other.publish(message.reply, b"mine")

    await other.subscribe("query.received", answer, queue="theirs")
    await other.flush()
    query = json.dumps({"payload": {"query": QUESTION}}).encode()

    assert (await bus.request("query.received", query, timeout=5)).data == b"mine"


async def test_an_unreadable_question_that_no_generator_answers_is_refused(
    bus: Connection, database: Database
) -> None:
    answer = await bus.request("query.received", b"{}", timeout=5)

    assert decode(answer.data, ToolResult).payload.ok is False
    assert await records(database) == []


async def test_a_result_is_remembered_when_the_tool_returns(
    bus: Connection, memory: Memory, database: Database
) -> None:
    notes = Notes()
    notes.answer = "The scales say 19.3 g."
    async with ToolHost(bus, notes.tool()):
        result_ = await call_tool(bus, "note", {"text": "gold"}, caller=RICHARD)
        assert result_.ok, result_.content
        await eventually(lambda: _has(database, 1))

    (row,) = await records(database)
    assert (row["kind"], row["label"], row["content"]) == ("tool_output", "note", notes.answer)
    assert (row["owner"], row["session_id"], row["agent"]) == ("richard", "s1", "note")
    assert await recall(memory.of(RICHARD), "scales", kinds=("tool_output",)) == [notes.answer]


@pytest.mark.parametrize(
    "message",
    [
        pytest.param({"payload": {"ok": False, "content": "19.3 g"}}, id="an error"),
        pytest.param({"payload": {"result": "19.3 g", "args": {"metal": "gold"}}}, id="with args"),
    ],
)
async def test_a_result_is_stored_also_in_another_form_than_ours(
    bus: Connection, database: Database, message: dict[str, Any]
) -> None:
    await publish_result(bus, database, "weigh", user="richard", session_id="s1", **message)

    (row,) = await records(database)
    assert row["content"] == "19.3 g"
    assert json.loads(row["metadata"]).get("args") == message["payload"].get("args")


async def test_blank_results_and_those_without_a_session_or_of_the_memory_are_ignored(
    bus: Connection, memory: Memory, database: Database
) -> None:
    for tool in memory_tools(Memories(memory)):
        if tool.name in {"recall", "save_topic"}:
            await ToolHost(bus, tool).__aenter__()
    await call_tool(bus, "recall", {"query": "gold"}, caller=RICHARD)
    await call_tool(bus, "recall", {"query": ""}, caller=RICHARD)
    for incomplete in ({"payload": {"ok": True, "content": "x"}},
                    {"session_id": "s1", "payload": {"ok": True, "content": " "}}):  # fmt: skip
        await bus.publish("tool.result.weigh", json.dumps(incomplete).encode())
    await bus.publish("tool.result.weigh", b"\xff\xfe")
    await publish_result(
        bus, database, "recall", session_id="s1", payload={"content": "Not the memory"}
    )

    assert [row["content"] for row in await records(database)] == ["Not the memory"]


@pytest.mark.parametrize("session", [{"session_id": "s1"}, {}])
async def test_a_result_without_a_user_in_a_users_conversation_is_only_the_users(
    bus: Connection, database: Database, session: dict[str, str]
) -> None:
    """Tools of other teams need not repeat the user; without one, it would be everybody's."""
    query = {"query": QUESTION, "query_id": "q1"}
    await publish_query(bus, database, user="richard", **session, payload=query)
    await publish_query(bus, database, user="richard", payload={"query": "Without any id?"})
    result = {"session_id": "s1", "query_id": "q1", "payload": {"content": "Gold: 19.3 g"}}
    await bus.publish("tool.result.weigh", json.dumps(result).encode())
    other = {"session_id": "s2", "payload": {"content": "Nobody's"}}
    await publish_result(bus, database, "weigh", **other)

    calls = [{"name": "weigh", "id": "c1", "content": "Gold: 19.3 g"}]
    await publish_durably(bus, GENERATION, turn(query=QUESTION, tool_calls=calls))
    await all_done(bus)

    results = [row for row in await records(database) if row["kind"] == "tool_output"]
    assert [(row["owner"], row["content"]) for row in results] == [
        ("", "Nobody's"),
        ("richard", "Gold: 19.3 g"),
    ]


async def test_a_turn_does_not_repeat_a_result_already_received_but_adds_its_call(
    bus: Connection, database: Database
) -> None:
    envelope = {"user": "richard", "session_id": "s1"}
    for number in range(2):
        result = {**envelope, "correlation_id": f"r{number}", "payload": {"content": "19.3 g"}}
        await publish_result(bus, database, "weigh", **result)
    calls = [
        {"name": "weigh", "id": f"c{number}", "args": {"n": number}, "content": "19.3 g"}
        for number in range(3)
    ]
    for _ in range(2):
        await publish_durably(bus, GENERATION, turn(tool_calls=calls))
        await all_done(bus)

    results = [row for row in await records(database) if row["kind"] == "tool_output"]
    assert [row["source_ref"] for row in results] == ["c0", "c1", "c2"]
    assert {row["query_id"] for row in results} == {"q1"}
    assert [json.loads(row["metadata"])["args"]["n"] for row in results] == [0, 1, 2]


@pytest.mark.parametrize(
    "shorten",
    [
        pytest.param(lambda text: text[:10_000], id="cut"),
        pytest.param(
            lambda text: (
                f"[Output of {len(text)} characters, shortened; …]\n{text[:3750]}\n[…]\nend"
            ),
            id="a preview",
        ),
    ],
)
async def test_a_long_result_that_the_turn_shortens_is_stored_once(
    bus: Connection, database: Database, shorten: Any
) -> None:
    text = "".join(f"Line {number}\n" for number in range(3_000))
    payload = {"content": text}
    await publish_result(bus, database, "weigh", user="richard", session_id="s1", payload=payload)
    calls = [{"name": "weigh", "id": "c1", "content": shorten(text)}]
    for _ in range(2):
        await publish_durably(bus, GENERATION, turn(tool_calls=calls))
        await all_done(bus)

    (row,) = [row for row in await records(database) if row["kind"] == "tool_output"]
    assert (row["source_ref"], row["pending"]) == ("c1", 0)


@pytest.mark.parametrize(
    ("received", "reported"),
    [
        ({"pier": 9, "at": [10, 40]}, '{ "at": [10, 40],\n "pier": 9 }'),
        ("Gold\n19.3 g\n", "Gold\n19.3 g"),
        (f"{'[' * 1_400}{']' * 1_400}\n", f"{'[' * 1_400}{']' * 1_400}"),
    ],
    ids=["JSON", "blanks", "too deep"],
)
async def test_a_result_that_the_turn_writes_in_another_form_is_stored_once(
    bus: Connection, database: Database, received: Any, reported: str
) -> None:
    envelope = {"user": "richard", "session_id": "s1", "query_id": "q1"}
    for content in (received, "Another"):
        await publish_result(bus, database, "weigh", **envelope, payload={"content": content})
    calls = [{"name": "weigh", "id": "c1", "content": reported}]
    await publish_durably(bus, GENERATION, turn(tool_calls=calls))
    await all_done(bus)

    results = [row for row in await records(database) if row["kind"] == "tool_output"]
    assert (results[0]["source_ref"], results[0]["pending"]) == ("c1", 0)
    assert [row["content"] for row in results[1:]] == ["Another"]


async def test_a_result_received_after_its_turn_even_twice_is_not_stored_again(
    bus: Connection, database: Database
) -> None:
    calls = [{"name": "weigh", "id": "c1", "content": "19.3 g"}]
    await publish_durably(bus, GENERATION, turn(tool_calls=calls))
    await all_done(bus)
    envelope = {"user": "richard", "session_id": "s1", "query_id": "q1", "correlation_id": "r1"}
    late = json.dumps({**envelope, "payload": {"content": "19.3 g"}}).encode()
    for _ in range(2):
        await bus.publish("tool.result.weigh", late)
    await publish_result(bus, database, "weigh", **envelope, payload={"content": "20 g"})

    contents = [row["content"] for row in await records(database) if row["kind"] == "tool_output"]
    assert contents == ["19.3 g", "20 g"]


async def test_results_received_after_the_answer_stand_before_it(
    bus: Connection, memory: Memory, database: Database
) -> None:
    calls = [{"name": "weigh", "id": "c1", "content": "19.3 g"}]
    await publish_durably(bus, GENERATION, turn(tool_calls=calls))
    await all_done(bus)
    await publish_durably(bus, GENERATION, turn(query="And?", query_id="q2", tool_calls=[]))
    await all_done(bus)
    late: dict[str, Any] = {"user": "richard", "session_id": "s1", "query_id": "q1"}
    await publish_result(bus, database, "weigh", **late, payload={"content": "20 g"})

    loaded = await memory.of(RICHARD).sessions.load(None, 10)

    assert [(message.role, message.content) for message in loaded.messages] == [
        ("user", QUESTION),
        ("assistant", ""),
        ("tool", "19.3 g"),
        ("tool", "20 g"),
        ("assistant", "Au."),
        ("user", "And?"),
        ("assistant", "Au."),
    ]
    assert [len(message.tool_calls) for message in loaded.messages] == [0, 2, 0, 0, 0, 0, 0]


async def test_results_already_received_are_placed_where_the_ingested_messages_have_them(
    bus: Connection, memory: Memory, database: Database
) -> None:
    await publish_result(
        bus, database, "weigh", user="richard", session_id="s1", payload={"content": "1 g"}
    )
    messages = [
        {"role": "user", "content": "How heavy?", "id": "m1"},
        {"role": "assistant", "id": "m2", "tool_calls": [{"id": "c1", "name": "weigh"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "1 g", "id": "m3"},
        {"role": "assistant", "content": "One gram.", "id": "m4"},
    ]
    async with ToolHost(bus, next(t for t in memory_tools(Memories(memory)) if t.name == "ingest")):
        for _ in range(2):
            result = await call_tool(bus, "ingest", {"messages": messages}, caller=RICHARD)
            assert result.ok, result.content

    loaded = await memory.of(RICHARD).sessions.load(None, 10)
    assert [(m.role, m.content) for m in loaded.messages] == [
        ("user", "How heavy?"), ("assistant", ""), ("tool", "1 g"), ("assistant", "One gram."),
    ]  # fmt: skip
    assert loaded.messages[1].tool_calls[0].id == loaded.messages[2].tool_call_id == "c1"


@pytest.mark.usefixtures("tools")
async def test_the_question_being_answered_is_neither_recalled_nor_repeated_in_the_prompt(
    start: StartGenerator, client: QueryClient, ollama: OllamaStandIn, database: Database
) -> None:
    await start()
    ollama.script(
        Reply(tool_calls=(("recall", {"query": QUESTION}),)),
        Reply(content="I do not know."),
    )
    generation = await client.ask(QUESTION, caller=RICHARD)

    assert generation.tool_calls[0].content.splitlines()[0] == "No memories found."
    messages = ollama.bodies("/api/chat")[0]["messages"]
    assert [m["content"] for m in messages if m["role"] == "user"] == [QUESTION]
    await eventually(lambda: records(database))
    assert (await records(database))[0]["content"] == QUESTION


@pytest.mark.usefixtures("tools")
async def test_the_generator_and_the_memory_give_a_query_the_same_id(
    bus: Connection, start: StartGenerator, database: Database
) -> None:
    await start()
    query = {"id": "e1", "user": "richard", "session_id": "s1", "payload": {"query": QUESTION}}
    await bus.publish("query.received", json.dumps(query).encode())
    await eventually(lambda: _has(database, 3))

    assert {row["query_id"] for row in await records(database)} == {"e1"}


@pytest.mark.usefixtures("tools")
async def test_after_a_restart_a_question_without_an_answer_is_part_of_the_conversation(
    bus: Connection,
    start: StartGenerator,
    client: QueryClient,
    ollama: OllamaStandIn,
    database: Database,
) -> None:
    query = {"query": "My name is Vera.", "query_id": "q0"}
    await publish_query(bus, database, user="richard", session_id="s1", payload=query)
    await start()
    ollama.script(Reply(content="Vera."))
    await client.ask("What is my name?", caller=RICHARD)

    messages = ollama.bodies("/api/chat")[0]["messages"]
    assert [m["content"] for m in messages if m["role"] == "user"] == [
        "My name is Vera.", "What is my name?",
    ]  # fmt: skip


async def test_a_question_precedes_results_that_arrived_before_it(
    bus: Connection, memory: Memory, database: Database
) -> None:
    await publish_result(
        bus, database, "weigh", user="richard", session_id="s1", payload={"content": "19.3 g"}
    )
    calls = [{"name": "weigh", "content": "19.3 g"}]
    await publish_durably(bus, GENERATION, turn(tool_calls=calls))
    await all_done(bus)

    loaded = await memory.of(RICHARD).sessions.load(None, 10)
    assert [message.role for message in loaded.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_results_that_no_turn_reports_are_loaded_up_to_the_limit(
    bus: Connection, memory: Memory, database: Database
) -> None:
    for number in range(7):
        reading = {"content": f"reading {number}"}
        await publish_result(
            bus, database, "weigh", session_id="s1", correlation_id=f"c{number}", payload=reading
        )

    tool = next(tool for tool in memory_tools(Memories(memory)) if tool.name == "load_session")
    async with ToolHost(bus, tool):
        loaded = await call_tool(
            bus, tool.name, {"limit": 5}, caller=caller_named(None, session_id="s1")
        )

    request, *answers = loaded.data["messages"]
    assert loaded.data["earlier"]
    assert [answer["content"] for answer in answers] == [f"reading {n}" for n in range(3, 7)]
    assert [call["id"] for call in request["tool_calls"]] == [f"c{n}" for n in range(3, 7)]
