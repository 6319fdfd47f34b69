"""The tools for topics and episodes, as a model and a program see their answers."""

from datetime import UTC, datetime

import msgspec
import pytest

from calling import RICHARD, caller_named, run_tool
from indexed import indexed
from local2._version import __version__
from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.client.tools import call_tool
from local2.memory.tenant import Memories, Memory
from local2.protocol.memory_tools import MAX_CONTENT, TOOLS, Hit
from local2.protocol.payloads import Json
from local2.protocol.tool import Tool
from local2.tools.catalog import memory_tools
from local2.tools.texts import TEXT_BYTES, shortened
from waiting import eventually

EVE = caller_named("eve")
TODAY = datetime.now(UTC).date().isoformat()


def tool(memory: Memory, name: str) -> Tool:
    return next(tool for tool in memory_tools(Memories(memory)) if tool.name == name)


async def test_a_topic_is_saved_and_recalled_with_the_texts_of_the_reference(
    memory: Memory,
) -> None:
    topic = {"topic": "user.language_preference"}

    saved = await run_tool(memory, "save_topic", {**topic, "content": "Elixir"})
    recalled = await run_tool(memory, "recall_topic", topic)

    assert saved.content == "Memory saved: user.language_preference"
    assert recalled.content == "[Memory: user.language_preference] Elixir"
    assert msgspec.to_builtins(recalled.data) == {
        **topic,
        "found": True,
        "content": "Elixir",
        "id": msgspec.to_builtins(saved.data)["id"],
        "by": "self",
        "source_class": "asserted",
    }


async def test_saving_returns_the_replaced_record_to_programs(memory: Memory) -> None:
    args = {"topic": "user.name", "content": "Richard"}

    first = msgspec.to_builtins((await run_tool(memory, "save_topic", args)).data)
    again = msgspec.to_builtins((await run_tool(memory, "save_topic", args)).data)
    other = msgspec.to_builtins(
        (await run_tool(memory, "save_topic", {**args, "content": "Rick"})).data
    )

    assert first == {
        "id": first["id"],
        "topic": "user.name",
        "was_new": True,
        "superseded": None,
        "related": [],
        "related_in_time": True,
    }
    assert again == {**first, "was_new": False}
    assert (other["was_new"], other["superseded"]) == (True, first["id"])


async def test_an_unknown_topic_is_reported_as_no_memory(memory: Memory) -> None:
    recalled = await run_tool(memory, "recall_topic", {"topic": "user.name"})

    assert recalled.content == "No memories found."
    assert msgspec.to_builtins(recalled.data) == {
        "topic": "user.name",
        "found": False,
        "content": None,
        "id": None,
        "by": None,
        "source_class": None,
    }


async def test_a_note_is_saved_once(memory: Memory) -> None:
    first = await run_tool(memory, "save_memory", {"content": "We chose Postgres."})
    again = await run_tool(memory, "save_memory", {"content": "We chose Postgres."})

    assert first.content == "Memory saved."
    assert again.content == "Memory saved before."
    assert msgspec.to_builtins(again.data)["id"] == msgspec.to_builtins(first.data)["id"]


async def test_a_search_is_a_dated_numbered_list(searchable: Memory) -> None:
    gold = "Q: What is the symbol of gold?\nA: Au."
    await run_tool(searchable, "save_memory", {"content": gold})
    await indexed(searchable)

    found = await run_tool(searchable, "search_memory", {"query": "symbol of gold"})

    data = msgspec.to_builtins(found.data)
    (hit,) = data["hits"]
    assert found.content == (
        f"[Memory recall — {TODAY}]\n"
        f"1. (relevance: {hit['score']:.2f}) {TODAY}\n"
        "   Q: What is the symbol of gold?\n"
        "   A: Au."
    )
    assert (hit["content"], hit["metadata"]["agent"]) == (gold, "shell")
    assert (data["degraded"], data["reason"]) == (False, None)


@pytest.mark.parametrize("name", ["recall", "search_memory"])
async def test_of_long_memories_a_model_reads_the_passage_that_answers(
    memory: Memory, name: str
) -> None:
    filler = "The rain has not let up since Sunday. " * 300
    text = f"{filler}I gave the spare key to Dorothea. {filler}"
    await run_tool(memory, "save_memory", {"content": text})

    found = await run_tool(memory, name, {"query": "Who keeps the spare key?"})

    assert "   … " in found.content
    assert "I gave the spare key to Dorothea." in found.content
    assert len(found.content.encode()) < TEXT_BYTES + 200
    data = msgspec.to_builtins(found.data)
    assert [one["content"] for one in data.get("items") or data["hits"]] == [text]


@pytest.mark.parametrize(
    "filling", [pytest.param("\u8a18", id="CJK"), pytest.param("\x01", id="control characters")]
)
async def test_the_largest_hits_are_cut_to_their_beginnings_and_fit_the_bus(
    bus: Connection, memory: Memory, filling: str
) -> None:
    notes = [f"Gold note {number} ".ljust(MAX_CONTENT, filling) for number in range(4)]
    notes.append("Gold note 4, a short one.")
    for note in notes:
        await memory.of(RICHARD).write_episodic(note)

    async with ToolHost(bus, tool(memory, "search_memory")):
        found = await call_tool(bus, "search_memory", {"query": "gold"}, caller=RICHARD)

    assert found.ok, found.content[:200]
    by_note = {hit["content"][:11]: hit["content"] for hit in found.data["hits"]}
    assert sorted(by_note) == [f"Gold note {number}" for number in range(5)]
    assert by_note.pop("Gold note 4") == notes[4]
    for content, note in zip((by_note[key] for key in sorted(by_note)), notes, strict=False):
        assert content.endswith(" …")
        assert note.startswith(content.removesuffix(" …"))
        assert len(content) > 10_000
    assert len(found.content) < 10_000, "a model gets a little of each"
    assert found.content.count(" …") == 4


@pytest.mark.parametrize("budget", [0, 100, 1_000])
def test_cut_hits_never_exceed_the_budget(budget: int) -> None:
    hits = [
        Hit(
            source_class="asserted",
            id=str(n),
            content="\u8a18\x01\U0001f600" * 400,
            score=1,
            metadata={},
        )
        for n in range(3)
    ]

    cut = shortened(hits, budget)

    contents = [hit.content.removesuffix(" …") for hit in cut]
    assert sum(len(msgspec.json.encode(content)) - 2 for content in contents) <= budget
    assert all(hit.content.endswith(" …") for hit in cut)


def test_short_hits_are_unchanged() -> None:
    hits = [
        Hit(source_class="asserted", id=str(n), content="Au." * n, score=1, metadata={})
        for n in range(1, 4)
    ]

    assert shortened(hits, 1_000) == hits
    assert shortened([], 1_000) == []


async def test_a_search_that_finds_nothing_says_so(searchable: Memory) -> None:
    await eventually(lambda: searchable.indexer.problem is None)

    found = await run_tool(searchable, "search_memory", {"query": "gold"})

    assert found.content == "No memories found."


async def test_a_degraded_search_that_finds_nothing_says_why(memory: Memory) -> None:
    found = await run_tool(memory, "search_memory", {"query": "gold"})

    assert found.content.startswith("No memories found.\n(Not everything could be searched, ")
    assert "vector" in found.content
    assert msgspec.to_builtins(found.data)["degraded"] is True


async def test_top_k_limits_the_hits(memory: Memory) -> None:
    for n in range(8):
        await run_tool(memory, "save_memory", {"content": f"Gold note {n}."})

    async def hits(args: Json) -> int:
        found = await run_tool(memory, "search_memory", {"query": "gold", **args})
        return len(msgspec.to_builtins(found.data)["hits"])

    assert [await hits({}), await hits({"top_k": 2}), await hits({"top_k": 20})] == [5, 2, 8]


KNOWN_TYPES = {"string", "integer", "number", "boolean", "array", "object"}


def test_models_receive_these_schemas(memory: Memory) -> None:
    schemas = {tool.name: tool.schema() for tool in memory_tools(Memories(memory))}

    assert list(schemas) == [tool.name for tool in TOOLS]
    for name, schema in schemas.items():
        function = schema.tool_schema.function
        assert (function.name, schema.version) == (name, __version__)
        assert function.description == schema.description
        parameters = function.parameters
        assert parameters["type"] == "object"
        assert parameters["additionalProperties"] is False
        assert set(parameters["required"]) <= set(parameters["properties"])
        for declared in parameters["properties"].values():
            assert declared.get("type") in KNOWN_TYPES or declared["enum"]
        assert b"$ref" not in msgspec.json.encode(schema)
        assert b"anyOf" not in msgspec.json.encode(function)
    search = schemas["search_memory"].tool_schema.function.parameters
    assert search["required"] == ["query"]
    assert search["properties"]["top_k"] == {
        "type": "integer",
        "minimum": 1,
        "maximum": 20,
        "description": "Maximum number of memories to return.",
    }


def test_the_mcp_definition_has_the_same_parameters(memory: Memory) -> None:
    for each in memory_tools(Memories(memory)):
        mcp = msgspec.to_builtins(each.mcp_definition())
        assert mcp == {
            "name": each.name,
            "description": each.description,
            "inputSchema": each.schema().tool_schema.function.parameters,
            "outputSchema": each.schema().output_schema,
            "title": each.title,
            "annotations": msgspec.to_builtins(each.annotations),
        }


async def test_a_fact_without_a_scope_belongs_to_the_user_to_its_key_or_to_everybody(
    memory: Memory,
) -> None:
    nobody = caller_named(None, agent="shell")
    for caller, args in (
        (RICHARD, {"content": "Likes tea."}),
        (RICHARD, {"content": "Tuesday.", "topic": "project.deadline"}),
        (nobody, {"content": "The office is in Vienna."}),
    ):
        await run_tool(memory, "remember_fact", args, caller)
    await run_tool(
        memory,
        "add_knowledge",
        {"facts": [{"subject": "Ada", "predicate": "is", "object": "kind"}]},
    )

    found = msgspec.to_builtins(
        (await run_tool(memory, "recall", {"query": "tea, Tuesday, Vienna, Ada"})).data
    )

    assert {item["content"]: item["scope"] for item in found["items"]} == {
        "Likes tea.": "user",
        "Tuesday.": "tenant",
        "The office is in Vienna.": "tenant",
        "Ada is kind.": "user",
    }
