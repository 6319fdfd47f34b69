"""Lines of an export: what local2 could not have written is refused, and named."""

import pytest

from local2.errors import BadRequestError
from local2.protocol.portable import any_line

FACT = (
    b'{"type": "record", "id": "x", "kind": "fact", "content": "Gold.", "source_class": "stated", '
    b'"event_time": "2026-05-01T00:00:00Z", "memory_type": "TYPE"}'
)
OUTPUT = (
    b'{"type": "output", "owner": "u", "first": 0, "until": 1, "text": "t", "key": "KEY", '
    b'"kept_at": "2026-05-01T00:00:00Z"}'
)


@pytest.mark.parametrize(
    ("line", "field"),
    [
        (FACT.replace(b"TYPE", b"mood"), "memory_type"),
        (OUTPUT.replace(b"KEY", b"../../x"), "key"),
    ],
)
def test_a_type_of_facts_and_a_key_that_nobody_could_store_are_refused(
    line: bytes, field: str
) -> None:
    with pytest.raises(BadRequestError, match=rf"Line 7 .*{field}"):
        any_line(line, 7)


def test_what_could_be_stored_is_read() -> None:
    assert any_line(FACT.replace(b"TYPE", b"preference"), 1)
    assert any_line(OUTPUT.replace(b"KEY", b"tout_" + b"0a" * 12), 1)
