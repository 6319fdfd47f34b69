"""Messages are decoded as they were encoded, and everything else is refused in one way."""

from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest

from local2.errors import BadRequestError, InvalidArgumentsError
from local2.protocol.envelope import decode, encode, header_of, seal, seconds_until, utc_now
from local2.protocol.maintenance import Reindex
from local2.protocol.payloads import (
    Generation,
    Query,
    ToolRequest,
)
from local2.protocol.vectors import VectorItem, VectorUpsert


class Args(msgspec.Struct, forbid_unknown_fields=True):
    topic: str


def test_an_envelope_is_decoded_as_it_was_encoded() -> None:
    sent = seal(
        Generation(answer="Elixir.", query="Which language?", query_id="q1"),
        type="response",
        source="generator_agent",
        user="richard",
        session_id="s1",
        query_id="q1",
        correlation_id="c1",
        deadline_utc=utc_now() + timedelta(seconds=5),
    )

    assert decode(encode(sent), Generation) == sent


def test_vectors_are_decoded_bit_for_bit() -> None:
    vector = bytes(range(256))
    sent = seal(
        VectorUpsert(tenant="default", items=[VectorItem(id="1", vector=vector)]),
        type="",
        source="",
    )

    assert decode(encode(sent), VectorUpsert).payload.items[0].vector == vector


def test_ids_are_unique_and_sorted_by_time() -> None:
    ids = [seal(Query(query="?"), type="", source="").id for _ in range(1000)]

    assert len(set(ids)) == 1000
    assert ids == sorted(ids)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b'{"payload": {"args": {"a":' + b"[" * 100_000, id="nested lists"),
        pytest.param(b'{"payload": {"args": ' + b'{"a":' * 100_000, id="nested objects"),
        pytest.param(b'{"extra": ' + b"[" * 100_000, id="nested in an unknown field"),
    ],
)
def test_endlessly_nested_json_is_refused(data: bytes) -> None:
    with pytest.raises(BadRequestError):
        decode(data, ToolRequest[dict[str, Any]])


@pytest.mark.parametrize(
    ("data", "names"),
    [
        pytest.param(b"remember this", "not JSON", id="text"),
        pytest.param(b'{"payload": ', "not JSON", id="cut off"),
        pytest.param(b'{"id": "\xff"}', "not JSON", id="not UTF-8"),
        pytest.param(b"[]", "Expected `object`", id="a list"),
        pytest.param(b"{}", "`payload`", id="without a payload"),
        pytest.param(b'{"payload": {}}', "`args`", id="without arguments"),
        pytest.param(b'{"payload": {"args": {}}, "id": [7]}', "at `id`", id="id is a list"),
        pytest.param(
            b'{"payload": {"args": {}}, "deadline_utc": "soon"}', "at `deadline_utc`", id="bad time"
        ),
        pytest.param(
            b'{"payload": {"args": {}}, "deadline_utc": 253402300800}',
            "at `deadline_utc`",
            id="a time in the year 10000",
        ),
        pytest.param(
            b'{"payload": {"args": {}}, "deadline_utc": 30}', "at `deadline_utc`", id="seconds"
        ),
        pytest.param(
            b'{"payload": {"args": {}}, "deadline_utc": "30"}', "at `deadline_utc`", id="their text"
        ),
    ],
)
def test_an_invalid_request_is_a_bad_request_that_names_the_place(data: bytes, names: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        decode(data, ToolRequest[dict[str, Any]])

    assert names in caught.value.message
    assert caught.value.remedy == 'A request looks like {"payload": {"args": {…}}}.'


@pytest.mark.parametrize("data", [b"[]", b"no JSON", b'{"payload": 5}', b"{}"])
def test_an_error_about_a_message_that_calls_no_tool_shows_no_arguments(data: bytes) -> None:
    with pytest.raises(BadRequestError) as caught:
        decode(data, Reindex)

    assert caught.value.remedy == 'A message looks like {"payload": {…}}.'


@pytest.mark.parametrize("payload", [b'{"embedder": 5}', b'{"embeder": "minilm"}'])
def test_an_error_about_a_field_says_nothing_of_the_message_around_it(payload: bytes) -> None:
    with pytest.raises(BadRequestError) as caught:
        decode(b'{"payload": ' + payload + b"}", Reindex)

    assert caught.value.remedy is None


@pytest.mark.parametrize(
    ("args", "message"),
    [
        pytest.param(b"{}", "Object missing required field `topic`.", id="missing"),
        pytest.param(
            b'{"topic": "a", "user": "eve"}',
            "Object contains unknown field `user`.",
            id="unknown",
        ),
        pytest.param(b'{"topic": 7}', "Expected `str`, got `int` - at `topic`.", id="mistyped"),
        pytest.param(b"[]", "Expected `object`, got `array` - at `args`.", id="a list"),
        pytest.param(b'{"topic": 1e400}', "Number out of range - at `topic`.", id="a number"),
    ],
)
def test_wrong_arguments_are_refused_by_name(args: bytes, message: str) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        decode(b'{"payload": {"args": ' + args + b"}}", ToolRequest[Args])

    assert caught.value.message == message


def test_an_argument_at_an_unknown_place_is_still_one_of_the_arguments() -> None:
    with pytest.raises(InvalidArgumentsError, match="Number out of range"):
        decode(b'{"payload": {"args": {"topic": 1e400}}}', ToolRequest[dict[str, Any]])


class Numbers(msgspec.Struct, forbid_unknown_fields=True):
    top_k: int = 5
    importance: float = 0.5
    rerank: bool = True
    topic: str = ""


@pytest.mark.parametrize(
    ("args", "read"),
    [
        pytest.param(b'{"top_k": 3.0}', Numbers(top_k=3), id="a whole number with a point"),
        pytest.param(b'{"top_k": "3"}', Numbers(top_k=3), id="an integer as text"),
        pytest.param(b'{"importance": "0.9"}', Numbers(importance=0.9), id="a number as text"),
        pytest.param(b'{"rerank": "false"}', Numbers(rerank=False), id="a truth value as text"),
        pytest.param(b'{"top_k": "3", "topic": "null"}', Numbers(top_k=3, topic="null"), id="text"),
    ],
)
def test_numbers_are_read_in_the_forms_in_which_models_write_them(
    args: bytes, read: Numbers
) -> None:
    request = decode(b'{"payload": {"args": ' + args + b"}}", ToolRequest[Numbers])

    assert request.payload.args == read


@pytest.mark.parametrize("args", [b'{"top_k": "three"}', b'{"top_k": 2.5}', b'{"topic": 7}'])
def test_what_is_no_such_number_or_text_is_refused(args: bytes) -> None:
    with pytest.raises(InvalidArgumentsError):
        decode(b'{"payload": {"args": ' + args + b"}}", ToolRequest[Numbers])


@pytest.mark.parametrize("field", ["timestamp_utc", "deadline_utc"])
def test_an_empty_time_is_no_time(field: str) -> None:
    data = msgspec.json.encode({"payload": {"args": {}}, "user": "ann", field: ""})

    envelope = decode(data, ToolRequest[dict[str, Any]])

    assert (envelope.user, getattr(envelope, field)) == ("ann", None)


def test_names_may_be_numbers_as_in_turns_and_null_is_no_name() -> None:
    read = decode(
        b'{"id": 7, "type": null, "source": null, "user": 5, "session_id": 12.0, "payload": {}}',
        Reindex,
    )

    assert (read.id, read.type, read.source, read.user, read.session_id) == ("7", "", "", "5", "12")


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(b'"payload": {"args": 7}', id="arguments"),
        pytest.param(b'"type": "request"', id="no payload"),
        pytest.param(b'"payload": {"args": {}}, "deadline_utc": "soon"', id="deadline"),
        pytest.param(b'"payload": {"args": {}}, "user": ["ada"]', id="user"),
    ],
)
def test_the_names_of_a_refused_request_can_still_be_read(wrong: bytes) -> None:
    header = header_of(b'{"id": "r1", "source": "shell", "query_id": 4, ' + wrong + b"}")

    assert header is not None
    assert (header.id, header.source, header.query_id) == ("r1", "shell", "4")


@pytest.mark.parametrize("data", [b"no envelope", b"[]", b"\xff", b"[" * 100_000])
def test_what_is_no_envelope_has_no_header(data: bytes) -> None:
    assert header_of(data) is None


@pytest.mark.parametrize(
    ("deadline", "past"),
    [
        pytest.param("2001-01-01T00:00:00", True, id="long ago, without an offset"),
        pytest.param("9999-12-31T23:59:59", False, id="far away, without an offset"),
        pytest.param("9999-12-31T23:59:59-23:59", False, id="at the end of the calendar"),
        pytest.param("0001-01-01T00:00:00+23:59", True, id="at the beginning of the calendar"),
    ],
)
def test_a_deadline_is_compared_with_now(deadline: str, *, past: bool) -> None:
    data = msgspec.json.encode({"payload": {"args": {}}, "deadline_utc": deadline})
    read = decode(data, ToolRequest[dict[str, Any]]).deadline_utc

    assert read is not None
    assert (seconds_until(read) < 0) is past


def test_a_deadline_without_an_offset_is_utc() -> None:
    naive = datetime.now(UTC).replace(tzinfo=None)

    assert -6 < seconds_until(naive - timedelta(seconds=5)) < 0
    assert 0 < seconds_until(naive + timedelta(seconds=5)) <= 5
