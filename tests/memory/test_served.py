"""The memory recognises its own recent answers, by the caller and the text."""

import pytest

from calling import RICHARD
from local2.bus.connection import Connection
from local2.client.tools import call_tool
from local2.memory import answer_log
from local2.memory.answer_log import AnswerLog
from local2.memory.tenant import Memory
from local2.protocol.envelope import utc_now
from local2.protocol.payloads import ToolResult


async def call(bus: Connection, tool: str, **args: object) -> ToolResult:
    return await call_tool(bus, tool, args, caller=RICHARD)


@pytest.mark.parametrize(
    ("tool", "args"),
    [
        ("recall_topic", {"topic": "user.language"}),
        ("recall", {"query": "Elixir"}),
        ("memory_history", {"topic_or_id": "user.language"}),
    ],
)
async def test_an_answer_of_a_tool_is_recognised_by_its_text(
    bus: Connection, tools: Memory, tool: str, args: dict[str, object]
) -> None:
    saved = (await call(bus, "save_topic", topic="user.language", content="Elixir")).data

    answer = await call(bus, tool, **args)

    assert tools.answer_log.shown_in("richard", tool, answer.content) == (saved["id"],)
    assert tools.answer_log.shown_to("richard", "s1") == (saved["id"],)


async def test_episodes_in_an_answer_are_recognised(bus: Connection, tools: Memory) -> None:
    noted = (await call(bus, "save_memory", content="We chose Postgres.")).data

    answer = await call(bus, "search_memory", query="Postgres")

    assert tools.answer_log.shown_in("richard", "search_memory", answer.content) == (noted["id"],)


async def test_a_failure_of_the_memorys_tool_is_also_recognised(
    bus: Connection, tools: Memory
) -> None:
    answer = await call(bus, "recall", query=" ")

    assert not answer.ok
    assert tools.answer_log.shown_in("richard", "recall", answer.content) == ()


async def test_an_answer_is_recognised_only_for_its_user_and_tool(
    bus: Connection, tools: Memory
) -> None:
    await call(bus, "save_topic", topic="user.language", content="Elixir")
    answer = await call(bus, "recall", query="Elixir")

    assert tools.answer_log.shown_in("eve", "recall", answer.content) is None
    assert tools.answer_log.shown_in("richard", "search", answer.content) is None
    assert tools.answer_log.shown_in("richard", "recall", "Something else.") is None
    assert tools.answer_log.shown_to("eve", "s1") == ()


def test_an_answer_is_recognised_cut_and_with_other_white_space() -> None:
    answered = AnswerLog(since=utc_now())
    text = "word " * 3_000

    answered.add(RICHARD, "recall", text, ["a"])

    assert answered.shown_in("richard", "recall", "word\n" * 2_000) == ("a",)


def test_the_log_of_answers_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_log, "MAX_RESULTS", 2)
    monkeypatch.setattr(answer_log, "MAX_SHOWN", 2)
    answered = AnswerLog(since=utc_now())

    for id_ in "abc":
        answered.add(RICHARD, "recall", f"The answer {id_}", [id_])

    assert answered.shown_in("richard", "recall", "The answer a") is None
    assert answered.shown_in("richard", "recall", "The answer c") == ("c",)
    assert answered.shown_to("richard", "s1") == ("b", "c")
