"""Half an emoji in JSON text is read as U+FFFD, and everything else as it is."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from local2.protocol.envelope import Envelope, decode
from local2.protocol.json_text import read_json
from local2.protocol.lenient.tools import read_result
from local2.protocol.lenient.turns import read_generation
from local2.protocol.lenient.values import value_of
from local2.protocol.portable import FeedbackLine, any_line

ANY_TEXT = st.text(st.characters() | st.sampled_from("\ud83d\ude00\\u\U0001f600"))


@given(ANY_TEXT)
def test_each_half_of_a_character_is_replaced_and_the_rest_is_kept(text: str) -> None:
    expected = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")

    assert read_json(json.dumps([text]).encode()) == [expected]


def test_half_a_character_in_utf_8_is_replaced() -> None:
    assert read_json('"19 \ud83d g"'.encode(errors="surrogatepass")) == "19 \ufffd g"


@pytest.mark.parametrize("text", [b'"\\ud8', b'{"a": "\\ud83d"', b'"\\ud83d\xff"', b"", b"["])
def test_other_broken_json_is_refused(text: bytes) -> None:
    with pytest.raises((msgspec.DecodeError, UnicodeDecodeError)):
        read_json(text)


RATING = '"owner": "u", "query_id": "q", "score": 1, "event_time": "2026-05-01T00:00:00Z"'
HALF = '"half \\ud83d, whole \\ud83c\\udf89"'
READ = "half \ufffd, whole \U0001f389"


def test_messages_on_the_bus_and_lines_of_an_export_are_read_so() -> None:
    turn = read_generation(f'{{"query": {HALF}, "answer": {HALF}}}'.encode()).envelope.payload
    envelope: Envelope[dict[str, str]] = decode(
        f'{{"payload": {{"text": {HALF}}}}}'.encode(), dict[str, str]
    )
    result = read_result(f'{{"payload": {{"ok": true, "content": {HALF}}}}}'.encode())
    line = any_line(f'{{"type": "feedback", {RATING}, "comment": {HALF}}}'.encode(), 1)

    assert (turn.query, turn.answer) == (READ, READ)
    assert envelope.payload == {"text": READ}
    assert result.payload.content == READ
    assert value_of(HALF) == READ
    assert isinstance(line, FeedbackLine)
    assert line.comment == READ
