"""The `local2` command: groups of commands, shown on one page in this order."""

import os
from pathlib import Path
from typing import Annotated

import typer

from local.cli.commands import dead_letters, memory, talk, upkeep
from local.folder import PRIVATE

app = typer.Typer(
    help="Memory for agents on a NATS bus.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for each in (talk, memory, upkeep):
    app.add_typer(each.group)
app.add_typer(dead_letters.group, name="dead-letters")

Config = Annotated[
    Path | None,
    typer.Option(help="Folder of bus.yaml, memory.yaml and generator.yaml; else ./config."),
]


@app.callback()
def options(context: typer.Context, config: Config = None) -> None:
    """Remember the folder of settings for the command that follows; what it writes is private."""
    os.umask(PRIVATE)
    context.obj = config


main = app
