"""Identifiers, numbers and dates have the words of their other writings; prose has none."""

import pytest

from local2.language.writings import other_writings, parts_of, wholes_of


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("loadUserProfile", ["load", "user", "profile"], id="camelCase"),
        pytest.param("The UserProfileLoader!", ["user", "profile", "loader"], id="PascalCase"),
        pytest.param("XMLExportWorker", ["xml", "export", "worker"], id="capitals"),
        pytest.param("OAuth2ClientFactory", ["auth", "client", "factory"], id="a digit inside"),
        pytest.param("20TB", ["20", "tb"], id="a unit"),
        pytest.param("KX4471", ["kx", "4471"], id="letters and digits"),
        pytest.param("v1.14", ["v", "1"], id="a version"),
    ],
)
def test_a_word_that_is_several_in_one_has_their_words(text: str, expected: list[str]) -> None:
    assert [part for parts in parts_of(text).values() for part in parts] == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        pytest.param("MAX_MERGE_TRIES", {"maxmergetries"}, id="snake_case"),
        pytest.param("ORD-2024-0815", {"ord20240815"}, id="an order"),
        pytest.param("12,480.50 EUR", {"12480"}, id="thousands, as in English"),
        pytest.param("12.480,50", {"12480"}, id="as in German"),
        pytest.param("12 480,50", {"12480"}, id="with a space"),
        pytest.param("1.000.000", {"1000000"}, id="a million"),
        pytest.param("0170 5551234", {"01705551234", "5551234"}, id="a telephone number"),
        pytest.param("+49 170 555 12 34", {"491705551234", "5551234"}, id="as from abroad"),
        pytest.param("call 01705551234", {"01705551234", "5551234"}, id="without groups"),
        pytest.param("2026-11-29", {"20261129", "november", "29"}, id="a date"),
        pytest.param("29.11.2026", {"20261129", "november", "29"}, id="with dots"),
        pytest.param("11/29/2026", {"20261129", "november", "29"}, id="month first"),
        pytest.param("the 29th of November 2026", {"20261129", "november", "29"}, id="in words"),
        pytest.param("Nov. 29, 2026", {"20261129", "november", "29"}, id="as in America"),
        pytest.param("from 2026-11-29 03:12:07", {"20261129", "november", "29"}, id="and a time"),
    ],
)
def test_what_is_written_in_parts_is_also_one_word(text: str, expected: set[str]) -> None:
    assert expected <= set(wholes_of(text))


@pytest.mark.parametrize(
    "text",
    [
        "Ann McVie's well-known friends met Bob at NASA, and they had IDs.",
        "He won 3-1 on the 29th at 10:30, in 2026.",
        "3/4/2026",  # nobody knows which is the month
        "2026-13-01",
        "8f3a91c2d7e04b88 1712345678901",
    ],
)
def test_other_texts_have_no_other_writing(text: str) -> None:
    assert [word for word in other_writings(text) if not word.isdigit()] == []


def test_what_is_too_long_for_a_number_or_name_is_none() -> None:
    assert other_writings(f"0{'9' * 5_000} 1-{'1' * 5_000} a_{'b' * 5_000}") == []
