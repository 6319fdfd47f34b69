"""`local2 chat` answers commands in a terminal."""

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from factories import Listen
from local.bus.connection import Connection
from local.cli.output import Output
from local.cli.talk import HELP, converse


async def test_an_unknown_command_shows_the_help_and_publishes_no_query(
    bus: Connection, listen: Listen, capsys: pytest.CaptureFixture[str]
) -> None:
    queries = await listen("query.received")

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("/help\r/exit\r/quit\r")
        await converse(bus, Output())

    assert capsys.readouterr().out.count(HELP) == 3
    assert queries == []
