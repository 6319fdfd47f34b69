"""Consolidation makes one fact of several wordings of a statement, and undo restores them all."""

from typing import Any

import pytest

from calling import call
from ledgers import OWNER, angle, fact, index, to_index
from local2.bus.connection import Connection
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.operations.index import labelled
from local2.ledger.records import NewRecord
from local2.memory.tenant import Memory
from local2.memory.upkeep.consolidation import Consolidation
from local2.settings import MemorySettings
from local2.vectors.minilm import MiniLM
from stored import records
from wordings import HALVES

COFFEE = (
    "I like dark roast coffee.",
    "The user loves dark-roasted coffee.",
    "Dark roast coffee is my favourite.",
)

pytestmark = pytest.mark.usefixtures("tools")


async def store(memory: Memory, *facts: NewRecord) -> None:
    """Store facts whose vectors are near each other."""
    for one in facts:
        await memory.ledger.facts.store(one)
    texts = [labelled(one.topic, one.content) for one in facts]
    await index(memory.ledger, {text: float(number) for number, text in enumerate(texts)})


async def active(database: Database) -> list[str]:
    return [row["content"] for row in await records(database) if row["superseded_by"] is None]


async def test_three_wordings_become_the_newest_one_and_undo_restores_them(
    memory: Memory, database: Database, bus: Connection
) -> None:
    wordings = [fact(text, number) for number, text in enumerate(COFFEE)]
    await store(memory, *wordings)

    planned = await call(bus, "consolidate", {"dry_run": True})
    assert await active(database) == list(COFFEE)
    report = await call(bus, "consolidate", {})

    assert report["changes"] == planned["changes"]
    assert {(one["id"], one["superseded_by"]) for one in report["changes"]} == {
        (one.id, wordings[2].id) for one in wordings[:2]
    }
    assert {one["reason"] for one in report["changes"]} == {
        "it is another wording of the fact that stays"
    }
    assert await active(database) == [COFFEE[2]]
    history = await call(bus, "memory_history", {"topic_or_id": wordings[2].id})
    assert {one["content"] for one in history["versions"]} == set(COFFEE)
    trail = await call(bus, "audit", {"run": report["run"]})
    assert [one["action"] for one in trail["entries"]] == ["merged", "merged"]

    undone = await call(bus, "undo", {"run": report["run"]})

    assert (len(undone["undone"]), undone["not_done"]) == (2, [])
    assert await active(database) == list(COFFEE)


async def test_a_fact_with_a_key_stays_in_favour_of_its_newer_wordings(
    memory: Memory, database: Database, bus: Connection
) -> None:
    keyed = fact(COFFEE[0], topic="user.coffee")
    await store(memory, keyed, fact(COFFEE[1], 1))

    await call(bus, "consolidate", {})

    assert await active(database) == [COFFEE[0]]


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        pytest.param("I like light roast coffee.", {}, id="another value"),
        pytest.param("I do not like dark roast coffee.", {}, id="denied"),
        pytest.param("I like dark roast coffee: Java, Sumatra.", {}, id="a list"),
        pytest.param("I enjoy dark roast coffee.", {"owner": "eve"}, id="another owner"),
        pytest.param(
            "I enjoy dark roast coffee.",
            {"scope": "tenant", "owner": "", "stated_by": OWNER},
            id="another scope",
        ),
        pytest.param("I enjoy dark roast coffee.", {"source_class": "stated"}, id="another source"),
        pytest.param("I enjoy dark roast coffee.", {"durability": "core"}, id="core"),
        pytest.param("I enjoy dark roast coffee.", {"memory_type": "event"}, id="an event"),
    ],
)
async def test_what_is_not_the_same_statement_of_the_same_source_stays(
    memory: Memory, bus: Connection, text: str, fields: dict[str, Any]
) -> None:
    await store(memory, fact(COFFEE[0]), fact(text, 1, **fields))

    assert (await call(bus, "consolidate", {"dry_run": True}))["changes"] == []


async def test_what_matters_much_is_not_merged_into_a_newer_wording_that_does_not(
    memory: Memory, bus: Connection
) -> None:
    await store(memory, fact(COFFEE[0], importance=0.9), fact(COFFEE[1], 1))

    assert (await call(bus, "consolidate", {"dry_run": True}))["changes"] == []


async def test_two_users_wordings_of_one_statement_for_everybody_stay(
    memory: Memory, bus: Connection
) -> None:
    shared = {"scope": "tenant", "owner": ""}
    await store(
        memory,
        fact("I like dark roast coffee.", stated_by=OWNER, **shared),
        fact("I enjoy dark roast coffee.", 1, stated_by="eve", **shared),
    )

    assert (await call(bus, "consolidate", {"dry_run": True}))["changes"] == []


async def test_vectors_must_confirm_what_the_words_say(memory: Memory, bus: Connection) -> None:
    for number, text in enumerate(COFFEE[:2]):
        await memory.ledger.facts.store(fact(text, number))
    assert (await call(bus, "consolidate", {"dry_run": True}))["changes"] == []  # no vectors

    waiting = await to_index(memory.ledger)
    await memory.ledger.index.store_vectors(waiting, [angle(0.0), angle(60.0)], "plane")

    assert (await call(bus, "consolidate", {"dry_run": True}))["changes"] == []


@pytest.mark.parametrize(("degrees", "changes"), [(40.0, 0), (20.0, 1)])
async def test_the_cosine_counts_from_the_floor_of_the_embedder(
    memory: Memory, bus: Connection, degrees: float, changes: int
) -> None:
    """Unrelated texts have a cosine of .62 with this embedder, so that .77 is not much."""
    for number, text in enumerate(COFFEE[:2]):
        await memory.ledger.facts.store(fact(text, number))
    embedder = "all-MiniLM-L6-v2+multilingual-e5-small"
    waiting = await to_index(memory.ledger, embedder=embedder)
    await memory.ledger.index.store_vectors(waiting, [angle(0.0), angle(degrees)], embedder)

    report = await call(bus, "consolidate", {"dry_run": True})

    assert len(report["changes"]) == changes


@pytest.mark.parametrize("half", HALVES)
async def test_facts_that_only_sound_alike_are_never_merged(
    memory: Memory, database: Database, embedder: MiniLM, half: str
) -> None:
    wordings, _, least = HALVES[half]
    group_of = HALVES[half].group_of
    for number, text in enumerate(group_of):
        await memory.ledger.facts.store(fact(text, number))
    waiting = await to_index(memory.ledger, 999)
    vectors = embedder.embed_queries([one.text for one in waiting])
    await memory.ledger.index.store_vectors(
        waiting, [vector.tobytes() for vector in vectors], embedder.name
    )
    consolidation = Consolidation(
        memory.ledger,
        memory.changes,
        memory.accesses,
        settings=MemorySettings(consolidation_share=0.5),
        clock=memory.clock,
    )

    await consolidation.run_once()

    stored_facts = await records(database)
    group_of_id = {row["id"]: group_of[row["content"]] for row in stored_facts}
    merged = [row for row in stored_facts if row["superseded_by"] is not None]
    assert all(group_of_id[row["id"]] == group_of_id[row["superseded_by"]] for row in merged)
    assert len(merged) >= least * sum(len(group) - 1 for group in wordings)
