"""Full-text search: which rows are scored, by which words, and which columns contain them."""

from datetime import UTC, datetime
from functools import partial

import pytest

from calling import caller_named
from local2.ledger.engines.sqlite import fulltext
from local2.ledger.engines.sqlite.connections import SqlConnection
from local2.ledger.engines.sqlite.fulltext import FullText
from local2.ledger.operations.candidates import Filter
from local2.ledger.operations.transactions import Transaction, as_json
from local2.ledger.operations.working_sets import Budgets
from local2.ledger.records import Fact
from local2.ledger.search import Search
from local2.memory.recall.query import analyse
from local2.memory.recall.recaller import RECALLED_KINDS
from local2.memory.scopes import EQUAL_WEIGHTS, reach
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.memory_tools import AddDocument
from local2.protocol.payloads import ToolCallRecord
from recalling import chat_message, recall

RICHARD = caller_named("richard")
MESSAGES = reach("history", RECALLED_KINDS, RICHARD, EQUAL_WEIGHTS).places
NOW = datetime(2026, 1, 1, tzinfo=UTC)
FEW = 10
BOTH, RARE, COMMON = "Iridium and osmium.", "Iridium and nothing.", "Osmium and nothing."


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fulltext, "SCORED", FEW)
    monkeypatch.setattr(fulltext, "PROBE", FEW)


async def store_messages(
    service: MemoryService, *texts: str, about_osmium: int = 0, rows: int = 0
) -> None:
    """Store the texts, then this many messages, of which every second is at first about osmium."""
    osmium = [
        f"{COMMON[:-1]} {n}." if n % 2 else f"Bob sleeps, {n}." for n in range(2 * about_osmium)
    ]
    filler = [f"Ann walks, {n}." for n in range(rows - len(texts) - len(osmium))]
    await service.intake.store_conversation(
        [chat_message(text) for text in (*texts, *osmium, *filler)]
    )


async def search(memory: Memory, full_text: FullText, question: str) -> list[str]:
    """Return the contents found, best first."""
    query = analyse(question, NOW)
    request = Search(text=question, terms=query.terms, phrases=query.phrases, places=MESSAGES)
    filter_ = Filter.of("default", request)

    def find(tx: Transaction) -> list[str]:
        found = full_text.search(tx, request, filter_, limit=99)
        contents = {
            row["row"]: row["content"] for row in tx.execute("records", rows=as_json(found))
        }
        return [contents[row] for row in found]

    return await memory.ledger._rows.read(find)


@pytest.mark.usefixtures("few_are_many")
async def test_rows_with_a_rare_word_are_also_ranked_by_the_common_ones(
    memory: Memory, richard: MemoryService
) -> None:
    await store_messages(richard, RARE, BOTH, about_osmium=15, rows=50)

    found = await search(memory, FullText(Budgets()), "osmium iridium")

    assert found == [BOTH, RARE], "of what has common words only, nothing is scored"


@pytest.mark.usefixtures("few_are_many")
async def test_if_every_word_is_common_the_rarest_is_searched(
    memory: Memory, richard: MemoryService
) -> None:
    nothing = [f"Iridium and nothing {n}." for n in range(12)]
    await store_messages(richard, BOTH, *nothing, about_osmium=15, rows=60)

    found = await search(memory, FullText(Budgets()), "osmium iridium")

    assert next(iter(found)) == BOTH
    assert set(found) == {BOTH, *nothing}


@pytest.mark.usefixtures("few_are_many")
async def test_a_word_that_no_row_has_does_not_hide_the_others(
    memory: Memory, richard: MemoryService
) -> None:
    await store_messages(richard, about_osmium=15, rows=50)

    found = await search(memory, FullText(Budgets()), "osmium iridium")

    assert len(found) == 15


async def test_a_small_number_of_rows_is_ranked_completely(
    memory: Memory, richard: MemoryService
) -> None:
    await store_messages(richard, RARE, BOTH, about_osmium=15, rows=50)

    found = await search(memory, FullText(Budgets()), "osmium iridium")

    assert len(found) == 17
    assert list(found)[:2] == [BOTH, RARE]


@pytest.mark.usefixtures("few_are_many")
async def test_words_are_recounted_as_the_table_grows(
    memory: Memory, richard: MemoryService
) -> None:
    full_text = FullText(Budgets())
    await store_messages(richard, RARE, BOTH, COMMON, rows=12)
    before = await search(memory, full_text, "osmium iridium")
    await store_messages(richard, RARE, BOTH, COMMON, about_osmium=15, rows=60)

    after = await search(memory, full_text, "osmium iridium")

    assert set(before) == {BOTH, RARE, COMMON}
    assert set(after) == {BOTH, RARE}, "osmium has become common"


async def test_a_message_is_found_by_its_date(richard: MemoryService) -> None:
    days = [(2023, 5, 8), (2023, 7, 9), (2021, 12, 31)]
    for number, day in enumerate(days):
        moment = datetime(*day, 12, tzinfo=UTC)
        await richard.intake.store_conversation(
            [chat_message(f"Ann walks, {number}.", timestamp=moment)], f"s{number}"
        )

    assert await recall(richard, "8 May 2023") == ["Ann walks, 0.", "Ann walks, 1."]
    assert await recall(richard, "in May") == ["Ann walks, 0."]
    assert await recall(richard, "on 31 December") == ["Ann walks, 2."]


async def test_names_that_no_content_contains_are_found(richard: MemoryService) -> None:
    weighed = [ToolCallRecord(name="scales", content="22.59 g", id="c1")]
    await richard.intake.store_conversation([chat_message("Only iridium.", name="Melanie")], "s1")
    await richard.intake.store_conversation(
        [chat_message(None, "assistant", tool_calls=weighed)], "s2"
    )
    await richard.facts.store(Fact(content="Vim", scope="user", topic="user.editor"))
    await richard.documents.store(
        AddDocument(title="Gardening", source="a.md", content=f"# Ficus\n\n{'Water it. ' * 200}")
    )

    assert await recall(richard, "Melanie") == ["Only iridium."]
    assert await recall(richard, "scales") == ["22.59 g"]
    assert await recall(richard, "editor") == ["Vim"]
    for heading in ("Gardening", "Ficus"):
        found = await recall(richard, heading, repetitions=True)
        assert len(found) > 1
        assert any(heading not in content for content in found)


async def test_records_stored_together_are_indexed_in_one_write(memory: Memory) -> None:
    """FTS5 stores a separate row for each write to the index."""

    def count(table: str, connection: SqlConnection) -> int:
        (rows,) = connection.execute(f"SELECT count(*) FROM {table}").fetchone()  # noqa: S608
        return int(rows)

    write = memory.ledger._database.write
    await store_messages(memory.of(RICHARD), BOTH)
    before = await write(partial(count, "record_text_data"))
    await store_messages(memory.of(RICHARD), rows=20)

    assert await write(partial(count, "record_text_data")) == before + 1
    assert await write(partial(count, "temp.new_record")) == 0, "nothing stays staged"


async def test_full_text_and_records_agree_after_every_kind_of_change(
    memory: Memory, richard: MemoryService
) -> None:
    await store_messages(richard, BOTH, RARE)
    for value in ("Osmium", "Tungsten"):
        await richard.write_topic("user.metal", value)

    def change(connection: SqlConnection) -> None:
        connection.execute("DELETE FROM record WHERE content = ?", (RARE,))
        connection.execute("UPDATE record SET content = 'x', label = 'y'")
        connection.execute(
            "INSERT INTO record_text (record_text, rank) VALUES ('integrity-check', 1)"
        )

    await memory.ledger._database.write(change)
