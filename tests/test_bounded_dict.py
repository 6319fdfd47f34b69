"""Bounded dicts: they keep the entries that were set last."""

from local2.bounded_dict import BoundedDict


def test_a_full_dict_drops_the_entry_that_was_set_longest_ago() -> None:
    held = BoundedDict[str, int](2)
    held["a"], held["b"] = 1, 2
    held["a"] = 3
    held["c"] = 4
    assert held == {"a": 3, "c": 4}


def test_reading_an_entry_does_not_make_it_newer() -> None:
    held = BoundedDict[str, int](2)
    held["a"], held["b"] = 1, 2
    assert held["a"] == 1
    held["c"] = 3
    assert list(held) == ["b", "c"]
