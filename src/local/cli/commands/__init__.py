"""The arguments of all commands, in groups. Their implementations are imported when they run.

This module has the options that several commands share.
"""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Session = Annotated[str | None, typer.Option(help="Continue this session. Default: a new session.")]
User = Annotated[str | None, typer.Option(help="Ask as this user.")]
Agent = Annotated[str, typer.Option(help="Ask as this agent.")]
