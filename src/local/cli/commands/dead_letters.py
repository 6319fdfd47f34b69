"""The group of commands `local2 dead-letters`."""

from typing import Annotated

import typer

from local.cli.commands.options import Json, User
from local.cli.output import command

group = typer.Typer(
    help="Messages that nobody could read: list them, show, publish again or drop them.",
    no_args_is_help=True,
)

Numbers = Annotated[list[int] | None, typer.Argument(metavar="NUMBER…", help="As listed.")]
All = Annotated[bool, typer.Option("--all", help="Every one there is.")]


@group.command("list")
def list_dead_letters(context: typer.Context, json: Json = False) -> None:
    """List the messages that could not be read, and why."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.dead_letters import list_letters

        list_letters(settings, output)


@group.command("show")
def show_dead_letter(
    context: typer.Context,
    number: Annotated[int, typer.Argument(metavar="NUMBER", help="As listed.")],
    json: Json = False,
) -> None:
    """Show one of them with its message."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.dead_letters import show

        show(settings, output, number)


@group.command("retry")
def retry_dead_letters(
    context: typer.Context,
    numbers: Numbers = None,
    every: All = False,
    user: User = None,
    json: Json = False,
) -> None:
    """Publish messages again, and drop their letters once JetStream has them.

    Where there are accounts, for the user that is named: no token is stored with a letter.
    """
    with command(context.obj, json=json) as (settings, output):
        from local.cli.dead_letters import retry

        retry(settings, output, numbers or [], user, every=every)


@group.command("drop")
def drop_dead_letters(
    context: typer.Context, numbers: Numbers = None, every: All = False, json: Json = False
) -> None:
    """Remove letters for good."""
    with command(context.obj, json=json) as (settings, output):
        from local.cli.dead_letters import drop

        drop(settings, output, numbers or [], every=every)
