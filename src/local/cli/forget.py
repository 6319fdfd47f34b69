"""`local2 forget`: shows what would be erased, asks, erases it, and prints the receipt."""

import sys

import typer
from rich.table import Table

from local.cli.answers import NAME, answer_on, data_of
from local.cli.output import FAILED, Output, run_async, shown
from local.client.access import connected
from local.errors import InvalidArgumentsError
from local.protocol.answers import Receipt
from local.protocol.envelope import Sender
from local.protocol.payloads import Json, ToolResult
from local.settings import Settings

PATIENCE = 3600.0
"""Seconds: a million records take minutes."""


def forget(  # noqa: PLR0913 - one parameter an option
    settings: Settings, output: Output, args: Json, *, user: str | None, dry_run: bool, yes: bool
) -> None:
    """Erase what the arguments of the tool choose; without any of them everything of the user."""
    if not args.keys() - {"allow_again"}:
        if user is None:
            raise InvalidArgumentsError(
                "Say what to forget.", remedy="--user, --session, --topic or --id names it."
            )
        args = {**args, "everything": True}
    caller = Sender(agent=NAME, user=user)
    if dry_run or not yes:
        preview = data_of(_ask(settings, {**args, "dry_run": True}, caller), Receipt, output)
        if dry_run:
            output.data(preview)
        _show(output, preview)
        if dry_run:
            return
        _confirm(output, preview)
    with output.errors.status("Erasing, and looking for what is left …"):
        result = _ask(settings, args, caller)
    receipt = data_of(result, Receipt, output)
    output.data(receipt)
    _show(output, receipt)
    if not receipt.complete:
        sys.exit(FAILED)


def _ask(settings: Settings, args: Json, caller: Sender) -> ToolResult:
    async def ask() -> ToolResult:
        async with connected(settings, name=NAME, user=caller.user) as bus:
            return await answer_on(bus, "forget", args, caller, patience=PATIENCE)

    return run_async(ask())


def _confirm(output: Output, preview: Receipt) -> None:
    if output.json:
        raise InvalidArgumentsError("With --json nobody is asked.", remedy="Say --yes, too.")
    if preview.erased and not typer.confirm("Erase it for good?"):
        raise typer.Exit(FAILED)


def _show(output: Output, receipt: Receipt) -> None:
    table = Table("Would be erased" if receipt.dry_run else "Erased", "How many")
    for name, number in receipt.erased.items():
        table.add_row(shown(name), f"{number:,}")
    if not receipt.erased:
        table.add_row("nothing", "")
    output.table(table)
    if receipt.dry_run:
        return
    table = Table(f"Looked for at {receipt.at:%Y-%m-%d %H:%M} UTC", "Found")
    table.add_column("What to do", overflow="fold")
    for check in receipt.checks:
        table.add_row(shown(check.name), f"{check.found:,}", shown(check.note or ""))
    output.table(table)
    again = "may be stored again" if receipt.may_come_back else "is not stored again"
    output.text(f"What was erased {again} by a later import.")
