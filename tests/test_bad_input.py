"""Every message and file is read or refused: no crash, one answer, no partial write.

The ten thousand broken inputs are the same in every run; `uv run benchmarks fuzz` makes more.
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fuzz.crashes import Fuzz, is_refused
from fuzz.live import fuzz_bus, request_of
from fuzz.readers import readers
from local2.stack.app import open_stack
from stacks import in_step, settings_in

SEED = 14
READ = 9_000
SENT = 1_000


@pytest.fixture
def fuzz(tmp_path: Path) -> Fuzz:
    return Fuzz(tmp_path, SEED)


def test_the_valid_inputs_behind_the_broken_ones_are_read(tmp_path: Path) -> None:
    assert not [reader.name for reader in readers(tmp_path) if is_refused(reader, reader.valid)]


def test_a_seed_and_a_number_reproduce_an_input(fuzz: Fuzz, tmp_path: Path) -> None:
    again, other = Fuzz(tmp_path, SEED), Fuzz(tmp_path, SEED + 1)
    made = [[one.input(number)[1] for number in range(100)] for one in (fuzz, again, other)]

    assert made[0] == made[1] != made[2]
    assert request_of(SEED, 1) == request_of(SEED, 1) != request_of(SEED, 2)


@pytest.mark.parametrize("part", range(3))
def test_broken_inputs_are_read_or_refused(fuzz: Fuzz, part: int) -> None:
    numbers = range(part * READ // 3, (part + 1) * READ // 3)
    crashes = [str(crash) for number in numbers if (crash := fuzz.crash(number)) is not None]

    assert crashes == []
    assert fuzz.refused > READ // 3 // 3, "else the inputs are hardly broken"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner),
    max_leaves=8,
)


def with_part_replaced(valid: Any, draw: st.DataObject) -> Any:
    """Return the value with one of its parts replaced by another value."""
    if isinstance(valid, dict) and valid and draw.draw(st.booleans()):
        key = draw.draw(st.sampled_from(list(valid)))
        return {**valid, key: with_part_replaced(valid[key], draw)}
    return draw.draw(JSON)


@given(draw=st.data())
@settings(max_examples=300)
def test_any_replaced_value_is_read_or_refused(fuzz: Fuzz, draw: st.DataObject) -> None:
    reader = draw.draw(st.sampled_from([one for one in fuzz.readers if one.valid[:1] == b"{"]))
    valid = msgspec.json.decode(reader.valid.splitlines()[0])

    is_refused(reader, msgspec.json.encode(with_part_replaced(valid, draw)))


@pytest.mark.usefixtures("worker_here")
async def test_a_broken_request_gets_one_answer_and_a_refused_one_writes_nothing(
    tmp_path: Path,
) -> None:
    config = settings_in(tmp_path)
    async with open_stack(config, log_folder=tmp_path) as stack:
        await in_step(stack.bus)
        ledger = config.memory.data_dir / "ledger.sqlite3"
        live = await fuzz_bus(stack.url, ledger, range(SENT), seed=SEED)

        assert live.faults == []
        assert min(live.codes["ok"], live.codes["bad_request"]) > SENT // 20
