"""The rule for topic keys, the owners of topics, and ids derived from content."""

from datetime import datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from local2.errors import InvalidArgumentsError
from local2.keys import checked_topic, fold_topic, is_topic
from local2.ledger.records import place_of_topic
from local2.protocol.envelope import content_id
from local2.protocol.times import in_utc, time_of, written_time


@pytest.mark.parametrize(
    "topic",
    [
        "user.name",
        "user.language_preference",
        "project.deadline",
        "constraint.no_orms",
        "project.api.v2.port_8080",
        "user." + "a" * 195,
        "User.Name",
        "PROJECT.dead-line",
        "user._private__name_",
        "user.naïve",
        "user.nai\u0308ve",
        "user.Lieblingsmusikstück",
        "user.любимый_язык",
        "project.締め切り",
        "user.पसंदीदा_भाषा",
        "constraint.لا_تستخدم",
        "project.v2.٣",
    ],
)
def test_a_dotted_key_under_a_known_prefix_is_a_topic(topic: str) -> None:
    assert checked_topic(topic) == topic
    assert is_topic(topic)


@pytest.mark.parametrize(
    "topic",
    [
        pytest.param("", id="empty"),
        pytest.param("user", id="prefix only"),
        pytest.param("user.", id="nothing after the dot"),
        pytest.param("name", id="no prefix"),
        pytest.param("agent.name", id="unknown prefix"),
        pytest.param("user..name", id="empty word"),
        pytest.param("user.name.", id="dot at the end"),
        pytest.param("user._-_", id="no letter or digit"),
        pytest.param("user.\u3164", id="nothing visible"),
        pytest.param("user.name!", id="punctuation"),
        pytest.param("user.½", id="a fraction"),
        pytest.param("user.👍", id="a symbol"),
        pytest.param("user.first name", id="blank"),
        pytest.param("user.name\n", id="line break"),
        pytest.param("user.*", id="wildcard"),
        pytest.param("user." + "a" * 196, id="too long"),
    ],
)
def test_any_other_key_is_refused_and_the_error_states_the_rule(topic: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=r"^topic: .* is user\., project\."):
        checked_topic(topic)
    assert not is_topic(topic)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("user.Name", "USER.name"),
        ("user.naïve", "User.nai\u0308ve"),
        ("user.Straße", "user.STRASSE"),
        ("user.\uff2e\uff21\uff2d\uff25", "user.name"),
        ("user.ΛΌΓΟΣ", "user.λόγος"),
        ("user.cafe\ufe0f", "user.cafe"),
        ("user.葛\U000e0100飾", "user.葛飾"),
        ("user.nai\u034f\u0308ve", "user.naïve"),
    ],
)
def test_keys_are_equal_regardless_of_case_and_unicode_form(one: str, other: str) -> None:
    assert fold_topic(one) == fold_topic(other)


@given(st.text())
def test_folding_a_key_twice_changes_nothing(text: str) -> None:
    assert fold_topic(fold_topic(text)) == fold_topic(text)


@pytest.mark.parametrize(
    ("one", "other"),
    [("user.name", "user.na-me"), ("user.name", "user.na_me"), ("user.naive", "user.naïve")],
)
def test_keys_with_different_spellings_are_different(one: str, other: str) -> None:
    assert fold_topic(one) != fold_topic(other)


@pytest.mark.parametrize(
    ("topic", "user", "place"),
    [
        pytest.param("user.name", "richard", ("user", "richard"), id="a user's own"),
        pytest.param("user.name", None, ("user", ""), id="a caller without a user"),
        pytest.param("project.deadline", "richard", ("tenant", ""), id="the project's"),
        pytest.param("constraint.no_orms", "richard", ("tenant", ""), id="a constraint"),
    ],
)
def test_only_user_topics_belong_to_the_user(
    topic: str, user: str | None, place: tuple[str, str]
) -> None:
    assert place_of_topic(topic, user) == place


@pytest.mark.parametrize(
    ("text", "utc"),
    [
        pytest.param("2026-11-20T12:00:00", "2026-11-20T12:00:00+00:00", id="without an offset"),
        pytest.param("2026-11-20T12:00:00+05:30", "2026-11-20T06:30:00+00:00", id="with one"),
    ],
)
def test_a_time_without_an_offset_is_utc(text: str, utc: str) -> None:
    assert in_utc(datetime.fromisoformat(text), "since").isoformat() == utc


@pytest.mark.parametrize(
    ("text", "begins", "ends"),
    [
        pytest.param("2023-05-01", "2023-05-01T00:00:00", "2023-05-01T23:59:59.999999", id="date"),
        pytest.param("2023-05-01T14:30", "2023-05-01T14:30:00", "2023-05-01T14:30:00", id="time"),
        pytest.param(
            "2023-05-01t14:30:00+02:00", "2023-05-01T12:30:00", "2023-05-01T12:30:00", id="offset"
        ),
    ],
)
def test_a_date_means_its_beginning_or_its_end(text: str, begins: str, ends: str) -> None:
    assert time_of(text, "since") == datetime.fromisoformat(f"{begins}+00:00")
    assert time_of(text, "until", ends=True) == datetime.fromisoformat(f"{ends}+00:00")


@pytest.mark.parametrize("text", ["2023-W22", "20230501", "2023-02-30", "noon", "5", "2023-05"])
def test_an_invalid_date_is_refused_with_its_field_and_an_example(text: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=rf"^since: '{text}' .*2026-05-01"):
        time_of(text, "since")


def test_a_time_before_the_calendar_is_refused_with_its_field() -> None:
    with pytest.raises(InvalidArgumentsError, match=r"^until: 0001-01-01"):
        time_of("0001-01-01T00:00:00+02:00", "until")


def test_a_time_keeps_its_offset() -> None:
    texts = ["2023-05-01T10:00:00+02:00", "2023-05-01T10:00:00", "2023-05-01T10:00:00.0000006Z"]

    written = [written_time(text, "timestamp").isoformat() for text in texts]

    assert written == [*texts[:2], "2023-05-01T10:00:00.000001+00:00"]


@given(st.lists(st.text() | st.none()), st.lists(st.text() | st.none()))
def test_equal_contents_have_equal_ids(one: list[str | None], other: list[str | None]) -> None:
    assert (content_id(*one) == content_id(*other)) is (one == other)
