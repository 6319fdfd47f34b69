"""The tool `recall`: its answers, its refusals, and that nothing is returned twice."""

import asyncio
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

from calling import RICHARD
from indexed import indexed
from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.client.tools import call_tool
from local2.ledger.operations.working_sets import WorkingSets
from local2.ledger.records import Fact
from local2.memory.intake.conversations import Turn
from local2.memory.recall.ranking import shown_scores
from local2.memory.service import MemoryService
from local2.memory.tenant import Memories, Memory
from local2.protocol.memory_tools import RECALL
from local2.protocol.payloads import Json, ToolCallRecord, ToolResult
from local2.protocol.vectors import VectorHits
from local2.tools.catalog import bind
from recalling import DAY, chat_message, recall


async def over_the_bus(bus: Connection, memory: Memory, args: Json) -> ToolResult:
    """Return the tool's result as a client receives it."""
    async with ToolHost(bus, bind(RECALL, Memories(memory))):
        return await call_tool(bus, "recall", args, caller=RICHARD)


async def test_an_item_names_its_kind_and_its_source(
    bus: Connection, memory: Memory, richard: MemoryService
) -> None:
    calls = [ToolCallRecord(name="weigh", content="Osmium: 22.59 g/cm³", id="call-7")]
    (id_,) = (
        await richard.intake.store_conversation(
            [chat_message(None, "assistant", tool_calls=calls, timestamp=DAY)]
        )
    ).ids

    result = await over_the_bus(bus, memory, {"query": "osmium"})

    assert result.ok, result.content
    (item,) = result.data["items"]
    assert 0 < item.pop("score") <= 1
    assert item == {
        "id": id_,
        "source_kind": "tool_output",
        "source_ref": "call-7",
        "content": "Osmium: 22.59 g/cm³",
        "event_time": "2026-05-02T14:23:01Z",
        "topic": None,
        "memory_type": None,
        "label": "weigh",
        "session_id": "s1",
        "role": "tool",
        "agent": "shell",
        "by": "self",
        "scope": "session",
        "source_class": "observed",
    }
    assert (result.data["total"], result.data["rerank_used"]) == (1, False)
    assert result.data["answer"] is None
    assert "1. (relevance: " in result.content
    assert "2026-05-02\n   weigh: Osmium: 22.59 g/cm³" in result.content


async def test_an_item_of_a_fact_has_its_topic_and_type(
    bus: Connection, memory: Memory, richard: MemoryService
) -> None:
    fact = Fact(content="Vim", scope="user", topic="user.editor", memory_type="preference")
    await richard.facts.store(fact)

    (item,) = (await over_the_bus(bus, memory, {"query": "editor Vim"})).data["items"]

    assert (item["source_kind"], item["topic"], item["memory_type"]) == (
        "fact",
        "user.editor",
        "preference",
    )


async def test_top_k_defaults_to_five(
    bus: Connection, memory: Memory, richard: MemoryService
) -> None:
    await richard.intake.store_conversation(
        [chat_message(f"Osmium weighs {n} grams.") for n in range(30)]
    )

    for args, total in (({}, 5), ({"top_k": 1}, 1), ({"top_k": 20}, 20)):
        result = await over_the_bus(bus, memory, {"query": "osmium", **args})
        assert (result.data["total"], len(result.data["items"])) == (total, total)


async def test_an_empty_result_is_reported(bus: Connection, memory: Memory) -> None:
    result = await over_the_bus(bus, memory, {"query": "osmium", "synthesize": True})

    assert result.content.startswith("No memories found.")
    assert (result.data["items"], result.data["total"]) == ([], 0)
    assert result.data["answer"] == {"text": "", "ids": [], "by_model": False}


async def test_an_items_shares_add_up_to_its_score(
    bus: Connection, memory: Memory, richard: MemoryService
) -> None:
    await richard.intake.store_conversation(
        [
            chat_message("Which metal is the densest?", name="Ann"),
            chat_message("Osmium is.", "assistant"),
            chat_message("Is osmium a rare metal, too?", name="Ann"),
        ]
    )
    fact = Fact(content="The densest metal is osmium.", scope="user", importance=1)
    await richard.facts.store(fact)

    plain = await over_the_bus(bus, memory, {"query": "Ann's densest metal"})
    result = await over_the_bus(bus, memory, {"query": "Ann's densest metal", "explain": True})

    assert all("explanation" not in item for item in plain.data["items"])
    assert len(result.data["items"]) == 4
    for item in result.data["items"]:
        explained = item["explanation"]
        total = np.array(sum(explained["shares"].values()) * explained["weight"])
        assert item["score"] == pytest.approx(shown_scores(total), abs=0.001)
    assert {item["explanation"]["weight"] for item in result.data["items"]} == {1.3, 1.1}


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param({"since": datetime(2026, 5, 2, tzinfo=UTC)}, {2, 3}, id="since"),
        pytest.param({"until": datetime(2026, 5, 2, tzinfo=UTC)}, {1, 2}, id="until"),
        pytest.param(
            {
                "since": datetime(2026, 5, 1, 12, tzinfo=UTC),
                "until": datetime(2026, 5, 2, 12, tzinfo=UTC),
            },
            {2},
            id="between",
        ),
        pytest.param({"since": datetime(2026, 6, 1, tzinfo=UTC)}, set(), id="nothing"),
    ],
)
async def test_nothing_outside_the_requested_time_is_found(
    richard: MemoryService, bounds: dict[str, datetime], expected: set[int]
) -> None:
    """They are not even shown as the neighbours of a message."""
    days = {day: datetime(2026, 5, day, tzinfo=UTC) for day in (1, 2, 3)}
    await richard.intake.store_conversation(
        [chat_message(f"Osmium, day {day}.", timestamp=moment) for day, moment in days.items()]
    )

    found = await recall(richard, "osmium", **bounds)

    assert set(found) == {f"Osmium, day {day}." for day in expected}


async def test_a_turn_is_found_as_its_messages_and_not_also_as_its_episode(
    richard: MemoryService,
) -> None:
    calls = [ToolCallRecord(name="weigh", content="Osmium: 22.59 g/cm³", id="c1")]
    turn = Turn(query="How dense is osmium?", answer="Osmium is densest.", at=DAY, tool_calls=calls)
    await richard.intake.store_turn(turn)

    found = await recall(richard, "osmium dense")

    assert sorted(found) == ["How dense is osmium?", "Osmium is densest.", "Osmium: 22.59 g/cm³"]


async def test_a_record_retired_while_the_question_is_embedded_is_not_recalled(
    searchable: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    richard = searchable.of(RICHARD)
    read_words, search = WorkingSets.read, searchable.vectors.search
    found_by_words = asyncio.Event()

    async def find_words(*args: Any) -> Any:
        found = await read_words(*args)
        found_by_words.set()
        return found

    async def retire_then_search(*args: Any, **named: Any) -> VectorHits:
        await found_by_words.wait()
        await richard.facts.store(Fact(content="Iridium", scope="user", topic="user.metal"))
        return await search(*args, **named)

    await richard.facts.store(Fact(content="Osmium", scope="user", topic="user.metal"))
    await indexed(searchable)
    monkeypatch.setattr(WorkingSets, "read", find_words)
    monkeypatch.setattr(searchable.vectors, "search", retire_then_search)

    assert "Osmium" not in await recall(richard, "osmium")


async def test_equivalent_texts_take_one_place(richard: MemoryService) -> None:
    for session in ("s1", "s2", "s3"):
        await richard.intake.store_conversation(
            [chat_message("Osmium is the densest of all metals.")], session
        )
    await richard.intake.store_conversation(
        [chat_message("OSMIUM is the densest of all metals!", name="Ann")]
    )
    await richard.facts.store(Fact(content="Osmium is the densest of all metals", scope="user"))
    await richard.intake.store_conversation([chat_message("Iridium comes next to osmium.")])

    found = await recall(richard, "densest metal osmium")

    assert len(found) == 2
    assert found[1] == "Iridium comes next to osmium."


async def test_the_same_words_under_two_topics_are_recalled_as_two_facts(
    richard: MemoryService,
) -> None:
    for topic in ("user.name_of_mother", "user.name_of_daughter"):
        await richard.facts.store(Fact(content="Anna", scope="user", topic=topic))

    assert await recall(richard, "names of mother and daughter") == ["Anna", "Anna"]


async def test_texts_with_different_numbers_are_not_equivalent(richard: MemoryService) -> None:
    invoices = [f"The invoice {n} for the osmium was paid on Monday." for n in (17, 18)]
    await richard.intake.store_conversation([chat_message(invoice) for invoice in invoices])

    assert sorted(await recall(richard, "osmium invoice")) == invoices


@pytest.mark.parametrize(
    ("one", "other"),
    [
        pytest.param(
            "The board has approved the plan to sell the osmium that lies in the old vault.",
            "The board has not approved the plan to sell the osmium that lies in the old vault.",
            id="a denial",
        ),
        pytest.param("The osmium tool is in C++.", "The osmium tool is in C#.", id="symbols"),
        pytest.param("osmium \N{THUMBS UP SIGN}", "osmium \N{THUMBS DOWN SIGN}", id="emoji"),
        pytest.param("Osmium is hello.", "Osmium is please!", id="interjections"),
        pytest.param("Osmium 5 g", "Osmium .5 g", id="a decimal point before"),
        pytest.param("Osmium 3.5 g", "Osmium 3:5 g", id="a decimal point within"),
        pytest.param("Osmium 5 g", "Osmium -5 g", id="a sign"),
    ],
)
async def test_texts_with_opposite_meanings_are_not_equivalent(
    richard: MemoryService, one: str, other: str
) -> None:
    await richard.intake.store_conversation([chat_message(one)], "s1")
    await richard.intake.store_conversation([chat_message(other)], "s2")

    assert sorted(await recall(richard, "osmium")) == sorted([one, other])


async def test_repetitions_leave_room_for_the_next_items(richard: MemoryService) -> None:
    for session in range(50):
        await richard.intake.store_conversation(
            [chat_message("Osmium, osmium, osmium!")], f"s{session}"
        )
    others = [f"Osmium {word}." for word in ("shines", "stinks", "burns", "breaks")]
    await richard.intake.store_conversation([chat_message(other) for other in others], "others")

    found = await recall(richard, "osmium", top_k=5)

    assert sorted(found) == sorted(["Osmium, osmium, osmium!", *others])


async def test_a_record_found_by_words_and_meaning_is_returned_once(searchable: Memory) -> None:
    richard = searchable.of(RICHARD)
    await richard.intake.store_conversation(
        [chat_message("Osmium is the densest metal."), chat_message("The moon pulls at the sea.")]
    )
    await indexed(searchable)

    found = await recall(richard, "densest metal")

    assert found[0] == "Osmium is the densest metal."
    assert len(found) == len(set(found))


async def test_a_record_unrelated_to_the_question_is_not_found(searchable: Memory) -> None:
    richard = searchable.of(RICHARD)
    await richard.intake.store_conversation([chat_message("Osmium is the densest metal.")])
    await indexed(searchable)

    assert await recall(richard, "Which team won the ice hockey final?") == []


async def test_messages_of_any_length_are_recalled_and_fit_the_bus(
    bus: Connection, memory: Memory, richard: MemoryService
) -> None:
    await richard.intake.store_conversation(
        [chat_message(f"Osmium {n} " + "\u8a18\x01" * 30_000) for n in range(8)]
    )

    result = await over_the_bus(bus, memory, {"query": "osmium", "top_k": 20})

    assert result.ok, result.content[:200]
    assert result.data["total"] == 8
    assert len(result.content) < 10_000


async def test_a_known_argument_that_is_null_is_ignored(
    bus: Connection, memory: Memory, richard: MemoryService
) -> None:
    await richard.facts.store(Fact(content="Prefers tea.", scope="user"))
    absent = dict.fromkeys(("top_k", "scope", "enable_rerank", "source_kinds", "synthesize"))

    recalled = await over_the_bus(bus, memory, {"query": "tea", **absent})

    assert [item["content"] for item in recalled.data["items"]] == ["Prefers tea."]


async def test_a_whole_number_with_a_point_is_an_integer_as_in_json_schema(
    bus: Connection, memory: Memory, richard: MemoryService
) -> None:
    await richard.facts.store(Fact(content="Prefers tea.", scope="user"))

    recalled = await over_the_bus(bus, memory, {"query": "tea", "top_k": 1.0})
    refused = [
        (await over_the_bus(bus, memory, {"query": "tea", "top_k": number})).content
        for number in (1.5, 21.0, 1e300)
    ]

    assert [item["content"] for item in recalled.data["items"]] == ["Prefers tea."]
    assert [text for text in refused if "at `top_k`" not in text] == []
