"""Documents: split at headings, stored for everybody, replaced chunk by chunk."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calling import RICHARD, UNNAMED, caller_named, run_tool
from local2.errors import StorageError, TooLargeError
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.operations.documents import SEPARATOR
from local2.memory.intake.documents import (
    CHUNK,
    MAX_LABEL,
    MAX_SHORT_SECTIONS,
    MIN_CHUNK,
    _records,
)
from local2.memory.tenant import Memory
from local2.protocol.memories import MAX_DOCUMENT
from local2.protocol.memory_tools import AddDocument
from local2.protocol.payloads import Json, MemoryChange
from recalling import DAY, recall
from stored import records, select

EVE = caller_named("eve")
WATER = "Water the plants on Monday, before the sun is high over the roof. " * 12
BREAD = "Bake the bread at 230 degrees until its crust is dark and it sounds hollow. " * 10
WINDOW = "Clean the windows in spring, with vinegar and yesterday's newspaper. " * 11
GUIDE = f"# Plants\n\n{WATER}\n\n## Kitchen\n\n{BREAD}\n\n# Windows\n\n{WINDOW}\n"


async def add(memory: Memory, content: str = GUIDE, **args: Any) -> Json:
    """Run the tool; return its data."""
    sent = {"content": content, "title": "House", **args}
    data: Json = msgspec.to_builtins((await run_tool(memory, "add_document", sent)).data)
    return data


async def rows(database: Database, *, active: bool = True) -> list[dict[str, Any]]:
    """Return the chunks in the order in which they were written."""
    chunks = [row for row in await records(database) if row["kind"] == "document_chunk"]
    return [chunk for chunk in chunks if not (active and chunk["superseded_by"])]


def split(content: str) -> list[tuple[str, str]]:
    """Return labels and contents of the chunks of a document titled House."""
    document = AddDocument(title="House", content=content)
    made = _records(document, "house.md", RICHARD, DAY)
    return [(str(record.label), record.content) for record in made]


def headings(content: str) -> list[list[str]]:
    """Return the headings above each chunk."""
    return [label.split(SEPARATOR)[1:] for label, _ in split(content)]


def test_each_chunk_is_labelled_with_the_title_and_the_headings_above_it() -> None:
    assert headings(GUIDE) == [["Plants"], ["Plants", "Kitchen"], ["Windows"]]
    assert {label.split(SEPARATOR)[0] for label, _ in split(GUIDE)} == {"House"}


@pytest.mark.parametrize(
    ("beginning", "over"),
    [
        pytest.param("Plants\n======\n", ["Plants"], id="underlined"),
        pytest.param("## Plants ##\n", ["Plants"], id="closed"),
        pytest.param("# The  `bread`\tof *today*\n", ["The `bread` of *today*"], id="spaces"),
        pytest.param("# HOUSE\n\n## Plants\n", ["Plants"], id="the title again"),
        pytest.param("#\n\n# Plants\n", ["Plants"], id="an empty one"),
        pytest.param("#Plants\n", [], id="no space, no heading"),
        pytest.param("---\nplants: yes\n---\n", [], id="front matter"),
        pytest.param("```\n# Plants\n```\n", [], id="in a fence"),
        pytest.param("    # Plants\n", [], id="indented"),
        pytest.param("> # Plants\n", [], id="in a quote"),
        pytest.param("- # Plants\n", [], id="in a list"),
    ],
)
def test_headings_are_recognised_as_in_markdown(beginning: str, over: list[str]) -> None:
    assert headings(f"{beginning}\n{WATER}\n\n{BREAD}")[-1] == over


def test_a_heading_is_in_the_chunk_of_the_text_below_it() -> None:
    (first, *rest) = [content for _, content in split(f"# Plants\n\n{WATER}{BREAD}")]

    assert first.startswith(f"# Plants\n\n{WATER[:100]}")
    assert rest


def test_every_section_with_a_text_is_a_chunk_with_its_own_heading() -> None:
    """However short it is. A heading without a text is in the chunk of the next one."""
    contents = {
        "Ficus": "## Ficus\n\nWater it on Mondays.",
        "Palm": f"## Palm\n\n{BREAD}",
        "Cactus": "### Cactus\n\nNever water it.",
    }
    plants = "\n\n".join(["# Plants", "Green.", *contents.values(), "# Rooms", "## Attic", "Dry."])

    assert headings(plants) == [
        ["Plants"],
        ["Plants", "Ficus"],
        ["Plants", "Palm"],
        ["Plants", "Palm", "Cactus"],
        ["Rooms", "Attic"],
    ]
    assert [content.strip() for _, content in split(plants)][1:4] == [
        content.strip() for content in contents.values()
    ]


def test_a_document_of_tiny_sections_has_a_bounded_number_of_chunks() -> None:
    chunks = split("# a\nb\n" * 5_000)

    assert len(chunks) < MAX_SHORT_SECTIONS + 5_000 * 6 / MIN_CHUNK + 1


def test_line_endings_make_no_difference() -> None:
    assert split(GUIDE.replace("\n", "\r\n")) == split(GUIDE) == split(GUIDE.replace("\n", "\r"))


def test_plain_text_is_split_between_sentences() -> None:
    contents = [
        content for _, content in split("It is a long story. And nobody tells it well. " * 80)
    ]

    assert len(contents) > 3
    assert all(content.endswith((" story.", " well.")) for content in contents)
    assert all(CHUNK[0] <= len(content) <= CHUNK[1] for content in contents[:-1])


@given(st.text(st.characters(codec="utf-8"), max_size=3_000))
def test_chunks_lose_only_blanks_and_are_never_too_long(text: str) -> None:
    content = f"House rules {text}"

    chunks = split(content)

    joined = "".join("".join(chunk.split()) for _, chunk in chunks)
    assert joined == "".join(content.split())
    assert all(len(chunk) < CHUNK[1] + MIN_CHUNK for _, chunk in chunks)
    assert all(len(label) <= MAX_LABEL for label, _ in chunks)


async def test_a_documents_text_is_found_by_everybody(searchable: Memory) -> None:
    await add(searchable)

    for caller in (RICHARD, EVE, UNNAMED):
        (first, *_) = await recall(searchable.of(caller), "How hot must the oven be for bread?")
        assert "230 degrees" in first


async def test_a_chunk_names_its_source(memory: Memory, database: Database) -> None:
    done = await add(memory, source="docs/house.md")

    assert done == {
        "source": "docs/house.md",
        "chunks": 3,
        "added": 3,
        "replaced": 0,
        "unchanged": 0,
        "removed": 0,
    }
    chunks = await rows(database)
    assert [row["source_ref"] for row in chunks] == [f"docs/house.md#{n}" for n in (1, 2, 3)]
    for row in chunks:
        assert (row["scope"], row["owner"], row["session_id"]) == ("tenant", "", None)
        assert row["agent"] == "shell"
        assert json.loads(row["metadata"]) == {"title": "House", "source": "docs/house.md"}


async def test_without_a_source_the_title_is_the_source(memory: Memory, database: Database) -> None:
    assert (await add(memory))["source"] == "House"
    assert (await rows(database))[0]["source_ref"] == "House#1"


async def test_adding_an_unchanged_document_changes_nothing(
    memory: Memory, database: Database, announced: list[tuple[str, MemoryChange]]
) -> None:
    await add(memory)
    before, count = await rows(database, active=False), len(announced)

    again = await add(memory)

    assert (again["unchanged"], again["added"], again["replaced"]) == (3, 0, 0)
    assert await rows(database, active=False) == before
    assert len(announced) == count


async def test_a_changed_chunk_replaces_only_its_former_version(
    memory: Memory, database: Database, announced: list[tuple[str, MemoryChange]]
) -> None:
    await add(memory)
    plants, kitchen, windows = await rows(database)
    announced.clear()

    done = await add(memory, GUIDE.replace("230", "250"))

    assert (done["replaced"], done["unchanged"], done["removed"]) == (1, 2, 0)
    *remaining, new = await rows(database)
    assert [row["id"] for row in remaining] == [plants["id"], windows["id"]]
    assert (new["source_ref"], "250 degrees" in new["content"]) == ("House#2", True)
    saved = MemoryChange(id=new["id"], kind="document_chunk")
    replaced = MemoryChange(id=kitchen["id"], kind="document_chunk", superseded_by=new["id"])
    assert announced == [("memory.saved", saved), ("memory.superseded", replaced)]
    versions = await memory.of(EVE).facts.history(new["id"])
    assert [version.id for version in versions] == [new["id"], kitchen["id"]]


async def test_chunks_beyond_the_new_end_are_replaced_by_the_last_one(
    memory: Memory, database: Database, announced: list[tuple[str, MemoryChange]]
) -> None:
    await add(memory)
    plants, kitchen, windows = await rows(database)
    announced.clear()

    done = await add(memory, f"# Plants\n\n{WATER}")

    assert (done["chunks"], done["unchanged"], done["removed"]) == (1, 1, 2)
    after = {row["id"]: row["superseded_by"] for row in await rows(database, active=False)}
    assert after == {plants["id"]: None, kitchen["id"]: plants["id"], windows["id"]: plants["id"]}
    assert {(s, c.id, c.superseded_by) for s, c in announced} == {
        ("memory.superseded", row["id"], plants["id"]) for row in (kitchen, windows)
    }


async def test_a_replaced_chunk_leaves_an_audit_row(memory: Memory, database: Database) -> None:
    await add(memory)
    old = await rows(database)
    await add(memory, f"# Plants\n\n{WATER.replace('Monday', 'Friday')}")

    audit = await select(database, "SELECT record_id, agent FROM audit")
    assert set(audit) == {(row["id"], "shell") for row in old}


async def test_a_new_title_relabels_every_chunk(memory: Memory, database: Database) -> None:
    await add(memory, source="house.md")
    done = await add(memory, source="house.md", title="Cottage")

    assert done["replaced"] == 3
    assert {row["label"].split(SEPARATOR)[0] for row in await rows(database)} == {"Cottage"}


@pytest.mark.parametrize("other", ["a#1", "a#12", "a#", "a#1#1", "a$", "a#x", "A", "a\x00"])
async def test_documents_with_similar_sources_do_not_affect_each_other(
    memory: Memory, database: Database, other: str
) -> None:
    sources = ("a", other)
    for source in sources:
        await add(memory, source=source)
    for source in sources:
        assert (await add(memory, WATER, source=source))["removed"] == 2
        assert (await add(memory, GUIDE, source=source))["added"] == 2

    assert len(await rows(database)) == 6


async def test_a_document_is_replaced_completely_or_not_at_all(
    memory: Memory, database: Database
) -> None:
    await add(memory)
    before = await rows(database, active=False)
    await database.write(
        lambda connection: connection.execute(
            "CREATE TRIGGER full BEFORE INSERT ON record WHEN new.source_ref = 'House#3' "
            "BEGIN SELECT RAISE(ABORT, 'disk full'); END"
        )
    )

    with pytest.raises(StorageError):
        await add(memory, GUIDE.replace(" the ", " a "))

    assert await rows(database, active=False) == before


@pytest.mark.parametrize("content", ["x" * (MAX_DOCUMENT - 1), "\n" * (MAX_DOCUMENT // 2)])
async def test_a_documents_size_is_measured_as_encoded(memory: Memory, content: str) -> None:
    with pytest.raises(TooLargeError, match="900,000 bytes as JSON"):
        await add(memory, content)

    assert (await memory.ledger.counts()).records == 0
