"""Play a story on a live stack, step by step, and record the result of each step.

Every run creates its own users and sessions, so that stories on one stack stay separate.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from string import Template
from typing import Any, Literal, Self, TypeVar

import msgspec

from local2.client import connect, publish_durably
from local2.client.tools import Toolbox, call_tool
from local2.errors import Local2Error, ModelError
from local2.protocol import subjects
from local2.protocol.envelope import Sender, decode, encode, new_id, seal_from
from local2.protocol.payloads import Feedback, ToolResult
from local2.stories.bench import Bench, FreshBench, StoryTool, hosted
from local2.stories.checks import Check, Outcome, Problem, filled, problems, value_at
from local2.stories.script import (
    Call,
    Discover,
    Publish,
    Rate,
    Raw,
    Restart,
    Say,
    Step,
    Story,
    StorySession,
)

POLL = 0.05
"""Seconds between two checks of a condition."""
FOREIGN_STACK = "the stack is not the story's own"
DEFAULT_USER = "user"
"""The user of sessions that name none."""

Problems = tuple[Problem, ...]
T = TypeVar("T", bound=Outcome)


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a step, with its problems if it failed, or the reason if it was skipped."""

    session: str
    step: str
    status: Literal["passed", "failed", "skipped"]
    seconds: float = 0.0
    problems: Problems = ()
    reason: str | None = None


class StoryResult(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    passed: bool
    seconds: float
    steps: tuple[StepResult, ...]

    @classmethod
    def from_steps(cls, name: str, steps: Sequence[StepResult]) -> Self:
        return cls(
            name=name,
            passed=all(step.status != "failed" for step in steps),
            seconds=sum(step.seconds for step in steps),
            steps=tuple(steps),
        )


async def run_story(
    story: Story, bench: Bench, on_step: Callable[[StepResult], None] = lambda _: None
) -> StoryResult:
    """Play a story. Steps after a failed one are skipped, because they build on it.

    Args:
        story: The story to play.
        bench: An open bench with the stack to play it on.
        on_step: Called with the result of each step.
    """
    results: list[StepResult] = []
    async with _Run(bench, story.tools) as run:
        for session in story.sessions:
            for step in session.turns:
                result = await run.play(session, step)
                on_step(result)
                results.append(result)
    return StoryResult.from_steps(story.name, results)


class _Run:
    """One run of a story: its users, sessions and tools, and the values kept for later steps."""

    def __init__(self, bench: Bench, tools: Sequence[StoryTool]) -> None:
        self._bench = bench
        self._tools = tools
        self._hosts = AsyncExitStack()
        self._stored: dict[str, Any] = {}
        self._suffix = new_id().rpartition("-")[2]
        self._labelled: dict[str, str] = {}
        self._latest: dict[str, str] = {}
        self._failed = False
        self._has_generator = True

    async def __aenter__(self) -> Self:
        await self._hosts.enter_async_context(hosted(self._bench.url, self._tools))
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._hosts.aclose()

    async def play(self, session: StorySession, step: Step) -> StepResult:
        reason = None
        if self._failed:
            reason = "an earlier step failed"
        elif isinstance(step, Restart) and not isinstance(self._bench, FreshBench):
            self._has_generator = step.generator
            reason = FOREIGN_STACK
        elif not self._has_generator:
            reason = FOREIGN_STACK
        if reason is not None:
            return StepResult(session=session.id, step=str(step), status="skipped", reason=reason)
        begun = time.perf_counter()
        try:
            unmet = await self._do(session, step)
        except Local2Error as error:
            unmet = (Problem(expected="the step succeeds", came=str(error)),)
        self._failed = bool(unmet)
        return StepResult(
            session=session.id,
            step=str(step),
            status="failed" if unmet else "passed",
            seconds=time.perf_counter() - begun,
            problems=unmet,
        )

    async def _do(self, session: StorySession, step: Step) -> Problems:
        match step:
            case Say():
                caller = self._caller(session, "story")
                for text in step.texts():
                    turn = await self._bench.queries.ask(text, caller=caller, timeout=step.within)
                    if turn.error is not None:
                        raise ModelError(turn.error.message)
                    if turn.query_id is not None:
                        self._latest[session.id] = turn.query_id
                        if step.label is not None:
                            self._labelled[step.label] = turn.query_id
                    if unmet := problems(step.expected, turn):
                        return unmet
            case Call():
                caller = self._caller(session, step.agent)
                call = step.filled(self._values(caller))

                async def attempt() -> ToolResult:
                    return await call_tool(
                        self._bench.bus, call.call, call.args, caller=caller, timeout=call.within
                    )

                result, unmet = await _until_met(
                    call.expected, attempt, seconds=call.eventually or 0.0
                )
                if unmet:
                    return unmet
                whole = msgspec.to_builtins(result)
                values = {name: value_at(whole, path) for name, path in call.keep.items()}
                self._stored |= values
                return tuple(
                    Problem(expected=f"something to keep at {path}", came=result.content)
                    for name, path in call.keep.items()
                    if values[name] is None
                )
            case Raw():
                caller = self._caller(session, "story")
                template = Template(step.raw)
                text = template.safe_substitute(user=caller.user, session=caller.session_id)
                subject = step.to if "." in step.to else subjects.tool_request(step.to)
                sent = await self._bench.bus.request(subject, text.encode(), timeout=step.within)
                return problems(step.expected, decode(sent.data, ToolResult).payload)
            case Discover():
                async with (
                    connect(self._bench.url, name="late_joiner") as bus,
                    Toolbox(bus, source="late_joiner") as toolbox,
                ):

                    async def announced() -> tuple[str, ...]:
                        return tuple(schema.name for schema in toolbox.schemas)

                    _, unmet = await _until_met(step.expected, announced, seconds=step.within)
                    return unmet
            case Publish():
                message = filled(step.publish, self._values(self._caller(session, "story")))
                await publish_durably(self._bench.bus, step.to, msgspec.json.encode(message))
            case Rate():
                query_id = self._labelled[step.of] if step.of else self._latest[session.id]
                caller = self._caller(session, "story")
                rating = seal_from(
                    msgspec.structs.replace(caller, query_id=query_id),
                    Feedback(query_id=query_id, score=step.rate),
                    type="feedback",
                )
                await publish_durably(self._bench.bus, subjects.RESPONSE_FEEDBACK, encode(rating))
            case Restart(generator=generator) if isinstance(self._bench, FreshBench):
                await self._hosts.aclose()
                await self._bench.restart(with_generator=generator)
                await self.__aenter__()
        return ()

    def _values(self, caller: Sender) -> dict[str, Any]:
        """The values of each `$name` in a step of this caller."""
        return {**self._stored, "user": caller.user, "session": caller.session_id}

    def _caller(self, session: StorySession, agent: str) -> Sender:
        return Sender(
            user=f"{session.user or DEFAULT_USER}-{self._suffix}",
            agent=agent,
            session_id=f"{session.id}-{self._suffix}",
        )


async def _until_met(
    expected: Sequence[Check], attempt: Callable[[], Awaitable[T]], *, seconds: float
) -> tuple[T, Problems]:
    """Try at least once, until all checks hold or the time is over; return the last outcome."""
    end = time.monotonic() + seconds
    while True:
        outcome = await attempt()
        unmet = problems(expected, outcome)
        if not unmet or time.monotonic() >= end:
            return outcome, unmet
        await asyncio.sleep(POLL)
