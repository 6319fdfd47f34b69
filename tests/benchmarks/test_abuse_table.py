"""The table of abuses judges its figures, and the garbled messages are really unreadable."""

from collections.abc import Callable

import msgspec
import pytest

from abuse.garbled import FORMS, PUBLIC, garbled
from abuse.table import MB, Overall, Results, Row, table_of, values_of
from harness.footprint import Memory
from local2.errors import RequestError
from local2.protocol.lenient.turns import read_feedback, read_generation

ROW = Row(
    abuse="many saves",
    done=10,
    acknowledged=9,
    lost=0,
    stall_ms=100.0,
    ping_ms=100.0,
    answer_ms=250.0,
    server_ms=1.0,
    late_ms=1.0,
    refused=0,
    log_kb=1.0,
    memory_mb=2.0,
    seconds=1.0,
    settled=True,
)
KILLED = msgspec.structs.replace(ROW, abuse="a kill", stall_ms=None, ping_ms=3_000.0)


def results(*rows: Row, sent: int = 120, after: int = 100) -> Results:
    """Return results with these MB of memory, after 100 MB at the start."""
    memory = Overall(
        before=Memory(40 * MB, 60 * MB), sent=Memory(sent * MB, 0), after=Memory(0, after * MB)
    )
    return Results(rows=rows, overall=memory)


def test_memory_growth_is_relative_to_new_processes_on_the_same_data() -> None:
    assert results(ROW).overall.growth == pytest.approx(20)
    assert results(ROW, sent=150, after=150).overall.growth == 0
    assert not results(ROW, sent=121).reached


@pytest.mark.parametrize(
    ("row", "reached"),
    [
        pytest.param(ROW, True, id="all within bounds"),
        pytest.param(KILLED, True, id="a killed stack does not stall"),
        pytest.param(msgspec.structs.replace(ROW, lost=1), False, id="lost"),
        pytest.param(msgspec.structs.replace(ROW, stall_ms=100.1), False, id="stalled"),
        pytest.param(msgspec.structs.replace(ROW, settled=False), False, id="not done in time"),
        pytest.param(msgspec.structs.replace(KILLED, lost=1), False, id="lost by a kill"),
    ],
)
def test_one_row_out_of_its_bounds_fails_the_whole_table(row: Row, *, reached: bool) -> None:
    assert row.reached is reached
    assert results(ROW, row).reached is reached


def test_programs_are_given_the_figures_of_the_printed_table() -> None:
    found = values_of(results(ROW, KILLED))

    assert msgspec.convert(found["rows"], list[Row]) == [ROW, KILLED]
    assert found["reached"] is True
    assert table_of(results(ROW, KILLED)).row_count == 3


def test_every_subject_is_sent_every_form_before_any_is_repeated() -> None:
    messages = list(garbled(len(PUBLIC) * len(FORMS)))

    assert len(set(messages)) == len(messages)


@pytest.mark.parametrize("read", [read_generation, read_feedback])
def test_no_form_can_be_read_as_a_turn_or_a_rating(read: Callable[[bytes], object]) -> None:
    for form in FORMS:
        with pytest.raises(RequestError):
            read(form)
