"""A chat in a terminal."""

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from factories import Listen
from local.bus.connection import Connection
from local.cli.output import Output
from local.cli.talk import HELP, converse


async def test_a_mistaken_command_is_answered_with_the_commands_and_asks_nobody(
    bus: Connection, listen: Listen, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = await listen("query.received")

    with create_pipe_input() as keys, create_app_session(input=keys, output=DummyOutput()):
        keys.send_text("/help\r/exit\r/quit\r")
        await converse(bus, Output())

    assert capsys.readouterr().out.count(HELP) == 3
    assert asked == []
