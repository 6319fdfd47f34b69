"""`KEY=VALUE` words become arguments as the tool's schema types them."""

import pytest

from local.cli.output import printable
from local.cli.tools import parsed
from local.errors import InvalidArgumentsError

SCHEMA = {"properties": {"topic": {"type": "string"}, "top_k": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        pytest.param("topic=user.name", {"topic": "user.name"}, id="text"),
        pytest.param("topic=42", {"topic": "42"}, id="text-that-looks-like-a-number"),
        pytest.param("topic=a=b", {"topic": "a=b"}, id="value-with-an-equals-sign"),
        pytest.param("top_k=3", {"top_k": 3}, id="number"),
        pytest.param("colour=green", {"colour": "green"}, id="unknown-goes-to-the-tool"),
    ],
)
def test_a_word_becomes_an_argument_of_the_declared_type(
    word: str, expected: dict[str, object]
) -> None:
    assert parsed([word], SCHEMA) == expected


@pytest.mark.parametrize("word", ["topic", "top_k=many"])
def test_a_word_that_cannot_be_read_is_named(word: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=word.partition("=")[0]):
        parsed([word], SCHEMA)


def test_what_would_command_the_terminal_is_not_printed() -> None:
    assert printable("\x1b[31mEvil\x1b]0;pwned\ttab\nline") == " [31mEvil ]0;pwned\ttab\nline"
