"""The benchmark `retrieval.py` reads valid data files and refuses others."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from harness import dataset
from harness.dataset import DataError, Message, Session, load, moment, pieces


def write_data(folder: Path, *messages: dict[str, Any]) -> Path:
    """Write a file with one conversation of one session."""
    session = {"id": "S1", "time": "soon", "messages": messages}
    conversation = {"id": "c", "sessions": [session], "questions": []}
    path = folder / "data.json"
    path.write_bytes(msgspec.json.encode({"name": "made up", "conversations": [conversation]}))
    return path


def message(id_: str, content: str = "Hello.", time: str = "March-15-2024") -> dict[str, Any]:
    return {"id": id_, "role": "user", "content": content, "time": time}


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


def test_an_invalid_time_is_an_error_that_names_the_message(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'c'.* message 'D1:2': 'last week' is no time"):
        load(write_data(tmp_path, message("D1:1"), message("D1:2", time="last week")))


def test_two_messages_with_the_same_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="message 'D1:1' is there 2 times"):
        load(write_data(tmp_path, message("D1:1"), message("D1:1")))


def test_a_file_of_another_form_is_refused_with_the_path_of_the_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"`content`.*messages"):
        load(write_data(tmp_path, {"id": "1", "role": "user", "time": "March-15-2024"}))


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
