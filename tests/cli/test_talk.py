"""`local2 chat` answers commands in a terminal."""

import asyncio
import signal
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from commands import served
from factories import Listen
from local2.bus.connection import BusMessage, Connection, connect
from local2.cli.output import Output
from local2.cli.talk import HELP, chatting, converse
from local2.errors import StackNotRunningError
from local2.llm.rules import HINT
from local2.protocol import subjects
from local2.protocol.envelope import decode, encode, seal
from local2.protocol.payloads import Empty, Query, ToolResult
from stacks import settings_in
from waiting import eventually
from workers import stack_with_worker_here


async def test_an_unknown_command_shows_the_help_and_publishes_no_query(
    bus: Connection, listen: Listen, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = await listen("query.received")

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("/help\r/exit1\r/quit now\r")
        await converse(bus, Output())

    told = " ".join(capsys.readouterr().out.split())
    assert told.count(HELP) == 3
    assert told.count("There is no command") == 1
    assert "There is no command /exit1." in told
    assert queries == []


async def test_ctrl_c_leaves_a_line_that_is_begun_and_ends_the_chat_where_none_is(
    bus: Connection, listen: Listen, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = await listen("query.received")

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("Remember that my\x03/begun\r\x03/never read\r")
        await converse(bus, Output())

    assert "There is no command /begun." in capsys.readouterr().out
    assert queries == []


async def test_ctrl_c_during_an_answer_stops_the_answer_and_returns_to_the_prompt(
    bus: Connection, listen: Listen, capsys: pytest.CaptureFixture[str]
) -> None:
    cancels = await listen("query.cancel")
    queries = []

    async def answer_never(message: BusMessage) -> None:
        queries.append(decode(message.data, Query))
        accepted = ToolResult(ok=True, content="The answer follows.")
        await bus.answer(message, encode(seal(accepted, type="result", source="test")))
        signal.raise_signal(signal.SIGINT)

    await bus.subscribe(subjects.QUERY_RECEIVED, answer_never)
    handler = signal.getsignal(signal.SIGINT)

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("Tell me a story.\rAnother one.\r/here\r\x03/never read\r")
        await converse(bus, Output())

    told = capsys.readouterr().out
    assert told.count("(stopped)") == 2
    assert "There is no command /here." in told
    await eventually(lambda: len(cancels) == 2)
    assert [decode(message.data, Empty).correlation_id for message in cancels] == [
        query.id for query in queries
    ]
    assert signal.getsignal(signal.SIGINT) is handler


async def test_a_chat_says_that_the_stack_ended_within_an_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def begin(message: BusMessage) -> None:
        accepted = ToolResult(ok=True, content="The answer follows.")
        await bus.answer(message, encode(seal(accepted, type="result", source="test")))
        begun.set()

    begun = asyncio.Event()
    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        async with (
            stack_with_worker_here(settings_in(tmp_path), with_generator=False) as stack,
            connect(stack.url, name="test") as bus,
        ):
            await bus.subscribe(subjects.QUERY_RECEIVED, begin)
            chat = asyncio.create_task(chatting(settings_in(tmp_path), user="ada"))
            keys.send_text("Tell me a story.\r")
            await begun.wait()
        keys.send_text("/quit\r")
        await chat

    assert "stopped before its answer was complete." in " ".join(capsys.readouterr().err.split())


def test_tool_calls_are_shown_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_in(tmp_path)
    with (
        served(settings),
        create_pipe_input() as keys,
        create_app_session(input=keys, output=DummyOutput()),
    ):
        keys.send_text("/tools\rRemember that my metal is osmium.\r/tools\r/new\rLead.\r/quit\r")
        asyncio.run(chatting(settings, user="ada"))

    before, after = capsys.readouterr().out.split("Saved: osmium (user.metal).")
    assert after.count(HINT) == 1  # also of two sessions
    assert "The last answer used no tools." in before
    assert "save_topic" not in before
    assert after.count("save_topic(topic='user.metal', content='osmium')") == 1


async def test_a_chat_goes_on_with_the_next_stack_and_ends_where_there_is_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = settings_in(tmp_path)
    told = ""

    def has_told(text: str) -> bool:
        nonlocal told
        told += capsys.readouterr().out
        return text in told

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        async with stack_with_worker_here(settings) as first:
            chat = asyncio.create_task(chatting(settings, user="ada"))
            keys.send_text("Remember that my metal is osmium.\r")
            await eventually(lambda: has_told("Saved: osmium"))
        async with stack_with_worker_here(settings) as second:
            keys.send_text("Remember that my tree is a birch.\r")
            await eventually(lambda: has_told("Saved: a birch"))
        keys.send_text("What is my tree?\r")
        with pytest.raises(StackNotRunningError, match="local2 up"):
            await chat

    assert first.url != second.url
