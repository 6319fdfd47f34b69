"""The `local2` command. `--help` lists its groups of commands in this order."""

import os
from pathlib import Path

import click

from local2._version import __version__
from local2.cli.commands import PATH, memory, reach, stack
from local2.cli.output import GlobalOptions
from local2.home import PRIVATE_UMASK


class _InThisOrder(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - as in click
        return list(self.commands)


@click.group(
    cls=_InThisOrder,
    no_args_is_help=True,
    context_settings={"show_default": True, "max_content_width": 120},
)
@click.option(
    "--config",
    type=PATH,
    help="Folder with bus.yaml, memory.yaml and so on. Default: config in --home.",
)
@click.option(
    "--home",
    type=PATH,
    help="The memory's folder. Default: the nearest one upwards with a private .local2, or else "
    "the user's own.",
)
@click.option("--tenant", help="Ask as this tenant, if the stack has accounts.")
@click.version_option(__version__, message="local2 %(version)s", help="Print the version and exit.")
@click.pass_context
def app(
    context: click.Context, *, config: Path | None, home: Path | None, tenant: str | None
) -> None:
    """Memory for agents on a NATS bus."""
    os.umask(PRIVATE_UMASK)  # files that commands write are private
    context.obj = GlobalOptions(config, tenant, home)


for each in (stack.talk, memory.group, reach.servers, reach.hook_commands, stack.upkeep):
    for command in each.commands.values():
        app.add_command(command)
for group in (stack.dead_letters, reach.tenants, reach.hooks):
    app.add_command(group)

main = app
