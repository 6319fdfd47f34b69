"""The `local2` command: groups of commands, shown on one page in this order."""

import os
from pathlib import Path
from typing import Annotated

import typer

from local.cli.commands import dead_letters, hooks, memory, reach, talk, tenants, upkeep
from local.cli.output import Chosen
from local.home import PRIVATE

app = typer.Typer(
    help="Memory for agents on a NATS bus.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
for each in (talk.group, memory.group, reach.group, hooks.called, upkeep.group):
    app.add_typer(each)
app.add_typer(dead_letters.group, name="dead-letters")
app.add_typer(tenants.group, name="tenants")
app.add_typer(hooks.group, name="hooks")

Config = Annotated[
    Path | None,
    typer.Option(help="Folder of bus.yaml, memory.yaml and the like; else ./config."),
]


Tenant = Annotated[str | None, typer.Option(help="Ask as this tenant, of a stack with accounts.")]


@app.callback()
def options(context: typer.Context, config: Config = None, tenant: Tenant = None) -> None:
    """Remember the settings' folder, and who asks; what the command writes is private."""
    os.umask(PRIVATE)
    context.obj = Chosen(config, tenant)


main = app
