"""A search sees one state of the memory, although messages are stored while it runs."""

import asyncio
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ledgers import (
    EMBEDDER,
    angle,
    everything,
    fact,
    find,
    index,
    ledger_in,
    message,
    searching,
    vector_result,
)
from local2.language.features import HEAD, PASSAGE, features
from local2.ledger.columns import INITIAL_SIZE, Candidate, Columns, Link, View
from local2.ledger.records import stamp
from local2.ledger.search import VectorResult, WordMatches
from local2.protocol.envelope import utc_now

METALS = ("osmium", "gold", "iridium")
ROWS = range(1, 41)
READ_SHARE = 0.1
"""Share of the writes after which something is read."""
READ_OF_A_VIEW: dict[str, Callable[[View], object]] = {
    "size": lambda view: view.size,
    "column": lambda view: view.column,
    "neighbours": lambda view: view.neighbours,
    "rows": lambda view: view.rows,
    "with_assistant": lambda view: view.with_assistant,
    "sessions_back": lambda view: view.sessions_back,
    "postings": lambda view: [view.postings(metal) for metal in METALS],
    "positions_with": lambda view: [view.positions_with(metal) for metal in METALS],
    "derive": lambda view: view.derive(lambda view, name: view.column[name], "length"),
    "found_in_texts": lambda view: view.found_in_texts("anything"),
    "has_comparable_vector": lambda view: view.has_comparable_vector(EMBEDDER),
    "cosines": lambda view: view.cosines(angle(0), EMBEDDER),
    "frequency": lambda view: [view.frequency(metal) for metal in METALS],
    "stating": lambda view: [view.stating(metal) for metal in METALS],
    "asking": lambda view: view.asking,
    "vectors_at": lambda view: view.vectors_at(np.arange(min(view.size, 4))),
    "stems": lambda view: [list(view.stems(position)) for position in range(view.size)],
    "positions": lambda view: view.positions(range(2 * INITIAL_SIZE)),
    # Numbers of values, which all views share: a value keeps its number.
    "names": lambda view: view.names.principals.number_of("richard"),
}
VIEWS: dict[str, Callable[[Columns], View]] = {
    "whole": Columns.whole,
    "without": lambda columns: columns.without([3, 8]),
    "within": lambda columns: columns.within(range(5, 20)),
    "linked": lambda columns: columns.linked([Link(row=4, later=5, distance=1)]),
}


def candidate(row: int, text: str, **fields: Any) -> Candidate:
    at = utc_now()
    usual: dict[str, Any] = dict.fromkeys(Candidate._fields)
    usual |= {
        "row": row,
        "id": str(row),
        "kind": "chat_message",
        "scope": "session",
        "source_class": "stated",
        "session_id": f"s{row % 3}",
        "role": "assistant" if row % 2 else "user",
        "importance": 0.5,
        "durability": "core",
        "event_time": stamp(at),
        "echo": 0,
        "session_position": row,
        "active": 1,
        "stated_by": "richard",
        "vector": angle(row),
        "embedder": EMBEDDER,
        **features(text, topic=None, label=None, at=at)._asdict(),
    }
    return Candidate(**{**usual, **fields})


def writes(dice: random.Random) -> Iterator[Candidate]:
    """New records, and changes of the old ones, until the arrays have grown."""
    for row in range(ROWS.stop, INITIAL_SIZE):
        yield candidate(row, f"More {METALS[row % 3]}.", session_id=f"s{row % 50}")
        former = dice.choice(ROWS)
        changed: list[dict[str, Any]] = [
            {"text": f"No longer of {METALS[row % 3]}."},
            {"text": f"It is {METALS[former % 3]}.", "importance": 0.9},
            {"text": "", "active": 0},
        ]
        yield candidate(former, **dice.choice(changed))


def test_every_way_to_read_a_view_is_tested() -> None:
    columns = Columns()
    columns.add([candidate(1, "Osmium.")])
    view = columns.whole()

    assert {name for name in dir(view) if not name.startswith("_")} == set(READ_OF_A_VIEW)


@pytest.mark.parametrize("make", VIEWS.values(), ids=VIEWS)
def test_a_view_reads_the_same_at_every_moment_while_records_are_written(
    make: Callable[[Columns], View],
) -> None:
    dice, columns = random.Random(1), Columns()  # noqa: S311 - which writes, and which reads
    columns.add(candidate(row, f"It is {METALS[row % 3]}.") for row in ROWS)
    view, at_first = make(columns), make(columns)
    expected = {name: read(at_first) for name, read in READ_OF_A_VIEW.items()}

    for written in writes(dice):
        columns.add([written])
        if dice.random() < READ_SHARE:
            name = dice.choice(list(READ_OF_A_VIEW))
            np.testing.assert_equal(READ_OF_A_VIEW[name](view), expected[name], name)

    assert len(columns) > INITIAL_SIZE
    for name, read in READ_OF_A_VIEW.items():
        np.testing.assert_equal(read(view), expected[name], name)


def test_the_first_stems_of_a_text_are_the_same_whether_all_stems_are_indexed_or_few() -> None:
    written = candidate(
        1, f"Harry S. Truman likes 12 metals{' and others' * HEAD}, osmium above all."
    )
    stems = []
    for only in (None, {"osmium"}):
        columns = Columns(only=only)
        columns.add([written])
        stems.append(columns.whole().stems(0))

    assert stems[0] == stems[1]
    assert {"truman", "metal"} <= set(stems[0])
    assert set(stems[0]).isdisjoint({"", "osmium"})


def test_a_view_made_before_the_first_vector_has_no_cosines() -> None:
    columns = Columns()
    columns.add(candidate(row, "It is gold.", vector=None, embedder=None) for row in ROWS)
    view = columns.whole()

    columns.add(candidate(row, "It is gold.") for row in range(1, 99))

    assert not view.has_comparable_vector(EMBEDDER).any()
    assert view.cosines(angle(0), EMBEDDER).tolist() == [0.0] * view.size


async def test_a_search_of_a_whole_memory_goes_on_with_the_records_that_it_began_with(
    tmp_path: Path,
) -> None:
    """Meanwhile, others arrive, and another search reads all of them."""
    begun, loop = asyncio.Event(), asyncio.get_running_loop()

    def draft(worded: WordMatches) -> WordMatches:
        loop.call_soon_threadsafe(begun.set)
        return worded

    async with ledger_in(tmp_path / "ledger.sqlite3") as ledger:
        await ledger.records.store([message("Gold here."), message("Osmium here.")])
        await ledger.facts.store(fact("Gold.", topic="user.metal"))
        await index(ledger, {"Gold here.": 0, "Osmium here.": 90, "Gold.": 0})

        async def look(_: int) -> VectorResult:
            await begun.wait()
            await ledger.records.store([message(f"More gold and osmium, {n}.") for n in range(50)])
            assert len((await find(ledger, searching("gold"), vector_result(0))).contents) > 50
            return vector_result(0)

        ledger.searches.expect(EMBEDDER)
        search = searching("gold", "osmium")
        seen = await ledger.searches.find(search, look, draft, everything)

    assert seen.contents == {"Gold here.", "Osmium here.", "Gold."}
    positions = [seen.found.view.postings(stem).positions for stem in ("gold", "osmium")]
    assert max(map(max, positions)) < seen.found.view.size


@pytest.mark.parametrize("only", [None, {"osmium"}])
def test_the_passages_that_have_a_stem_are_known_of_long_texts(only: set[str] | None) -> None:
    filler = "and others " * (2 * PASSAGE // 11)
    far = f"Osmium. {filler}{filler}More osmium. {filler}"
    columns = Columns(only=only)
    columns.add([candidate(1, "Osmium."), candidate(2, far), candidate(3, filler + filler)])

    osmium = columns.without([1]).postings("osmium")

    assert osmium.counts.tolist() == [2]
    assert osmium.passages_at(osmium.positions).tolist() == [0b10001]
    assert columns.whole().postings("osmium").passages_at(np.array([0, 1])).tolist() == [0, 0b10001]
