"""How a story runs: attempts, failures, fresh names per run, and steps that cannot be done."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from local2.bus.connection import BusMessage, connect
from local2.bus.server import embedded_server
from local2.bus.streams import ensure_streams, turns_stream
from local2.bus.tool_host import ToolHost
from local2.protocol import subjects
from local2.protocol.envelope import Caller, decode, encode, seal
from local2.protocol.payloads import ErrorReply, Generation, Json, Query, ToolResult
from local2.protocol.tool import Tool, ToolOutput
from local2.settings import Settings
from local2.stories.bench import Bench, FreshBench, StoryTool
from local2.stories.checks import Check, ExpectedCall, Problem
from local2.stories.runner import StepResult, run_story
from local2.stories.script import (
    Call,
    Discover,
    Publish,
    Raw,
    Restart,
    Say,
    Step,
    Story,
    StorySession,
)


class Anything(msgspec.Struct, frozen=True, omit_defaults=True):
    whose: str = ""


class Count(msgspec.Struct, frozen=True):
    calls: int


class Counter:
    """A tool that answers how often it was called, and records its callers and arguments."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []
        self.arguments: list[Json] = []

    async def run(self, caller: Caller, args: Anything) -> ToolOutput:
        self.callers.append(caller)
        self.arguments.append(msgspec.to_builtins(args))
        return ToolOutput(content="counted", data=Count(calls=len(self.callers)))


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
async def bench(tmp_path: Path, counter: Counter) -> AsyncIterator[Bench]:
    """A separate bus with one tool, `count`, and no memory."""
    tool = Tool(name="count", description="Counts.", version="1", args=Anything, run=counter.run)
    async with (
        embedded_server(tmp_path / "nats", host="127.0.0.1", port=-1) as server,
        connect(server.url, name="tool") as bus,
        ToolHost(bus, tool),
        Bench(server.url) as bench,
    ):
        yield bench


def story_of(*turns: Step, user: str | None = None) -> Story:
    session = StorySession(id="first", user=user, turns=turns)
    return Story(name="n", description="d", sessions=(session,))


def count_check(calls: int | str) -> Check:
    return Check(result_data={"calls": calls})


async def test_an_eventual_expectation_is_retried(bench: Bench) -> None:
    story = story_of(Call(call="count", expect=(count_check(3),), eventually=10))
    assert (await run_story(story, bench)).passed


async def test_an_immediate_expectation_is_tried_once(bench: Bench, counter: Counter) -> None:
    result = await run_story(story_of(Call(call="count", expect=(count_check(2),))), bench)
    assert not result.passed
    assert len(counter.callers) == 1


async def test_an_expectation_that_is_never_met_fails_with_the_actual_value(bench: Bench) -> None:
    story = story_of(Call(call="count", expect=(count_check(-1),), eventually=0.2))
    (step,) = (await run_story(story, bench)).steps
    assert step.status == "failed"
    (problem,) = step.problems
    assert problem.expected == 'result_data: {"calls":-1}'
    assert problem.came.startswith('{"calls":')


async def test_steps_after_a_failed_one_are_reported_as_skipped(bench: Bench) -> None:
    received: list[StepResult] = []
    story = story_of(
        Call(call="count", expect=(count_check(7),)), Call(call="count"), Call(call="count")
    )
    result = await run_story(story, bench, received.append)
    assert [step.status for step in result.steps] == ["failed", "skipped", "skipped"]
    assert result.steps[1].reason == "an earlier step failed"
    assert not result.passed
    assert received == list(result.steps)


async def test_restarting_a_foreign_stack_is_skipped_and_the_story_continues(
    bench: Bench,
) -> None:
    result = await run_story(story_of(Restart(restart=True), Call(call="count")), bench)
    assert [step.status for step in result.steps] == ["skipped", "passed"]
    assert result.steps[0].reason == "the stack is not the story's own"
    assert result.passed


async def test_every_run_has_its_own_users_and_sessions(bench: Bench, counter: Counter) -> None:
    story = story_of(Call(call="count", agent="critic"), Call(call="count"), user="richard")
    for _ in range(2):
        await run_story(story, bench)
    first, same, second, _ = counter.callers
    assert (first.agent, same.agent) == ("critic", "story")
    assert (first.user, first.session_id) == (same.user, same.session_id)
    assert first.user != second.user
    assert first.session_id != second.session_id


async def test_a_raw_request_is_sent_unchanged_except_for_the_runs_names(
    bench: Bench, counter: Counter
) -> None:
    story = story_of(
        Call(call="count"),
        Raw(raw='{"user": "$user", "session_id": "$session", "payload": {"args": {}}}', to="count"),
        Raw(raw='{"broken', to="count", expect=(Check(error_code="bad_request"),)),
        Raw(raw="{}", to="nobody"),
    )
    result = await run_story(story, bench)
    assert [step.status for step in result.steps] == ["passed", "passed", "passed", "failed"]
    called, sent = counter.callers
    assert (called.user, called.session_id) == (sent.user, sent.session_id)
    assert "Nobody serves" in result.steps[3].problems[0].came


async def test_a_message_is_published_to_its_stream_with_its_names_replaced(
    bench: Bench, counter: Counter
) -> None:
    await ensure_streams(bench.bus, "default")
    turn: Json = {"user": "$user", "payload": {"session_id": "$session", "answer": "$first"}}
    story = story_of(
        Call(call="count", keep={"first": "data.calls"}),
        Publish(publish=turn),
        Publish(publish={"payload": {"score": 1}}, to="response.feedback"),
    )
    await run_story(story, bench)

    async def stored(sequence: int) -> tuple[str | None, Any]:
        message = await bench.bus.client.jsm().get_msg(turns_stream("default"), seq=sequence)
        return message.subject, msgspec.json.decode(message.data or b"")

    (caller,) = counter.callers
    expected_turn = {"user": caller.user, "payload": {"session_id": caller.session_id, "answer": 1}}
    assert await stored(1) == ("response.generation", expected_turn)
    assert await stored(2) == ("response.feedback", {"payload": {"score": 1}})


async def test_a_value_of_one_result_can_be_an_argument_and_expectation_of_the_next(
    bench: Bench, counter: Counter
) -> None:
    story = story_of(
        Call(call="count", keep={"first": "data.calls", "text": "content"}),
        Call(call="count", args={"whose": "$user"}, expect=(count_check("$first"),)),
        Call(call="count"),
    )
    result = await run_story(story, bench)
    assert [step.status for step in result.steps] == ["passed", "failed", "skipped"]
    assert result.steps[1].problems == (
        Problem(expected='result_data: {"calls":1}', came='{"calls":2}'),
    )
    assert counter.arguments == [{}, {"whose": counter.callers[0].user}]


async def test_a_value_to_keep_must_exist(bench: Bench) -> None:
    story = story_of(Call(call="count", keep={"key": "tool_output_key"}), Call(call="count"))
    result = await run_story(story, bench)
    assert [step.status for step in result.steps] == ["failed", "skipped"]
    assert result.steps[0].problems == (
        Problem(expected="something to keep at tool_output_key", came="counted"),
    )


async def test_a_storys_tools_are_served_only_while_it_runs(bench: Bench) -> None:
    expect = (Check(result_contains="Rung."),)
    ringing = story_of(
        Discover(discover=True, expect=(Check(tools_include=("ring",)),)),
        Call(call="ring", args={"anything": 1}, expect=expect),
    )
    with_tool = msgspec.structs.replace(ringing, tools=(StoryTool(name="ring", returns="Rung."),))

    assert (await run_story(with_tool, bench)).passed
    (step,) = (await run_story(story_of(Call(call="ring", expect=expect)), bench)).steps
    assert step.problems[0].came.startswith("Error (unknown_tool)")


async def test_a_storys_tools_are_served_again_after_a_restart(tmp_path: Path) -> None:
    story = msgspec.structs.replace(
        story_of(
            Restart(restart=True), Call(call="ring", expect=(Check(result_contains="Rung."),))
        ),
        tools=(StoryTool(name="ring", returns="Rung."),),
    )
    async with FreshBench(tmp_path, Settings(), model="rules") as bench:
        result = await run_story(story, bench)
    assert [step.status for step in result.steps] == ["passed", "passed"]


async def test_discovery_fails_when_a_tool_is_missing(bench: Bench) -> None:
    present = Discover(discover=True, expect=(Check(tools_include=("count",)),))
    absent = Discover(discover=True, expect=(Check(tools_include=("count", "paint")),), within=0.3)
    result = await run_story(story_of(present, absent), bench)
    assert [step.status for step in result.steps] == ["passed", "failed"]
    assert result.steps[1].problems[0].came == "tools: count"


async def test_a_query_that_nobody_answers_fails(bench: Bench) -> None:
    (step,) = (await run_story(story_of(Say(say="Hello", within=0.3)), bench)).steps
    assert step.status == "failed"
    assert "No GeneratorAgent is on the bus" in step.problems[0].came


async def run_generator(bench: Bench, answer: Callable[[str], str | ErrorReply]) -> list[str]:
    """Run a generator with these answers; return the list of queries that it receives."""
    received: list[str] = []

    async def receive(message: BusMessage) -> None:
        query = decode(message.data, Query).payload
        received.append(query.query)
        reply = answer(query.query)
        accepted = seal(ToolResult(ok=True, content=""), type="result", source="fake")
        turn = Generation(
            answer=reply if isinstance(reply, str) else "",
            query=query.query,
            session_id=query.session_id,
            query_id=query.query_id,
            error=None if isinstance(reply, str) else reply,
        )
        await bench.bus.publish(message.reply, encode(accepted))
        sealed = encode(seal(turn, type="response", source="fake"))
        await bench.bus.publish(subjects.RESPONSE_GENERATION, sealed)

    await bench.bus.subscribe(subjects.QUERY_RECEIVED, receive)
    return received


async def test_repeated_messages_are_numbered(bench: Bench) -> None:
    received = await run_generator(bench, str.upper)
    story = story_of(Say(say="Page $number", times=3, expect=(Check(answer_contains="PAGE"),)))
    (step,) = (await run_story(story, bench)).steps
    assert (step.status, step.step) == ("passed", "say: Page $number (3 times)")
    assert received == ["Page 1", "Page 2", "Page 3"]


async def test_a_message_is_repeated_only_while_its_checks_pass(bench: Bench) -> None:
    received = await run_generator(bench, str.upper)
    story = story_of(Say(say="Page $number", times=3, expect=(Check(answer_lacks="2"),)))
    (step,) = (await run_story(story, bench)).steps
    assert (step.status, step.problems[0].came) == ("failed", "PAGE 2")
    assert received == ["Page 1", "Page 2"]


async def test_an_error_instead_of_an_answer_fails_with_its_reason(bench: Bench) -> None:
    error = ErrorReply(code="unavailable", message="The model is gone.")
    await run_generator(bench, lambda _: error)
    expected = Check(tool_called=ExpectedCall(name="count"))
    (step,) = (await run_story(story_of(Say(say="Hello", expect=(expected,))), bench)).steps
    assert step.status == "failed"
    assert step.problems[0].came == "The model is gone."
