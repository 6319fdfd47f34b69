"""All of a long tool output is found, though its record has a preview only."""

from typing import Any

import pytest
from msgspec.structs import replace

from calling import answer, caller_named
from local2.bus.connection import Connection
from local2.errors import InvalidArgumentsError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.records import CALL_CHARACTERS
from local2.memory.intake.conversations import Turn
from local2.memory.intake.intake import Result
from local2.memory.recall.recaller import RecallRequest
from local2.memory.scopes import view
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.memories import Kind
from local2.protocol.memory_tools import RecalledItem
from local2.protocol.payloads import SEARCHED_CHARACTERS, ToolCallRecord, preview
from local2.settings import TOOL_OUTPUT_LIMIT
from recalling import DAY, chat_message, recall
from stored import relations, select

RICHARD = caller_named("richard", session_id="s1")
ANNA = caller_named("anna", session_id="s1")
FACT = "The turbine of hall seven was replaced by Oksana Lysenko."
OUTPUTS: tuple[Kind, ...] = ("tool_output",)
QUESTION = "Who replaced the turbine of hall seven?"


def log(lines: int, fact_at: int, fact: str = FACT) -> str:
    said = [
        f"{number:05} pump {number % 7} runs, pressure {number * 37 % 900}."
        for number in range(lines)
    ]
    return "\n".join([*said[:fact_at], fact, *said[fact_at:]])


LONG = log(2_500, 1_200)
SHORTENED = log(300, 150)
"""Longer than a preview, and short enough to be read whole."""


async def store_turn(service: MemoryService, **call: object) -> None:
    called = ToolCallRecord(**{"id": "c1", "name": "read_log", "content": LONG, **call})  # type: ignore[arg-type]
    turn = Turn(
        query="Read the log.",
        answer="I have read it.",
        at=DAY,
        tool_calls=[called],
        session_id="s1",
        query_id="q1",
    )
    await service.intake.store_turn(turn)


async def parts(database: Database) -> list[str]:
    stored = await select(
        database, "SELECT content FROM record WHERE kind = 'output_part' ORDER BY row"
    )
    return [content for (content,) in stored]


@pytest.mark.parametrize("query", [QUESTION, "turbine Lysenko"])
async def test_what_stands_in_the_middle_of_a_long_output_is_found_as_a_tools_output(
    memory: Memory, query: str
) -> None:
    richard = memory.of(RICHARD)
    await store_turn(richard)

    request = RecallRequest(query=query, top_k=5, kinds=OUTPUTS)
    first = (await richard.recall(request)).items[0]

    item = view(first.record, RICHARD, RecalledItem, score=first.score)
    assert FACT in item.content
    assert (item.source_kind, item.source_ref, item.label) == ("tool_output", "c1", "read_log")
    assert (item.role, item.session_id, item.source_class) == ("tool", "s1", "observed")
    key, offset = first.record.metadata["tool_output_key"], first.record.metadata["offset"]
    read = await richard.outputs.read(key, offset, len(item.content))
    assert read.text == item.content
    assert not await recall(memory.of(ANNA), query)
    assert not await recall(richard, query, kinds=("chat_message",))


@pytest.mark.parametrize("output", [SHORTENED, LONG], ids=["a little too long", "long"])
async def test_preview_and_parts_have_all_of_an_output_and_nothing_twice(
    memory: Memory, database: Database, output: str
) -> None:
    richard = memory.of(RICHARD)
    for _ in range(2):
        await store_turn(richard, content=output)

    ((shown,),) = await select(database, "SELECT content FROM record WHERE kind = 'tool_output'")
    head, tail = shown.partition("\n")[2].split("\n[…]\n")
    middle = "".join(await parts(database))
    assert output.startswith(head[: output.index(middle)])
    assert len(output) - len(middle) - len(tail) == output.index(middle) <= len(head)
    assert f"{output[: output.index(middle)]}{middle}{tail}" == output
    assert all(part.endswith("\n") for part in (await parts(database))[:-1])


async def test_parts_are_no_messages_of_their_session(memory: Memory, database: Database) -> None:
    richard = memory.of(RICHARD)
    await store_turn(richard)

    loaded = await richard.sessions.load("s1", 50)

    assert len(await parts(database)) > 10
    assert [message.role for message in loaded.messages] == [
        "user",
        "assistant",
        "tool",
        "assistant",
    ]


async def test_an_output_whose_agent_sends_a_preview_is_found_as_well(
    memory: Memory, database: Database
) -> None:
    richard = memory.of(RICHARD)
    key = await richard.outputs.store(LONG)
    shown: dict[str, Any] = {"content": preview(LONG, key, 4_000), "tool_output_key": key}
    received = ToolCallRecord(id="request-1", name="read_log", **shown)
    result = Result(call=received, at=DAY, session_id="s1", query_id="q1")

    await richard.intake.store_result(result)
    before = await parts(database)
    await store_turn(richard, **shown)

    assert FACT in (await recall(richard, QUESTION))[0]
    assert await parts(database) == before


async def test_the_end_of_an_ingested_output_is_found_and_shown(
    memory: Memory, tools: Memory, bus: Connection, database: Database
) -> None:
    del tools
    richard = memory.of(RICHARD)
    said = [chat_message("Read the log."), chat_message(LONG, "tool", name="read_log", id="m2")]
    for _ in range(2):
        await richard.intake.store_conversation(said, "s1")

    found = await answer(bus, "recall", {"query": QUESTION, "top_k": 5}, RICHARD)

    assert FACT in found.data["items"][0]["content"]
    assert FACT in found.content
    assert LONG.endswith("".join(await parts(database)))
    loaded = await richard.sessions.load("s1", 50)
    assert [message.role for message in loaded.messages if message.content] == ["user", "tool"]


async def test_an_output_that_is_hidden_or_edited_is_not_found_by_its_parts(
    memory: Memory, database: Database
) -> None:
    richard = memory.of(RICHARD)
    await store_turn(richard)
    ((whole,),) = await select(database, "SELECT id FROM record WHERE kind = 'tool_output'")

    hidden = await richard.facts.hide([whole], "It is wrong.")

    assert hidden.run is not None
    assert not await recall(richard, QUESTION, kinds=OUTPUTS)
    await richard.audit.undo(hidden.run)
    assert FACT in (await recall(richard, QUESTION, kinds=OUTPUTS))[0]

    edited = f"Corrected.\n{LONG.replace('Oksana', 'Taras')}"
    for text in (LONG, edited):
        said = [chat_message(text, "tool", name="read_log", id="m2")]
        await richard.intake.store_conversation(said, "s2")
    in_s2 = replace(RICHARD, session_id="s2")
    found = await recall(memory.of(in_s2), QUESTION, kinds=OUTPUTS, scope="session")
    assert "Taras Lysenko" in found[0]
    assert "Oksana" not in "".join(found)


async def test_an_output_that_is_not_stored_whole_has_its_preview_only(
    memory: Memory, database: Database
) -> None:
    key = "tout_" + "a" * 24
    await store_turn(memory.of(RICHARD), content="Some text.", tool_output_key=key)

    assert not await parts(database)


async def test_of_a_very_long_output_the_beginning_is_searched_and_its_preview_says_so(
    memory: Memory, database: Database
) -> None:
    richard = memory.of(RICHARD)
    very_long = (
        f"{log(40_000, 20_000)}\n{FACT.replace('hall', 'tower')}{' end' * TOOL_OUTPUT_LIMIT}"
    )
    assert very_long.index("tower seven") > SEARCHED_CHARACTERS
    await store_turn(richard, content=very_long)

    ((shown,),) = await select(database, "SELECT content FROM record WHERE kind = 'tool_output'")
    assert f"Searches find its first {SEARCHED_CHARACTERS} characters." in shown
    assert FACT in (await recall(richard, QUESTION))[0]
    assert "tower seven" not in "".join(await parts(database))


@pytest.mark.parametrize("chosen", ["part", "result", "session", "everything"])
async def test_nothing_of_an_erased_output_stays(
    memory: Memory, database: Database, chosen: str
) -> None:
    richard = memory.of(RICHARD)
    key = await richard.outputs.store(LONG)
    shown: dict[str, Any] = {"content": preview(LONG, key, 4_000), "tool_output_key": key}
    call = ToolCallRecord(id="request-1", name="read_log", **shown)
    await richard.intake.store_result(Result(call=call, at=DAY, session_id="s1", query_id=None))
    ids = dict(await select(database, "SELECT kind, id FROM record ORDER BY row"))
    selections: dict[str, dict[str, Any]] = {
        "part": {"id": ids["output_part"]},
        "result": {"id": ids["tool_output"]},
        "session": {"session_id": "s1"},
        "everything": {"everything": True},
    }

    await richard.erasure.erase(richard.erasure.selection(**selections[chosen]))

    assert not await recall(richard, QUESTION)
    assert not "".join(await parts(database))
    assert not await relations(database)
    for table, column in (("record", "content"), ("feature", "stems"), ("tool_output", "text")):
        left = await select(database, f"SELECT {column} FROM {table} WHERE {column} LIKE '%urbin%'")  # noqa: S608
        assert not left
    with pytest.raises(InvalidArgumentsError, match="no tool output"):
        await richard.outputs.read(key, 0, 1)


CALL: dict[str, Any] = {
    "name": "read_file",
    "args": {"path": "src/net/backoff.py"},
    "content": "LIMIT = 47",
}


@pytest.mark.parametrize("is_received_first", [False, True])
@pytest.mark.usefixtures("either_size")
async def test_a_result_is_found_by_the_arguments_of_its_call_and_shown_with_them(
    memory: Memory, tools: Memory, bus: Connection, is_received_first: bool
) -> None:
    del tools
    richard = memory.of(RICHARD)
    if is_received_first:  # most tools do not repeat the arguments in their results
        received = ToolCallRecord(id="request-1", name="read_file", content=CALL["content"])
        result = Result(call=received, at=DAY, session_id="s1", query_id="q1")
        await richard.intake.store_result(result)
        assert not await recall(richard, "backoff.py", kinds=OUTPUTS)
    await store_turn(richard, **CALL)

    assert await recall(richard, "backoff.py", kinds=OUTPUTS) == ["LIMIT = 47"]
    found = await answer(bus, "recall", {"query": "backoff.py", "top_k": 1}, RICHARD)
    assert 'read_file(path="src/net/backoff.py"): LIMIT = 47' in found.content
    assert found.data["items"][0]["call"] == 'read_file(path="src/net/backoff.py")'


async def test_a_part_is_shown_with_what_reads_around_it(
    memory: Memory, tools: Memory, bus: Connection
) -> None:
    del tools
    richard = memory.of(RICHARD)
    await store_turn(richard, args={"path": "/var/log/pumps", "lines": 2_500})

    found = await answer(bus, "recall", {"query": QUESTION, "top_k": 5}, RICHARD)

    (item,) = (item for item in found.data["items"] if FACT in item["content"])
    key, offset = item["tool_output_key"], item["offset"]
    assert f'read_tool_output(tool_output_key="{key}", offset={offset})' in found.content
    assert 'read_log(path="/var/log/pumps", lines=2500): ' in found.content
    assert FACT in found.content
    around = {"tool_output_key": key, "offset": offset}
    assert FACT in (await answer(bus, "read_tool_output", around, RICHARD)).content


async def test_a_call_with_long_arguments_is_shown_shortened(memory: Memory) -> None:
    richard = memory.of(RICHARD)
    args = {"path": "notes.md", "text": "Some words.\n" * 500, **{f"n{n}": n for n in range(90)}}
    await store_turn(richard, name="write_file", args=args, content="Written.")

    request = RecallRequest(query="notes.md", top_k=1, kinds=OUTPUTS)
    (item,) = (await richard.recall(request)).items

    call = view(item.record, RICHARD, RecalledItem, score=item.score).call
    assert call is not None
    assert call.startswith('write_file(path="notes.md", text="Some words.')
    assert len(call) <= CALL_CHARACTERS + len(" …")
