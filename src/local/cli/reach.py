"""`local2 mcp` and `local2 hooks`: connect other programs' agents to the memory.

The change of a client's settings is shown first, and written after the user has confirmed it.
"""

import click
import msgspec
from rich.table import Table

from local.cli.output import Output, run_async, shown, uncut
from local.errors import ConfigError
from local.hooks.clients import CLIENTS
from local.hooks.clients.client import Scope
from local.hooks.installing import (
    Installation,
    Plan,
    apply_plan,
    installed,
    plan_install,
    plan_uninstall,
)
from local.mcp.opening import Opening
from local.settings import Settings

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
    from local.mcp.stdio import serve  # noqa: PLC0415 - nothing of HTTP is imported for it

    run_async(serve(settings, opening))


def serve_http(settings: Settings, output: Output) -> None:
    from local.mcp.http import Address, serve  # noqa: PLC0415

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
    found = [installed(client, scope) for client in CLIENTS.values() for scope in SCOPES]
    output.data(found)
    table = Table("Client", "Scope", "Hooks", uncut("File"))
    for one in found:
        table.add_row(one.client, one.scope, _state(one), shown(one.file))
    output.table(table)


def _state(one: Installation) -> str:
    if not one.events:
        return "none"
    return f"without {', '.join(one.missing)}" if one.missing else "installed"
