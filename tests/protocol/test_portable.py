"""Lines of an export that the ledger could not store or read again are refused."""

from typing import Any

import msgspec
import pytest

from fuzz.valid import LINES
from local2.errors import BadRequestError
from local2.protocol.portable import stored_line

BY_TYPE = {line["type"]: line for line in LINES}
TOO_LARGE = 2**63


def changed(type_: str, **fields: Any) -> bytes:
    return msgspec.json.encode({**BY_TYPE[type_], **fields})


@pytest.mark.parametrize("time", ["2026garbage", "2026-02-30T12:00:00Z", "2026-05-01", "soon"])
@pytest.mark.parametrize(
    ("type_", "field"),
    [
        ("feedback", "event_time"),
        ("note", "event_time"),
        ("audit", "event_time"),
        ("output", "kept_at"),
        ("access", "last"),
    ],
)
def test_an_invalid_time_is_refused(type_: str, field: str, time: str) -> None:
    with pytest.raises(BadRequestError, match=r"^Line 7 is not .*"):
        stored_line(changed(type_, **{field: time}), 7)


@pytest.mark.parametrize("time", ["2026-05-01 12:00:00", "2026-05-01T12:00:00.000+00:00"])
def test_a_time_is_in_the_ledgers_form_or_in_that_of_iso_8601(time: str) -> None:
    assert stored_line(changed("feedback", event_time=time), 7)


@pytest.mark.parametrize(
    ("type_", "field"),
    [("note", "position"), ("note", "merges"), ("output", "until"), ("access", "times")],
)
def test_a_number_outside_the_ledgers_range_is_refused(type_: str, field: str) -> None:
    with pytest.raises(BadRequestError, match=field):
        stored_line(changed(type_, **{field: TOO_LARGE}), 7)


def test_a_score_outside_its_range_is_refused() -> None:
    with pytest.raises(BadRequestError, match="score"):
        stored_line(changed("record", score=1e308), 7)
