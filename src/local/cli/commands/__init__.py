"""The arguments of all commands, in groups. Their implementations are imported when they run.

This module has the options that several commands share, and makes a command's caller.
"""

from typing import Annotated

import typer

from local.home import asking_user
from local.protocol.envelope import Sender
from local.settings import Settings

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Session = Annotated[str | None, typer.Option(help="Continue this session. Default: a new session.")]
User = Annotated[
    str | None,
    typer.Option(help="Ask as this user. Default: the user who is logged in; with accounts, none."),
]
Agent = Annotated[str, typer.Option(help="Ask as this agent.")]


def caller_of(
    settings: Settings, user: str | None, agent: str, session: str | None = None
) -> Sender:
    """Return the caller that a command's options name."""
    return Sender(agent=agent, user=asking_user(settings.bus, user), session_id=session)
