"""Commands that give coding agents the memory's hooks."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from local.cli.commands.options import Json
from local.cli.output import command
from local.hooks.clients.client import Scope

group = typer.Typer(
    help="Hooks of coding agents: they remember, and are reminded, by themselves.",
    no_args_is_help=True,
)
called = typer.Typer()
"""What the hooks call."""


class ClientName(StrEnum):
    CLAUDE_CODE = "claude-code"
    CODEX = "codex"
    CURSOR = "cursor"


Where = Annotated[
    Scope, typer.Option(help="In the user's settings, or in those of the current folder.")
]
Home = Annotated[
    Path | None,
    typer.Option(help="Whose memory; else that of the project worked in, or the user's own."),
]
User = Annotated[str | None, typer.Option(help="Whose memory; else of who is logged in.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask.")]


@group.command()
def install(  # noqa: PLR0913, PLR0917 - one parameter an option
    context: typer.Context,
    client: ClientName,
    scope: Where = "user",
    home: Home = None,
    user: User = None,
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Write the hooks into a client's settings; shows what changes, and asks."""
    with command(context.obj, json=json) as (_, output):
        from local.cli.hooks import install as run

        where = None if home is None else str(home.expanduser().absolute())
        run(output, client, scope, _options(where, user), yes=yes)


@group.command()
def uninstall(
    context: typer.Context,
    client: ClientName,
    scope: Where = "user",
    yes: Yes = False,
    json: Json = False,
) -> None:
    """Take back exactly what was written; shows what changes, and asks."""
    with command(context.obj, json=json) as (_, output):
        from local.cli.hooks import uninstall as run

        run(output, client, scope, yes=yes)


@group.command("list")
def list_hooks(context: typer.Context, json: Json = False) -> None:
    """List which clients have hooks, and where."""
    with command(context.obj, json=json) as (_, output):
        from local.cli.hooks import list_hooks as run

        run(output)


@called.command(hidden=True)
def hook(client: str, event: str, home: str | None = None, user: str | None = None) -> None:
    """Run one hook, with what happened on standard input."""
    from local.hooks.command import main

    main([client, event, *_options(home, user)])


def _options(home: str | None, user: str | None) -> list[str]:
    """Those of a hook."""
    given = {"--home": home, "--user": user}
    return [word for name, value in given.items() if value for word in (name, value)]
