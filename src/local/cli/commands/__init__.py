"""What the commands take, in groups; what they do is imported when they are called.

Here are the options that several of them take.
"""

from typing import Annotated

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
Session = Annotated[str | None, typer.Option(help="Go on in this session; else a new one.")]
User = Annotated[str | None, typer.Option(help="Ask as this user.")]
Agent = Annotated[str, typer.Option(help="Ask as this agent.")]
