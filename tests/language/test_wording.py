"""A statement that was put into the third person is found again in the first."""

import pytest

from local2.language.wording import first_person, standalone


@pytest.mark.parametrize(
    ("clause", "reworded"),
    [
        ("I tie my own flies", "The user ties their own flies."),
        ("I lie down at noon", "The user lies down at noon."),
        ("I often try new tea", "The user often tries new tea."),
        ("I play chess", "The user plays chess."),
        ("I pass the bakery", "The user passes the bakery."),
        ("I am at home", "The user is at home."),
    ],
)
def test_a_statement_is_put_into_the_third_person_and_back(clause: str, reworded: str) -> None:
    assert standalone(clause, None) == reworded
    assert first_person(reworded.rstrip("."), None) == clause
