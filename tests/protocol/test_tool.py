"""Tool schemas are complete, and errors in arguments name the choices."""

from typing import Annotated, Literal

import msgspec
import pytest

from local2.errors import InvalidArgumentsError
from local2.protocol.envelope import Caller, decode
from local2.protocol.memory_tools import MemoryHistory
from local2.protocol.payloads import ToolRequest
from local2.protocol.tool import Tool, ToolOutput, parameters_of, with_suggestion


class Part(msgspec.Struct, forbid_unknown_fields=True):
    """One part."""

    title: str
    size: int | None = None
    shade: Literal["dark", "light"] | None = None


class Order(msgspec.Struct, forbid_unknown_fields=True):
    colour: Literal["red", "green"] = "red"
    extras: list[Literal["bell", "lamp"]] = []
    parts: Annotated[list[Part], msgspec.Meta(description="What it is made of.")] = []


async def run(_: Caller, __: Order) -> ToolOutput:
    raise NotImplementedError


TOOL = Tool(name="order", description="Order.", version="1", args=Order, run=run)


def refused(args: bytes) -> InvalidArgumentsError:
    with pytest.raises(InvalidArgumentsError) as caught:
        decode(b'{"payload": {"args": %b}}' % args, ToolRequest[Order])
    return with_suggestion(caught.value, Order)


@pytest.mark.parametrize(
    ("args", "choices"),
    [
        pytest.param(b'{"colour": "blue"}', "One of: green, red.", id="one"),
        pytest.param(b'{"extras": ["bell", "whistle"]}', "One of: bell, lamp.", id="in a list"),
        pytest.param(
            b'{"parts": [{"title": "x", "shade": "red"}]}', "One of: dark, light.", id="in a part"
        ),
        pytest.param(b'{"size": 7}', "One of: colour, extras, parts.", id="a name"),
        pytest.param(
            b'{"parts": [{"title": "x", "tint": 7}]}',
            "One of: title, size, shade.",
            id="a name in a part",
        ),
        pytest.param(
            b'{"color": "red"}',
            "Did you mean colour? One of: colour, extras, parts.",
            id="a similar name",
        ),
        pytest.param(
            b'{"parts": [{"titel": "x"}]}',
            "Did you mean title? One of: title, size, shade.",
            id="a similar name in a part",
        ),
    ],
)
def test_an_invalid_choice_is_refused_with_the_choices(args: bytes, choices: str) -> None:
    assert refused(args).remedy == choices


@pytest.mark.parametrize("name", ["topic", "id", "topic_id"])
def test_a_name_that_shares_a_word_with_a_valid_one_is_asked_about(name: str) -> None:
    with pytest.raises(InvalidArgumentsError) as caught:
        decode(b'{"payload": {"args": {"%b": "x"}}}' % name.encode(), ToolRequest[MemoryHistory])

    remedy = with_suggestion(caught.value, MemoryHistory).remedy
    assert remedy == "Did you mean topic_or_id? One of: topic_or_id."


def test_other_errors_are_unchanged() -> None:
    error = refused(b'{"colour": 7}')

    assert "`colour`" in error.message
    assert error.remedy is None


def test_a_schema_includes_nested_structs_and_allows_an_argument_named_title() -> None:
    assert parameters_of(Order)["properties"]["parts"] == {
        "type": "array",
        "description": "What it is made of.",
        "default": [],
        "items": {
            "type": "object",
            "description": "One part.",
            "properties": {
                "title": {"type": "string"},
                "size": {"type": "integer"},
                "shade": {"type": "string", "enum": ["dark", "light"]},
            },
            "required": ["title"],
            "additionalProperties": False,
        },
    }
