"""After the top places, sessions without a place move up, within limits."""

from collections.abc import Mapping, Sequence

import pytest

from local2.memory.recall.ranking import spread_sessions


def spread(
    scores: Sequence[float], sessions: Mapping[int, str], *, order: range | None = None
) -> list[int]:
    """Return the new order of numbers, best first; sessions are "talk" unless given."""
    names = ["talk", *dict.fromkeys(sessions.values())]
    numbers = range(len(scores))
    in_session = {number: names.index(sessions.get(number, "talk")) for number in numbers}
    return spread_sessions(order or numbers, dict(enumerate(scores)), in_session)


CLOSE = [1 - number / 1_000 for number in range(60)]
"""Scores so close to each other that a new session outweighs any difference."""


def test_a_new_session_moves_up_to_the_eleventh_place_at_most() -> None:
    assert spread(CLOSE, {25: "quiet"}) == [*range(10), 25, *range(10, 25), *range(26, 60)]


def test_a_session_moves_up_once_and_only_if_it_has_no_place() -> None:
    sessions = {25: "quiet", 26: "quiet", 5: "known", 27: "known"}

    assert spread(CLOSE, sessions)[10:13] == [25, 10, 11]


def test_several_new_sessions_move_up_best_first_until_the_twentieth_place() -> None:
    sessions = {number: f"s{number}" for number in range(20, 32)}

    assert spread(CLOSE, sessions)[10:] == [*range(20, 30), *range(10, 20), *range(30, 60)]


def test_a_new_session_that_is_much_worse_does_not_move() -> None:
    scores = [1.0] * 15 + [0.81, 0.79] + [0.5] * 20

    assert spread(scores, {15: "near", 16: "far"})[10:14] == [15, 10, 11, 12]


def test_only_the_next_thirty_places_are_considered() -> None:
    assert spread(CLOSE, {39: "near"})[10] == 39
    assert spread(CLOSE, {40: "far"})[10:12] == [10, 40], "it is among them one place later"


@pytest.mark.parametrize("count", [0, 1, 10, 11])
def test_a_short_list_keeps_its_order(count: int) -> None:
    assert spread(CLOSE[:count], {}) == list(range(count))


def test_places_are_counted_in_the_given_order() -> None:
    backwards = CLOSE[:30][::-1]

    moved = spread(backwards, {3: "quiet"}, order=range(29, -1, -1))

    assert moved[:12] == [*range(29, 19, -1), 3, 19]
    assert sorted(moved) == list(range(30))
