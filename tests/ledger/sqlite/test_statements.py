"""SQL statements have unique names."""

import pytest

from local2.ledger.sql import named

ONE = "-- name: one\nSELECT 1;\n\n-- Why there are two.\n-- name: two\nSELECT 2;\n"


def test_statements_are_found_by_their_names() -> None:
    assert set(named([ONE, "-- name: three\nSELECT 3;"])) == {"one", "two", "three"}
    assert named([ONE])["two"] == "SELECT 2;"


def test_a_comment_behind_a_part_is_not_a_part_of_it() -> None:
    text = "-- part: columns\na, b\n\n-- All of them.\n-- name: every\nSELECT {columns} FROM t;"

    assert named([text])["every"] == "SELECT a, b FROM t;"


@pytest.mark.parametrize("texts", [[ONE + ONE], [ONE, "-- name: two\nSELECT 3;"]])
def test_a_duplicate_name_is_refused(texts: list[str]) -> None:
    with pytest.raises(ValueError, match=r"Two statements are named (one|two)\."):
        named(texts)
