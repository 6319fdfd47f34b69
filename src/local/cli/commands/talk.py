"""Commands that start the stack, talk to it and call its tools."""

from typing import Annotated

import typer

from local.cli.commands.options import Agent, Json, Session, User
from local.cli.output import command
from local.protocol.envelope import Sender

group = typer.Typer()


WhileUsed = Annotated[
    float | None,
    typer.Option(
        metavar="SECONDS", min=0, help="No chat; stop once no client has used it for so long."
    ),
]


@group.command()
def up(context: typer.Context, while_used: WhileUsed = None) -> None:
    """Start everything: a chat in a terminal, else a quiet service. Ctrl-C stops it."""
    with command(context.obj) as (settings, _):
        from local.cli.up import up as run

        run(settings, while_used=while_used)


@group.command()
def chat(context: typer.Context, session: Session = None, user: User = None) -> None:
    """Talk to a running stack."""
    with command(context.obj) as (settings, _):
        from local.cli.chat import chat as run

        run(settings, session=session, user=user)


@group.command()
def ask(
    context: typer.Context,
    text: str,
    session: Session = None,
    user: User = None,
    json: Json = False,
) -> None:
    """Ask one question and print the answer."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.chat import ask as run

        run(settings, output, text, session=session, user=user)


@group.command()
def tools(context: typer.Context, json: Json = False) -> None:
    """List the tools on the bus."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tools import list_tools

        list_tools(settings, output)


@group.command()
def call(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    tool: str,
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="KEY=VALUE…", help="The tool's arguments.")
    ] = None,
    session: Session = None,
    user: User = None,
    agent: Agent = "cli",
    json: Json = False,
) -> None:
    """Call one tool, e.g. `local2 call save_topic topic=user.name content=Richard`."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.tools import call as run

        caller = Sender(agent=agent, user=user, session_id=session)
        run(settings, output, tool, arguments or [], caller)
