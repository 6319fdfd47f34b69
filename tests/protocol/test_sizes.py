import pytest

from local2.protocol.maintenance import size_in_units


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0.0 kB"),
        (999_940, "999.9 kB"),
        (1_000_000, "1.0 MB"),
        (79_435_000_000, "79.4 GB"),
        (8_000_000_000_000_000, "8,000.0 TB"),
    ],
)
def test_a_size_has_the_unit_that_people_would_use(size: int, shown: str) -> None:
    assert size_in_units(size) == shown
