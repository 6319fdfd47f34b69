"""`KEY=VALUE` words become arguments of the schema's types; output has no control characters."""

import json

import pytest
from click.testing import CliRunner

from local2.cli import app
from local2.cli.answers import Outcome, show_entry, show_outcomes
from local2.cli.output import Output, printable, styled
from local2.cli.talk import parsed
from local2.errors import InvalidArgumentsError

SCHEMA = {"properties": {"topic": {"type": "string"}, "top_k": {"type": "integer"}}}


@pytest.mark.parametrize(
    ("word", "expected"),
    [
        pytest.param("topic=user.name", {"topic": "user.name"}, id="text"),
        pytest.param("topic=42", {"topic": "42"}, id="text-that-looks-like-a-number"),
        pytest.param("topic=a=b", {"topic": "a=b"}, id="value-with-an-equals-sign"),
        pytest.param("top_k=3", {"top_k": 3}, id="number"),
        pytest.param("colour=green", {"colour": "green"}, id="unknown-is-passed-to-the-tool"),
    ],
)
def test_a_word_becomes_an_argument_of_the_declared_type(
    word: str, expected: dict[str, object]
) -> None:
    assert parsed([word], SCHEMA) == expected


@pytest.mark.parametrize(
    ("word", "expected"), [("topic", "topic=user.name"), ("top_k=many", "integer as JSON")]
)
def test_an_error_names_an_invalid_word_and_what_to_write(word: str, expected: str) -> None:
    with pytest.raises(InvalidArgumentsError, match=word.partition("=")[0]) as refused:
        parsed([word], SCHEMA)

    assert expected in (refused.value.remedy or "")


def test_a_mistyped_command_is_answered_with_the_one_that_is_like_it() -> None:
    done = CliRunner().invoke(app, ["histroy", "user.name"])

    assert (done.exit_code, "Did you mean 'history'?" in done.stderr) == (2, True)


def test_control_characters_are_not_printed() -> None:
    assert printable("\x1b[31mEvil\x1b]0;pwned\ttab\nline") == " [31mEvil ]0;pwned\ttab\nline"


def test_no_kind_of_output_prints_control_characters(capsys: pytest.CaptureFixture[str]) -> None:
    output, evil = Output(), "\x1b]0;pwned\x07 \udcff"
    output.text(evil)
    output.failure(evil)
    output.error(InvalidArgumentsError(evil, remedy=evil))
    show_entry(output, styled(f"1. {evil}"), evil)
    show_outcomes(output, [Outcome(file=evil, content=evil), Outcome(file=evil, error=evil)])

    printed = "".join(capsys.readouterr())

    assert printed.count("pwned") == 10
    assert all(character.isprintable() or character == "\n" for character in printed)


def test_an_error_with_invalid_unicode_is_still_json(capsys: pytest.CaptureFixture[str]) -> None:
    Output(json=True).error(InvalidArgumentsError("no \udcff"))

    assert json.loads(capsys.readouterr().out)["error"]["message"] == "no  "
