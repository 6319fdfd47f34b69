"""The benchmark `retrieval.py` reads valid data files and refuses others."""

from datetime import UTC, datetime

import msgspec
import pytest

from harness import dataset
from harness.dataset import Message, Session, moment, pieces


@pytest.mark.parametrize(
    ("text", "time"),
    [
        ("1:56 pm on 8 May, 2023", datetime(2023, 5, 8, 13, 56, tzinfo=UTC)),
        ("12:09 am on 13 September, 2023", datetime(2023, 9, 13, 0, 9, tzinfo=UTC)),
        ("March-15-2024", datetime(2024, 3, 15, tzinfo=UTC)),
        ("2024-03-15T10:00:00+02:00", datetime(2024, 3, 15, 8, tzinfo=UTC)),
        ("2024-03-15 10:00", datetime(2024, 3, 15, 10, tzinfo=UTC)),
    ],
)
def test_times_are_read_in_every_form_of_the_data_sets(text: str, time: datetime) -> None:
    assert moment(text) == time


def test_long_sessions_are_split_in_order_when_a_request_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dataset, "REQUEST_BYTES", 1_000)
    messages = [
        Message(id=str(n), role="user", content="é" * length, time="March-15-2024")
        for n, length in enumerate((100, 100, 900, 10))
    ]

    split = list(pieces(Session(id="S1", messages=messages)))

    assert [[message.id for message in piece.messages] for piece in split] == [
        ["0", "1"],
        ["2"],
        ["3"],
    ]
    assert all(piece.session_id == "S1" for piece in split)
    assert all(len(msgspec.json.encode(piece.sent)) <= 1_010 for piece in split[::2])
