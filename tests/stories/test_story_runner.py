"""How a story is told: attempts, failures, fresh names a run, and what cannot be done."""

from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from local.bus.connection import Message, connect
from local.bus.server import embedded_server
from local.bus.tool_host import ToolHost
from local.protocol import subjects
from local.protocol.caller import Caller
from local.protocol.codec import decode, encode
from local.protocol.envelope import seal
from local.protocol.payloads import ErrorReply, Generation, Query, ToolResult
from local.protocol.tool import Tool, ToolOutput
from local.stories.bench import Bench
from local.stories.checks import Check, ToolCalled
from local.stories.runner import StepResult, run_story
from local.stories.script import (
    Call,
    Discover,
    Raw,
    Restart,
    Say,
    Session,
    Step,
    Story,
)


class Nothing(msgspec.Struct, frozen=True):
    pass


class Count(msgspec.Struct, frozen=True):
    calls: int


class Counter:
    """A tool that answers how often it was called, and remembers by whom."""

    def __init__(self) -> None:
        self.callers: list[Caller] = []

    async def run(self, caller: Caller, _args: Nothing) -> ToolOutput:
        self.callers.append(caller)
        return ToolOutput(content="counted", data=Count(calls=len(self.callers)))


@pytest.fixture
def counter() -> Counter:
    return Counter()


@pytest.fixture
async def bench(tmp_path: Path, counter: Counter) -> AsyncIterator[Bench]:
    """A bus of its own with one tool, `count`, and no memory."""
    tool = Tool(name="count", description="Counts.", version="1", args=Nothing, run=counter.run)
    async with (
        embedded_server(tmp_path / "nats", host="127.0.0.1", port=-1) as server,
        connect(server.url, name="tool") as bus,
        ToolHost(bus, tool),
        Bench(server.url) as bench,
    ):
        yield bench


def told(*turns: Step, user: str | None = None) -> Story:
    session = Session(id="first", user=user, turns=turns)
    return Story(name="n", description="d", sessions=(session,))


def counted(calls: int) -> Check:
    return Check(result_data={"calls": calls})


async def test_what_must_hold_eventually_is_tried_again(bench: Bench) -> None:
    story = told(Call(call="count", expect=(counted(3),), eventually=10))
    assert (await run_story(story, bench)).passed


async def test_what_must_hold_at_once_is_tried_once(bench: Bench, counter: Counter) -> None:
    result = await run_story(told(Call(call="count", expect=(counted(2),))), bench)
    assert not result.passed
    assert len(counter.callers) == 1


async def test_what_never_holds_fails_and_says_what_came(bench: Bench) -> None:
    story = told(Call(call="count", expect=(counted(-1),), eventually=0.2))
    (step,) = (await run_story(story, bench)).steps
    assert step.status == "failed"
    (problem,) = step.problems
    assert problem.expected == 'result_data: {"calls":-1}'
    assert problem.came.startswith('{"calls":')


async def test_what_follows_a_failed_step_is_skipped_and_says_so(bench: Bench) -> None:
    heard: list[StepResult] = []
    story = told(Call(call="count", expect=(counted(7),)), Call(call="count"), Call(call="count"))
    result = await run_story(story, bench, heard.append)
    assert [step.status for step in result.steps] == ["failed", "skipped", "skipped"]
    assert result.steps[1].reason == "an earlier step failed"
    assert not result.passed
    assert heard == list(result.steps)


async def test_a_restart_of_somebody_elses_stack_is_skipped_and_the_story_goes_on(
    bench: Bench,
) -> None:
    result = await run_story(told(Restart(restart=True), Call(call="count")), bench)
    assert [step.status for step in result.steps] == ["skipped", "passed"]
    assert result.steps[0].reason == "the stack is not the story's own"
    assert result.passed


async def test_every_run_has_users_and_sessions_of_its_own(bench: Bench, counter: Counter) -> None:
    story = told(Call(call="count", agent="critic"), Call(call="count"), user="richard")
    for _ in range(2):
        await run_story(story, bench)
    first, same, second, _ = counter.callers
    assert (first.agent, same.agent) == ("critic", "story")
    assert (first.user, first.session_id) == (same.user, same.session_id)
    assert first.user != second.user
    assert first.session_id != second.session_id


async def test_a_raw_request_arrives_as_it_is_but_for_the_runs_names(
    bench: Bench, counter: Counter
) -> None:
    story = told(
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


async def test_discovery_fails_when_a_tool_stays_away(bench: Bench) -> None:
    there = Discover(discover=True, expect=(Check(tools_include=("count",)),))
    away = Discover(discover=True, expect=(Check(tools_include=("count", "paint")),), within=0.3)
    result = await run_story(told(there, away), bench)
    assert [step.status for step in result.steps] == ["passed", "failed"]
    assert result.steps[1].problems[0].came == "tools: count"


async def test_a_query_that_nobody_answers_fails(bench: Bench) -> None:
    (step,) = (await run_story(told(Say(say="Hello", within=0.3)), bench)).steps
    assert step.status == "failed"
    assert "No GeneratorAgent is on the bus" in step.problems[0].came


async def test_an_answer_that_went_wrong_fails_with_its_reason(bench: Bench) -> None:
    async def fail(message: Message) -> None:
        query = decode(message.data, Query).payload
        accepted = seal(ToolResult(ok=True, content=""), type="result", source="fake")
        turn = Generation(
            answer="",
            query=query.query,
            session_id=query.session_id,
            query_id=query.query_id,
            error=ErrorReply(code="unavailable", message="The model is gone."),
        )
        await bench.bus.publish(message.reply, encode(accepted))
        answer = encode(seal(turn, type="response", source="fake"))
        await bench.bus.publish(subjects.RESPONSE_GENERATION, answer)

    await bench.bus.subscribe(subjects.QUERY_RECEIVED, fail)
    expected = Check(tool_called=ToolCalled(name="count"))
    (step,) = (await run_story(told(Say(say="Hello", expect=(expected,))), bench)).steps
    assert step.status == "failed"
    assert step.problems[0].came == "The model is gone."
