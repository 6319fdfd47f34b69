"""Tells a story to a live stack, step by step, and notes what came of it."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from string import Template
from typing import Literal, Self

import msgspec

from local.bus.connection import connect
from local.bus.streams import publish_durably
from local.bus.tool_client import call_tool
from local.bus.toolbox import Toolbox
from local.errors import Local2Error, ModelError
from local.protocol import subjects
from local.protocol.caller import Caller
from local.protocol.codec import decode, encode
from local.protocol.envelope import new_id, seal
from local.protocol.payloads import Feedback, Generation, ToolResult
from local.stories.bench import Bench, FreshBench
from local.stories.checks import Check, Outcome, Problem, problems
from local.stories.script import Call, Discover, Rate, Raw, Restart, Say, Session, Step, Story

POLL = 0.05
"""Seconds between two attempts at what must hold eventually."""
DEFAULT_USER = "user"
"""Whose sessions those are that name nobody."""

Problems = tuple[Problem, ...]


class StepResult(msgspec.Struct, frozen=True, kw_only=True):
    """`problems` are those of a failed step, `reason` is why one was skipped."""

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
    def of(cls, name: str, steps: Sequence[StepResult]) -> Self:
        return cls(
            name=name,
            passed=all(step.status != "failed" for step in steps),
            seconds=sum(step.seconds for step in steps),
            steps=tuple(steps),
        )


def _ignore(_result: StepResult) -> None:
    pass


async def run_story(
    story: Story, bench: Bench, on_step: Callable[[StepResult], None] = _ignore
) -> StoryResult:
    """Tell a story; what follows a failed step is skipped, since it builds on it.

    Args:
        story: What to tell.
        bench: The stack to tell it to, open.
        on_step: Hears of every step as soon as it is done.
    """
    run = _Run(bench)
    results: list[StepResult] = []
    for session in story.sessions:
        for step in session.turns:
            result = await run.result_of(session, step)
            on_step(result)
            results.append(result)
    return StoryResult.of(story.name, results)


class _Run:
    """One telling: its own users and sessions, and the queries that may be rated."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self._suffix = new_id().rpartition("-")[2]
        self._labelled: dict[str, str] = {}
        self._latest: dict[str, str] = {}
        self._failed = False

    async def result_of(self, session: Session, step: Step) -> StepResult:
        reason = self._why_not(step)
        if reason is not None:
            return StepResult(session=session.id, step=str(step), status="skipped", reason=reason)
        begun = time.perf_counter()
        try:
            found = await self._take(session, step)
        except Local2Error as error:
            found = (Problem(expected="the step can be taken", came=str(error)),)
        self._failed = bool(found)
        return StepResult(
            session=session.id,
            step=str(step),
            status="failed" if found else "passed",
            seconds=time.perf_counter() - begun,
            problems=found,
        )

    def _why_not(self, step: Step) -> str | None:
        if self._failed:
            return "an earlier step failed"
        if isinstance(step, Restart) and not isinstance(self._bench, FreshBench):
            return "the stack is not the story's own"
        return None

    async def _take(self, session: Session, step: Step) -> Problems:
        match step:
            case Say():
                return problems(step.expected, await self._say(session, step))
            case Call():
                return await _until_met(
                    step.expected, lambda: self._call(session, step), seconds=step.eventually or 0.0
                )
            case Raw():
                return problems(step.expected, await self._send(session, step))
            case Discover():
                return await self._discover(step)
            case Rate():
                await self._rate(session, step)
            case Restart() if isinstance(self._bench, FreshBench):
                await self._bench.restart()
        return ()

    async def _say(self, session: Session, step: Say) -> Generation:
        turn = await self._bench.queries.ask(
            step.say, caller=self._caller(session, "story"), timeout=step.within
        )
        if turn.error is not None:
            raise ModelError(turn.error.message)
        if turn.query_id is not None:
            self._latest[session.id] = turn.query_id
            if step.label is not None:
                self._labelled[step.label] = turn.query_id
        return turn

    async def _call(self, session: Session, step: Call) -> ToolResult:
        caller = self._caller(session, step.agent)
        return await call_tool(
            self._bench.bus, step.call, step.args, caller=caller, timeout=step.within
        )

    async def _send(self, session: Session, step: Raw) -> ToolResult:
        caller = self._caller(session, "story")
        text = Template(step.raw).safe_substitute(user=caller.user, session=caller.session_id)
        answer = await self._bench.bus.request(
            subjects.tool_request(step.to), text.encode(), timeout=step.within
        )
        return decode(answer.data, ToolResult).payload

    async def _discover(self, step: Discover) -> Problems:
        """As a client that has never heard of these tools; waits until it has heard enough."""
        async with (
            connect(self._bench.url, name="late_joiner") as bus,
            Toolbox(bus, source="late_joiner") as toolbox,
        ):

            async def heard() -> Outcome:
                return tuple(schema.name for schema in toolbox.schemas)

            return await _until_met(step.expected, heard, seconds=step.within)

    async def _rate(self, session: Session, step: Rate) -> None:
        query_id = self._labelled[step.of] if step.of else self._latest[session.id]
        caller = self._caller(session, "story")
        rating = seal(
            Feedback(query_id=query_id, score=step.rate),
            type="feedback",
            source="story",
            user=caller.user,
            session_id=caller.session_id,
            query_id=query_id,
        )
        await publish_durably(self._bench.bus, subjects.RESPONSE_FEEDBACK, encode(rating))

    def _caller(self, session: Session, agent: str) -> Caller:
        return Caller(
            user=f"{session.user or DEFAULT_USER}-{self._suffix}",
            agent=agent,
            session_id=f"{session.id}-{self._suffix}",
        )


async def _until_met(
    expected: Sequence[Check], attempt: Callable[[], Awaitable[Outcome]], *, seconds: float
) -> Problems:
    """Try until every check holds, or the time is over; at least once."""
    end = time.monotonic() + seconds
    while True:
        found = problems(expected, await attempt())
        if not found or time.monotonic() >= end:
            return found
        await asyncio.sleep(POLL)
