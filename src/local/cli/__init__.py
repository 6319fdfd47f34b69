"""The `local2` command. `--help` lists its groups of commands in this order."""

import os
from pathlib import Path
from typing import Annotated

import typer

from local import __version__
from local.cli.commands import memory, reach, stack
from local.cli.output import GlobalOptions
from local.home import PRIVATE_UMASK

app = typer.Typer(
    help="Memory for agents on a NATS bus.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for each in (stack.talk, memory.group, reach.servers, reach.hook_commands, stack.upkeep):
    app.add_typer(each)
app.add_typer(stack.dead_letters, name="dead-letters")
app.add_typer(reach.tenants, name="tenants")
app.add_typer(reach.hooks, name="hooks")

Config = Annotated[
    Path | None,
    typer.Option(help="Folder with bus.yaml, memory.yaml and so on. Default: config in --home."),
]
Home = Annotated[
    Path | None,
    typer.Option(
        help="The memory's folder. Default: the nearest one upwards with a private .local2, "
        "or else the user's own."
    ),
]
Tenant = Annotated[str | None, typer.Option(help="Ask as this tenant, if the stack has accounts.")]


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"local2 {__version__}")
        raise typer.Exit


Version = Annotated[
    bool,
    typer.Option(
        "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
]


@app.callback()
def options(
    context: typer.Context,
    config: Config = None,
    home: Home = None,
    tenant: Tenant = None,
    *,
    version: Version = False,
) -> None:
    """Pass the global options on to the command, and make the files that it writes private."""
    del version  # its callback has printed it
    os.umask(PRIVATE_UMASK)
    context.obj = GlobalOptions(config, tenant, home)


main = app
