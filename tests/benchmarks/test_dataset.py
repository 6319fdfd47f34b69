"""Data files of the benchmark `retrieval.py`: what is read of them, and what is refused."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

import dataset
from dataset import DataError, Message, Session, load, moment, pieces


def written(folder: Path, *messages: dict[str, Any]) -> Path:
    """A file with one conversation of one session."""
    session = {"id": "S1", "time": "soon", "messages": messages}
    conversation = {"id": "c", "sessions": [session], "questions": []}
    path = folder / "data.json"
    path.write_bytes(msgspec.json.encode({"name": "made up", "conversations": [conversation]}))
    return path


def said(id_: str, content: str = "Hello.", time: str = "March-15-2024") -> dict[str, Any]:
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
def test_times_are_read_in_every_form_that_occurs(text: str, time: datetime) -> None:
    assert moment(text) == time


def test_a_time_that_cannot_be_read_names_the_message(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"'c'.* message 'D1:2': 'last week' is no time"):
        load(written(tmp_path, said("D1:1"), said("D1:2", time="last week")))


def test_two_messages_of_one_id_are_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="message 'D1:1' is there 2 times"):
        load(written(tmp_path, said("D1:1"), said("D1:1")))


def test_a_file_of_another_form_is_refused_with_the_place(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"`content`.*messages"):
        load(written(tmp_path, {"id": "1", "role": "user", "time": "March-15-2024"}))


def test_long_sessions_are_cut_in_order_where_a_request_is_full(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(dataset, "REQUEST_BYTES", 1_000)
    messages = [
        Message(id=str(n), role="user", content="é" * length, time="March-15-2024")
        for n, length in enumerate((100, 100, 900, 10))
    ]

    cut = list(pieces(Session(id="S1", messages=messages)))

    assert [[message.id for message in piece.messages] for piece in cut] == [
        ["0", "1"],
        ["2"],
        ["3"],
    ]
    assert all(piece.session_id == "S1" for piece in cut)
    assert all(len(msgspec.json.encode(piece.sent)) <= 1_010 for piece in cut[::2])
