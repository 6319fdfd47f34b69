"""`local2 mcp` and `local2 hooks`: connect other programs' agents to the memory.

The change of a client's settings is shown first, and written after the user has confirmed it.
"""

import click
import msgspec
from rich.table import Table

from local2.cli.output import Output, run_async, shown, uncut
from local2.config_files import load_settings
from local2.errors import ConfigError
from local2.home import home_of
from local2.hooks.clients import CLIENTS
from local2.hooks.clients.client import Scope
from local2.hooks.installing import (
    Installation,
    Plan,
    apply_plan,
    installed,
    plan_install,
    plan_uninstall,
)
from local2.mcp.opening import Opening
from local2.prompt_counts import counted_prompts
from local2.settings import Settings

SCOPES: tuple[Scope, ...] = ("user", "project")


def serve_stdio(settings: Settings, opening: Opening) -> None:
    """Serve the client at the other end of standard input and output.

    Raises:
        ConfigError: There is no client: one end is a file, on which an event loop cannot wait.
    """
    if not opening.has_client:
        raise ConfigError(
            "Standard input and output must be pipes to a client.",
            remedy="Let a client start `local2 mcp`; for files, use `cat FILE | local2 mcp | cat`.",
        )
    from local2.mcp.stdio import serve  # noqa: PLC0415 - nothing of HTTP is imported for it

    run_async(serve(settings, opening))


def serve_http(settings: Settings, output: Output) -> None:
    from local2.mcp.http import Address, serve  # noqa: PLC0415

    def print_address(address: Address) -> None:
        where = address.token_is_in
        text = f"MCP: {address.url}\nAuthorization: Bearer, with the token in {where}"
        output.text(text, as_it_is=True)

    run_async(serve(settings, print_address))


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `--json`. Without `--yes`, `done` is false."""

    file: str
    diff: str
    done: bool


def install(output: Output, name: str, scope: Scope, options: list[str], *, yes: bool) -> None:
    """Install a client's hooks, which are run with these options."""
    client = CLIENTS[name]
    plan = plan_install(client, scope, options)
    if _confirm_and_apply(output, plan, yes=yes):
        output.text(f"The hooks of {name} are installed. {client.afterwards}")


def uninstall(output: Output, name: str, scope: Scope, *, yes: bool) -> None:
    plan = plan_uninstall(CLIENTS[name], scope)
    if _confirm_and_apply(output, plan, yes=yes):
        output.text(f"{name} no longer has any hooks of local2.")


def _confirm_and_apply(output: Output, plan: Plan, *, yes: bool) -> bool:
    """Show the plan, ask for confirmation, and apply it; return whether it was applied."""
    if not plan.diff:
        output.data(Change(file=str(plan.file), diff="", done=False))
        output.text(f"Nothing to change in {plan.file}.")
        return False
    output.text(plan.diff, as_it_is=True)
    agreed = yes or (not output.json and click.confirm("Change it?"))
    if agreed:
        apply_plan(plan)
    output.data(Change(file=str(plan.file), diff=plan.diff, done=agreed))
    return agreed


def list_hooks(output: Output) -> None:
    counts = counted_prompts(load_settings(home=home_of()).memory.data_dir)
    found = [
        msgspec.structs.replace(installed(client, scope), prompts=counts.get(name))
        for name, client in CLIENTS.items()
        for scope in SCOPES
    ]
    output.data(found)
    table = Table("Client", "Scope", "Hooks", uncut("File"))
    for one in found:
        table.add_row(one.client, one.scope, _state(one), shown(one.file))
    output.table(table)
    for name in sorted({one.client for one in found if one.outdated}):
        output.text(f"The hooks of {name} do nothing. Run `local2 hooks install {name}`.")
    for name, counted in counts.items():
        output.text(f"{name}: {counted}")


def _state(one: Installation) -> str:
    if not one.events:
        return "none"
    if one.outdated:
        return "outdated"
    return f"without {', '.join(one.missing)}" if one.missing else "installed"
