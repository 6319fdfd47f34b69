"""A turn chooses among tools that were sized when they were announced, however many there are."""

import pytest

from local2.conversation.context import CalibratedCounter, estimate
from local2.conversation.message import Message
from local2.generator import toolset
from local2.generator.toolset import ToolMenu
from local2.protocol.payloads import Function, FunctionSchema, ToolSchema


def tool(name: str, words: int = 1) -> ToolSchema:
    function = Function(name=name, description="word " * words, parameters={"type": "object"})
    return ToolSchema(
        name=name,
        description=function.description,
        version="1",
        tool_schema=FunctionSchema(function=function),
    )


def names(tools: list[ToolSchema]) -> list[str]:
    return [each.name for each in tools]


def test_tools_are_sized_once_when_they_change(monkeypatch: pytest.MonkeyPatch) -> None:
    sized: list[Message] = []

    def sizing(message: Message) -> int:
        sized.append(message)
        return estimate(message)

    monkeypatch.setattr(toolset, "estimate", sizing)
    menu, many = ToolMenu(), [tool(f"t{number}") for number in range(100)]
    menu.update(many, ())
    for _ in range(10):
        menu.choose((), 500, CalibratedCounter())
    assert len(sized) == len(many)

    menu.update([*many, tool("new")], ())
    assert len(sized) == len(many) + 1
    menu.update([tool("t0", words=2), *many[1:]], ())
    assert "word word" in str(sized[-1].content)


def test_own_tools_are_chosen_first_then_those_used_last_then_those_announced_first() -> None:
    menu, count = ToolMenu(), CalibratedCounter()
    order = ["recall", "own___", "used__", "first_", "second"]  # all of one size
    announced = ("first_", "second", "used__", "own___", "recall")
    menu.update([tool(name) for name in announced], order[:2])
    size = estimate(toolset.tools_message([toolset._definition(tool("recall"))]))

    for number in range(len(order) + 1):
        chosen = menu.choose(["gone", "used__"], number * size, count)
        assert names(chosen) == sorted(order[:number])


def test_a_small_tool_is_chosen_after_larger_ones_that_do_not_fit() -> None:
    menu, count = ToolMenu(), CalibratedCounter()
    menu.update([tool("large", words=1_000), tool("small")], ())

    assert names(menu.choose((), 100, count)) == ["small"]


def test_tools_take_as_much_room_as_the_model_has_reported() -> None:
    menu, count = ToolMenu(), CalibratedCounter()
    menu.update([tool("a", words=100), tool("b", words=100)], ("a", "b"))
    room = 2 * estimate(toolset.tools_message([toolset._definition(tool("a", words=100))])) + 5
    assert names(menu.choose((), room, count)) == ["a", "b"]

    count.observe(100, 150)

    assert names(menu.choose((), room, count)) == ["a"]
