"""The arguments of all commands, in groups. Their implementations are imported when they run.

This module has the options that several commands share, and makes a command's caller. Whatever the
commands' modules import is imported for each command, even for `local2 version`.
"""

from pathlib import Path

import click

from local2.home import asking_user
from local2.protocol.envelope import Sender
from local2.settings import Settings

PATH = click.Path(path_type=Path)
json_option = click.option("--json", is_flag=True, help="Print JSON for programs.")
session_option = click.option("--session", help="Continue this session. Default: a new session.")
user_option = click.option(
    "--user",
    help="Ask as this user. Default: the user who is logged in; with accounts, none.",
)
agent_option = click.option("--agent", default="cli", help="Ask as this agent.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation.")


def caller_of(
    settings: Settings, user: str | None, agent: str, session: str | None = None
) -> Sender:
    """Return the caller that a command's options name."""
    return Sender(agent=agent, user=asking_user(settings.bus, user), session_id=session)
