"""`local2 hooks`: let coding agents store and recall memories automatically.

The change of a client's settings is shown first, and written after the user has confirmed it.
"""

from pathlib import Path

import click
import msgspec

from local2.cli.answers import INDENT
from local2.cli.commands import PATH, GlobalOptions, command, yes_option
from local2.cli.output import Output, printable, styled
from local2.hook_files import counted_prompts, turns_aside
from local2.hooks.clients import CLIENTS
from local2.hooks.clients.client import Scope
from local2.hooks.installing import (
    Plan,
    apply_plan,
    installed,
    plan_install,
    plan_uninstall,
)
from local2.settings import Settings

SCOPES: tuple[Scope, ...] = ("user", "project")


class SettingsChange(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `--json`. Without `--yes`, `done` is false."""

    file: str
    diff: str
    done: bool


group = click.Group("hooks", no_args_is_help=True)
client_argument = click.argument("client", type=click.Choice(tuple(CLIENTS)))
scope_option = click.option(
    "--scope",
    type=click.Choice(SCOPES),
    default="user",
    help="Use the settings of the user or of the current folder.",
)


@command(group=group)
@client_argument
@scope_option
@click.option(
    "--home",
    type=PATH,
    help="The memory's folder. Default: the current project's, or else the user's.",
)
@click.option("--user", help="Whose memory. Default: the user who is logged in.")
@yes_option
def install(
    _: Settings,
    output: Output,
    *,
    client: str,
    scope: Scope,
    home: Path | None,
    user: str | None,
    yes: bool,
) -> None:
    """Add the hooks to a client's settings, after showing the change and asking."""
    chosen: GlobalOptions = click.get_current_context().obj
    named = home or chosen.home
    where = None if named is None else str(named.expanduser().absolute())
    plan = plan_install(CLIENTS[client], scope, _options(where, user))
    if _confirm_and_apply(output, plan, yes=yes):
        output.text(f"The hooks of {client} are installed. {CLIENTS[client].afterwards}")


@command(group=group)
@client_argument
@scope_option
@yes_option
def uninstall(_: Settings, output: Output, *, client: str, scope: Scope, yes: bool) -> None:
    """Remove exactly what install added, after showing the change and asking."""
    plan = plan_uninstall(CLIENTS[client], scope)
    if _confirm_and_apply(output, plan, yes=yes):
        output.text(f"{client} no longer has any hooks of local2.")


def _confirm_and_apply(output: Output, plan: Plan, *, yes: bool) -> bool:
    """Show the plan, ask for confirmation, and apply it; return whether it was applied."""
    if not plan.diff:
        output.data(SettingsChange(file=str(plan.file), diff="", done=False))
        output.text(f"Nothing to change in {plan.file}.")
        return False
    output.text(plan.diff, as_it_is=True)
    agreed = yes or (not output.json and click.confirm("Change it?"))
    if agreed:
        apply_plan(plan)
    output.data(SettingsChange(file=str(plan.file), diff=plan.diff, done=agreed))
    return agreed


@command("list", group=group)
def list_hooks(settings: Settings, output: Output) -> None:
    """List which clients have hooks, and in which files."""
    data_dir = settings.memory.data_dir
    counts = counted_prompts(data_dir)
    found = [
        msgspec.structs.replace(installed(client, scope), prompts=counts.get(name))
        for name, client in CLIENTS.items()
        for scope in SCOPES
    ]
    output.data(found)
    for hooks in found:
        state = "installed" if hooks.events else "none"
        if hooks.outdated:
            state = "outdated"
        elif hooks.events and hooks.missing:
            state = f"without {', '.join(hooks.missing)}"
        head = f"{styled(hooks.client, bold=True)}, {hooks.scope}: {state}"
        output.line(f"{head}\n{INDENT}{printable(hooks.file)}")
    for name in sorted({hooks.client for hooks in found if hooks.outdated}):
        output.text(f"The hooks of {name} do nothing. Run `local2 hooks install {name}`.")
    for name, counted in counts.items():
        output.text(f"{name}: {counted}")
    if aside := turns_aside(data_dir):
        output.text(aside)


@click.command()
@click.argument("client")
@click.argument("event")
@click.option("--home")
@click.option("--user")
def hook(*, client: str, event: str, home: str | None, user: str | None) -> None:
    """Run one hook with its event on standard input."""
    from local2.hooks.acting import main  # noqa: PLC0415 - no other command needs it

    main([client, event, *_options(home, user)])


def _options(home: str | None, user: str | None) -> list[str]:
    given = {"--home": home, "--user": user}
    return [word for name, value in given.items() if value for word in (name, value)]
