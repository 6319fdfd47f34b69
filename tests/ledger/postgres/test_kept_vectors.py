"""Vectors in PostgreSQL: every stack finds them at once, and a large place has an index."""

import asyncio
from typing import Any

import numpy as np
import psycopg
import pytest

from ledgers import (
    EMBEDDER,
    OWNER,
    erase,
    fact,
    find,
    index,
    record,
    searching,
    to_index,
    vector_result,
)
from local2.errors import VectorError
from local2.ledger.engines.postgres import neighbours
from local2.ledger.engines.postgres.database import Database
from local2.ledger.erasing import Selection
from local2.ledger.ledger import Ledger
from local2.ledger.operations import searches, working_sets
from local2.ledger.operations.candidates import Filter
from local2.ledger.operations.vectors import Embedders, nearest_rows
from local2.ledger.stored_vectors import Floats
from local2.protocol.envelope import utc_now
from local2.protocol.vectors import VectorHits
from local2.vectors.embedder import unit_rows
from waiting import eventually

DIMENSIONS, LARGE = 32, 500
BUILDING = b"SELECT 1 FROM pg_stat_progress_create_index WHERE phase LIKE 'waiting for%'"
NEIGHBOUR_INDEXES = b"SELECT indexname FROM pg_indexes WHERE indexname LIKE 'vector_near_%'"


@pytest.fixture(autouse=True)
def of_candidates(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search as large memories are searched."""
    monkeypatch.setattr(working_sets, "MAX_RECORDS", -1)


async def store(ledger: Ledger, texts: dict[str, float], **columns: Any) -> None:
    await ledger.records.store([record(text, **columns) for text in texts])
    await index(ledger, texts)


async def nearest(ledger: Ledger, degrees: float, **fields: object) -> dict[str, float]:
    """Return the cosines of what is found by its vector alone."""
    return (await find(ledger, searching(**fields), vector_result(degrees))).cosines()


async def test_another_stack_finds_a_vector_once_it_is_stored(
    ledger: Ledger, theirs: Ledger
) -> None:
    await store(ledger, {"Gold.": 0, "Lead.": 60})

    assert await nearest(theirs, 0) == {"Gold.": 1.0, "Lead.": 0.5}


async def test_only_the_callers_active_records_are_found(ledger: Ledger, here: Database) -> None:
    await store(ledger, {"Gold.": 0})
    await store(ledger, {"Eve's.": 0}, owner="eve")
    await store(Ledger(here, "other"), {"Another tenant's.": 0})
    for metal in ("Vim.", "Emacs."):
        await ledger.facts.store(fact(metal, topic="user.editor"))
        await index(ledger, {f"user.editor: {metal}": 0})

    assert set(await nearest(ledger, 0)) == {"Gold.", "Emacs."}


async def test_records_of_a_session_that_is_left_out_do_not_hide_others(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "WIDER_NEAREST", 10)
    await store(ledger, {f"Gold {number}.": 0 for number in range(20)}, session_id="s1")
    await store(ledger, {"Lead.": 60}, session_id="s2")

    assert set(await nearest(ledger, 0, excluded_session="s1")) == {"Lead."}


async def test_an_erased_record_leaves_no_vector(ledger: Ledger) -> None:
    await store(ledger, {"Gold.": 0})
    (gold,) = (await find(ledger, searching("gold"))).records.values()

    await erase(ledger, Selection(owner=OWNER))

    kept = ledger.vectors
    assert kept is not None
    assert await kept.held([gold.id]) == []
    assert await nearest(ledger, 0) == {}


async def test_the_ledger_names_the_embedders_and_counts_their_vectors(ledger: Ledger) -> None:
    kept = ledger.vectors
    assert kept is not None
    await store(ledger, {"Gold.": 0, "Lead.": 60})
    await kept.serve(EMBEDDER)
    await kept.begin_next("sphere")

    assert await kept.embedders() == Embedders(serving=EMBEDDER, next="sphere")
    assert [await kept.count(name) for name in (EMBEDDER, "sphere")] == [2, 0]
    await ledger.index.queue_all()
    assert await kept.count(EMBEDDER) == 0, "as many as are indexed"


async def test_a_next_embedder_serves_only_if_no_stack_gave_it_up(ledger: Ledger) -> None:
    kept = ledger.vectors
    assert kept is not None
    await kept.serve(EMBEDDER)
    await kept.begin_next("sphere")
    await kept.serve(EMBEDDER)

    assert not await kept.take_over("sphere")
    assert await kept.embedders() == Embedders(serving=EMBEDDER)
    await kept.begin_next("sphere")
    assert await kept.take_over("sphere")
    assert await kept.embedders() == Embedders(serving="sphere")


async def test_vectors_that_another_stack_makes_are_not_dropped_with_those_of_a_former_change(
    ledger: Ledger,
) -> None:
    kept = ledger.vectors
    assert kept is not None
    await kept.serve(EMBEDDER)
    await store(ledger, {"Gold.": 0})
    await kept.serve("sphere")
    await kept.begin_next(EMBEDDER)

    await ledger.index.keep_vectors_of("sphere")
    assert await kept.count(EMBEDDER) == 1

    await kept.serve("sphere")
    await ledger.index.keep_vectors_of("sphere")
    assert await kept.count(EMBEDDER) == 0


async def test_vectors_of_an_embedder_that_no_longer_serves_finish_no_task(ledger: Ledger) -> None:
    kept = ledger.vectors
    assert kept is not None
    await kept.serve(EMBEDDER)
    await ledger.records.store([record("Gold.", owner=OWNER)])
    waiting = await to_index(ledger, 1)
    await kept.serve("sphere")

    with pytest.raises(VectorError, match="Another embedder"):
        await ledger.index.store_vectors(waiting, [bytes(4 * DIMENSIONS)], EMBEDDER)

    assert await to_index(ledger, 1) == waiting


def unit_vectors(count: int, *, clusters: int, seed: int) -> Floats:
    """Return random vectors, around some centres or, with none, everywhere."""
    random = np.random.default_rng(seed)
    made = random.normal(size=(count, DIMENSIONS))
    if clusters:
        centres = np.random.default_rng(99).normal(size=(clusters, DIMENSIONS))
        made = centres[random.integers(clusters, size=count)] + 0.3 * made
    return unit_rows(made.astype(np.float32))


async def fill(ledger: Ledger, owner: str, made: Floats) -> dict[int, Floats]:
    """Store an episode for each vector; return the vectors by their rows."""
    texts = [f"Number {number} of {owner}." for number in range(len(made))]
    await ledger.records.store([record(text, owner=owner) for text in texts])
    by_text = dict(zip(texts, made, strict=True))
    waiting = await to_index(ledger, len(made))
    await ledger.index.store_vectors(
        waiting, [by_text[one.text].tobytes() for one in waiting], EMBEDDER
    )
    return {one.row: by_text[one.text] for one in waiting}


@pytest.mark.parametrize("clusters", [0, 20])
async def test_of_the_fifty_nearest_nearly_all_are_found(
    ledger: Ledger, here: Database, monkeypatch: pytest.MonkeyPatch, clusters: int
) -> None:
    monkeypatch.setattr(neighbours, "LARGE_PLACE", LARGE)
    small, large = LARGE // 4, 2 * LARGE
    vectors = {
        owner: await fill(ledger, owner, unit_vectors(count, clusters=clusters, seed=count))
        for owner, count in (("eve", large), (OWNER, small))
    }
    await ledger.index_vectors(EMBEDDER)
    await ledger.index_vectors(EMBEDDER)
    built = await here.read(lambda c: c.raw.execute(NEIGHBOUR_INDEXES).fetchall())
    assert len(built) == 1, "only the large place has an index of neighbours"

    for owner, by_row in vectors.items():
        rows, stored = np.array(list(by_row)), np.stack(list(by_row.values()))
        search = searching(places=tuple(p._replace(owner=owner) for p in searching().places))
        filter_ = Filter.of(ledger.tenant, search)
        found, wanted = 0, 0
        for question in unit_vectors(20, clusters=clusters, seed=7):
            hits = VectorHits(
                hits=[], question=question.tobytes(), embedder=EMBEDDER, min_score=0.0
            )
            nearest = set(rows[np.argsort(-(stored @ question))[:50]].tolist())
            rows_found = await ledger._rows.read(nearest_rows, filter_, hits, 50)
            found += len(nearest & set(rows_found))
            wanted += len(nearest)
        assert found / wanted >= 0.97, owner


async def test_stacks_share_the_index_of_a_large_place_until_the_embedder_changes(
    ledger: Ledger, there: Database, theirs: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(neighbours, "LARGE_PLACE", 20)
    await fill(ledger, OWNER, unit_vectors(40, clusters=0, seed=1))
    built = []

    for embedder in (EMBEDDER, EMBEDDER, "sphere"):
        await theirs.index_vectors(embedder)
        built.append(len(await there.read(lambda c: c.raw.execute(NEIGHBOUR_INDEXES).fetchall())))

    assert built == [1, 1, 0]


async def test_stacks_that_index_at_the_same_time_do_not_wait_for_each_other(
    ledger: Ledger, here: Database, there: Database, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An index waits for what has begun before, and so would two of one table for each other."""
    monkeypatch.setattr(neighbours, "LARGE_PLACE", 20)
    theirs = Ledger(there, "other")
    for stack in (here, there):
        await stack.say_alive("test", utc_now())
    for each in (ledger, theirs):
        await fill(each, OWNER, unit_vectors(40, clusters=0, seed=1))

    with psycopg.connect(url) as earlier:
        earlier.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        earlier.execute("SELECT count(*) FROM record")  # its snapshot is what indexes wait for
        mine = asyncio.create_task(ledger.index_vectors(EMBEDDER))
        with psycopg.connect(url, autocommit=True) as other:
            await eventually(lambda: other.execute(BUILDING).fetchone())

        async with asyncio.timeout(30):
            assert not await theirs.index_vectors(EMBEDDER)
    assert await mine

    assert await theirs.index_vectors(EMBEDDER)
    built = await there.read(lambda c: c.raw.execute(NEIGHBOUR_INDEXES).fetchall())
    assert len(built) == 2
