"""`local2 mcp` and `local2 hooks`: how the agents of other programs reach the memory.

A client's new settings are shown first, and written after a question.
"""

import msgspec
import typer
from rich.table import Table

from local.cli.output import Output, run_async, shown
from local.errors import ConfigError
from local.hooks.clients import CLIENTS
from local.hooks.clients.client import Scope
from local.hooks.installing import (
    Installation,
    Plan,
    carry_out,
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
        ConfigError: No client is there: an end is a file, on which an event loop cannot wait.
    """
    if not opening.has_client:
        raise ConfigError(
            "Standard input and output have to be a client's pipes.",
            remedy="Have a client start `local2 mcp`; for files, `cat FILE | local2 mcp | cat`.",
        )
    from local.mcp.stdio import serve  # noqa: PLC0415 - nothing of HTTP is imported for it

    run_async(serve(settings, opening))


def serve_http(settings: Settings, output: Output) -> None:
    from local.mcp.http import Address, serve  # noqa: PLC0415

    def print_address(address: Address) -> None:
        where = address.token_is_in
        text = f"MCP: {address.url}\nAuthorization: Bearer, with the token of {where}"
        output.text(text, as_it_is=True)

    run_async(serve(settings, print_address))


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """The output of `--json`. Without `--yes` nothing is `done`."""

    file: str
    diff: str
    done: bool


def install(output: Output, name: str, scope: Scope, options: list[str], *, yes: bool) -> None:
    """Install the hooks; `options` are those of the hooks."""
    client = CLIENTS[name]
    plan = plan_install(client, scope, options)
    if _carried_out(output, plan, yes=yes):
        output.text(f"{name} has its hooks. {client.afterwards}")


def uninstall(output: Output, name: str, scope: Scope, *, yes: bool) -> None:
    plan = plan_uninstall(CLIENTS[name], scope)
    if _carried_out(output, plan, yes=yes):
        output.text(f"{name} has no hooks of local2 any more.")


def _carried_out(output: Output, plan: Plan, *, yes: bool) -> bool:
    """Show the plan, ask, and carry it out."""
    if not plan.diff:
        output.data(Change(file=str(plan.file), diff="", done=False))
        output.text(f"Nothing to change in {plan.file}.")
        return False
    output.text(plan.diff, as_it_is=True)
    agreed = yes or (not output.json and typer.confirm("Change it?"))
    if agreed:
        carry_out(plan)
    output.data(Change(file=str(plan.file), diff=plan.diff, done=agreed))
    return agreed


def list_hooks(output: Output) -> None:
    found = [installed(client, scope) for client in CLIENTS.values() for scope in SCOPES]
    output.data(found)
    table = Table("client", "scope", "hooks", "file")
    for one in found:
        table.add_row(one.client, one.scope, _state(one), shown(one.file))
    output.table(table)


def _state(one: Installation) -> str:
    if not one.events:
        return "none"
    return f"without {', '.join(one.missing)}" if one.missing else "installed"
