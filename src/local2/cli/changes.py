"""`local2 consolidate`, `edit`, `retire`, `pin`, `hide`, `undo`, `audit`, `forget`: change memory.

`consolidate` previews its changes with `--dry-run`, `forget` always, unless it is called with
`--yes`. Forgotten memories are erased for good, which a receipt confirms.
"""

import asyncio
from collections.abc import Sequence
from shlex import quote
from typing import TypeVar

import click
import msgspec
from rich.progress import SpinnerColumn, TextColumn
from rich.table import Table

from local2.background import running_task
from local2.cli.answers import NAME, answer, answer_on, data_of, show_entry, shown_time
from local2.cli.commands import asked_by_caller, command, tool_arguments, yes_option
from local2.cli.output import FAILED, Output, run_async, shown, styled, uncut
from local2.client import Connection
from local2.client.access import ask_service, connected
from local2.client.calls import ERASURE_TIMEOUT
from local2.errors import InvalidArgumentsError, Local2Error
from local2.home import asking_user
from local2.protocol.envelope import Sender
from local2.protocol.memory_tools import (
    AUDIT,
    CONSOLIDATE,
    EDIT_MEMORY,
    FORGET,
    HIDE_MEMORIES,
    PIN_MEMORIES,
    RETIRE_FACT,
    UNDO,
    Arguments,
    Audit,
    AuditEntry,
    AuditTrail,
    Consolidate,
    ConsolidationChange,
    ConsolidationReport,
    EditedMemory,
    EditMemory,
    Forget,
    HiddenMemories,
    HideMemories,
    MemoryTool,
    NotDone,
    PinMemories,
    PinnedMemories,
    Receipt,
    RetiredFacts,
    RetireFact,
    Undo,
    UndoReport,
)
from local2.protocol.payloads import Empty, ToolResult
from local2.protocol.services import STATUS
from local2.settings import Settings

A = TypeVar("A", bound=Arguments)
Corrected = TypeVar("Corrected", RetiredFacts, PinnedMemories, HiddenMemories)
PATIENCE = 600.0
"""Seconds that a consolidation may take; 50,000 facts take about 60."""
POLL = 0.2
"""Seconds between two readings of the progress."""
PAGE = 1_000
"""Audit entries read in one request."""
ACTION_LABELS = {
    "archived": "archive",
    "merged": "merge",
    "contradicted": "replace",
    "importance": "weigh",
}


@command()
@tool_arguments(Consolidate)
@asked_by_caller()
async def consolidate(
    settings: Settings, output: Output, *, args: Consolidate, caller: Sender
) -> None:
    async with (
        connected(settings, name=NAME, user=caller.user) as bus,
        running_task(_show_progress(bus, output), "progress"),
    ):
        result = await answer_on(bus, CONSOLIDATE.name, args.given(), caller, patience=PATIENCE)
    report = data_of(result, ConsolidationReport, output)
    output.data(report)
    for change in report.changes:
        about = change.topic or change.memory_type or ""
        contents = [change.id, change.content, change.reason, *_outcome(change)]
        _show_change(output, [ACTION_LABELS[change.action], change.scope, about], contents)
    for pair in report.left:
        output.text(f"Left alone: {pair.id} contradicts {pair.contradicts}; {pair.reason}.")
    _show_not_done(output, report.not_done)
    output.text(result.content)
    _show_undo(settings, output, report.run, caller)


def _show_change(output: Output, head: Sequence[str], contents: Sequence[str]) -> None:
    parts = [styled(part) for part in head if part]
    show_entry(output, "  ".join(parts), *filter(None, contents))


def _outcome(change: ConsolidationChange | AuditEntry) -> list[str]:
    """What replaced the memory, and its importance before and after."""
    outcome = []
    if change.superseded_by:
        outcome.append(f"→ {change.superseded_by}")
    if isinstance(change.before, float) and isinstance(change.after, float):
        outcome.append(f"{change.before:.2f} → {change.after:.2f}")
    return outcome


async def _show_progress(bus: Connection, output: Output) -> None:
    """Show how many facts have been compared so far."""
    compared = TextColumn("{task.completed} facts compared")
    with output.progress(SpinnerColumn(), compared) as progress:
        task = progress.add_task("", total=None)
        while True:
            await asyncio.sleep(POLL)
            try:
                now = (await ask_service(bus, STATUS, Empty())).consolidation
            except Local2Error:  # progress is only shown; its failure must not fail the command
                continue
            if now is not None:
                progress.update(task, completed=now.looked_at)


@command()
@tool_arguments(Undo)
@asked_by_caller()
async def undo(settings: Settings, output: Output, *, args: Undo, caller: Sender) -> None:
    result = await answer(settings, UNDO, args, caller, patience=PATIENCE)
    report = data_of(result, UndoReport, output)
    output.data(report)
    _show_not_done(output, report.not_done)
    output.text(result.content)


def _show_not_done(output: Output, not_done: Sequence[NotDone]) -> None:
    for change in not_done:
        output.text(f"Not done: {change.id or 'a whole scope'}; {change.reason}.")


reason_option = click.option("--reason", required=True, help="Why, in a sentence.")


@command()
@tool_arguments(EditMemory)
@click.argument("id", help="The id of a fact or of a saved note.")
@click.argument("content", help="The new text.")
@reason_option
@asked_by_caller()
async def edit(settings: Settings, output: Output, *, args: EditMemory, caller: Sender) -> None:
    result = await answer(settings, EDIT_MEMORY, args, caller)
    edited = data_of(result, EditedMemory, output)
    output.data(edited)
    output.text(f"{result.content} Its id is {edited.id}.")
    _show_undo(settings, output, edited.run, caller)


@command()
@tool_arguments(RetireFact)
@click.argument("ids", nargs=-1, required=True, help="The ids of facts and saved notes.")
@reason_option
@asked_by_caller()
async def retire(settings: Settings, output: Output, *, args: RetireFact, caller: Sender) -> None:
    await _correct(settings, output, RETIRE_FACT, args, caller)


@command()
@tool_arguments(PinMemories)
@click.argument("ids", nargs=-1, required=True, help="The ids of facts.")
@reason_option
@asked_by_caller()
async def pin(settings: Settings, output: Output, *, args: PinMemories, caller: Sender) -> None:
    await _correct(settings, output, PIN_MEMORIES, args, caller)


@command()
@tool_arguments(HideMemories)
@click.argument("ids", nargs=-1, required=True, help="The ids of memories of any kind.")
@reason_option
@asked_by_caller()
async def hide(settings: Settings, output: Output, *, args: HideMemories, caller: Sender) -> None:
    await _correct(settings, output, HIDE_MEMORIES, args, caller)


async def _correct(
    settings: Settings, output: Output, tool: MemoryTool[A, Corrected], args: A, caller: Sender
) -> None:
    """Call a tool that corrects memories; say what it did, and how to undo it."""
    result = await answer(settings, tool, args, caller)
    done = data_of(result, tool.answer, output)
    output.data(done)
    output.text(result.content)
    _show_undo(settings, output, done.run, caller)


def _show_undo(settings: Settings, output: Output, run: str | None, caller: Sender) -> None:
    """Say how to undo a run, if it changed anything."""
    if run is None:
        return
    is_default = caller.user == asking_user(settings.bus, None)
    user = "" if is_default else f" --user {quote(caller.user or '')}"
    output.text(f"`local2 undo {run}{user}` undoes it.")


@command()
@tool_arguments(Audit, without=("before",))
@click.argument("id", required=False, help="Only changes of this memory.")
@click.option("--limit", type=click.IntRange(min=1), default=100, help="Maximum number of entries.")
@asked_by_caller()
async def audit(settings: Settings, output: Output, *, args: Audit, caller: Sender) -> None:
    entries: list[AuditEntry] = []
    before: int | None = None
    async with connected(settings, name=NAME, user=caller.user) as bus:
        while True:
            size = min(args.limit - len(entries), PAGE)
            page = msgspec.structs.replace(args, limit=size, before=before)
            result = await answer_on(bus, AUDIT.name, page.given(), caller)
            trail = data_of(result, AuditTrail, output)
            entries += trail.entries
            before = trail.next
            if before is None or len(entries) >= args.limit:
                break
    output.data(msgspec.structs.replace(trail, entries=entries))
    if not entries:
        output.text("Nothing was changed.")
        return
    for entry in entries:
        by = {"self": "you", "other": "another user", "unnamed": "nobody named", None: ""}[entry.by]
        about = entry.topic or entry.memory_type or entry.kind or ""
        who = " · ".join(filter(None, (entry.agent, by)))
        contents = [entry.id, entry.reason or "", *_outcome(entry)]
        if entry.run:
            contents.append(f"run {entry.run}")
        head = [shown_time(entry.at), entry.action, about, who and f"by {who}"]
        _show_change(output, head, contents)
    if trail.next is not None:
        output.text("There are older entries; use --limit to show more.")


@command()
@click.option("--user", help="The user. Without another option, everything of this user is erased.")
@tool_arguments(Forget, without=("everything",))
@click.option("--session", "session_id", help="Erase everything said in this session.")
@click.option("--topic", help="Erase every version of the fact under this key.")
@click.option("--id", help="Erase the record with this id.")
@click.option("--dry-run", is_flag=True, help="Only say what would be erased.")
@yes_option
def forget(
    settings: Settings, output: Output, *, args: Forget, user: str | None, yes: bool
) -> None:
    if args.session_id is None and args.topic is None and args.id is None:
        if user is None:
            raise InvalidArgumentsError(
                "Say what to forget.", remedy="Add --user, --session, --topic or --id."
            )
        args = msgspec.structs.replace(args, everything=True)
    caller = Sender(agent=NAME, user=asking_user(settings.bus, user))
    if args.dry_run or not yes:
        dry_run = msgspec.structs.replace(args, dry_run=True)
        preview = data_of(_forget(settings, dry_run, caller), Receipt, output)
        if args.dry_run:
            output.data(preview)
        _show(output, preview, caller.user)
        if args.dry_run:
            return
        if output.json:
            raise InvalidArgumentsError(
                "With --json, the command cannot ask for confirmation.", remedy="Add --yes."
            )
        if preview.erased and not click.confirm("Erase it for good?"):
            raise click.exceptions.Exit(FAILED)
    with output.errors.status("Erasing, and checking that nothing is left …"):
        result = _forget(settings, args, caller)
    receipt = data_of(result, Receipt, output)
    output.data(receipt)
    _show(output, receipt, caller.user)
    if not receipt.complete:
        raise click.exceptions.Exit(FAILED)


def _forget(settings: Settings, args: Forget, caller: Sender) -> ToolResult:
    return run_async(answer(settings, FORGET, args, caller, patience=ERASURE_TIMEOUT))


def _show(output: Output, receipt: Receipt, user: str | None) -> None:
    table = Table("Would be erased" if receipt.dry_run else "Erased", "How many")
    for name, number in receipt.erased.items():
        table.add_row(shown(name), f"{number:,}")
    if not receipt.erased:
        table.add_row("nothing", "")
    output.table(table)
    if not receipt.erased and user is not None:
        output.text(
            f"Only what belongs to {user} was looked for. `--user ''` looks for what was stored "
            "without a user."
        )
    if receipt.dry_run:
        return
    table = Table(f"Checked at {receipt.at:%Y-%m-%d %H:%M} UTC", "Found", uncut("What to do"))
    for check in receipt.checks:
        table.add_row(shown(check.name), f"{check.found:,}", shown(check.note or ""))
    output.table(table)
    again = "can" if receipt.may_come_back else "cannot"
    output.text(f"A later import {again} store the erased content again.")
