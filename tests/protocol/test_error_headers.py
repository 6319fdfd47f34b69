"""The headers of answers that report errors."""

from local2.protocol.payloads import header_value


def test_an_ellipsis_in_a_header_is_three_dots() -> None:
    assert header_value('{"payload": {"args": {…}}}') == '{"payload": {"args": {...}}}'
    assert header_value("two\nlines, naïve") == "two lines, na?ve"
