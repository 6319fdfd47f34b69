"""`local2 tasks`: list, retry and discard the work on records that failed repeatedly."""

from collections.abc import Sequence

import click
from rich.table import Table

from local2.cli.answers import ask_stack, show_entry, shown_time
from local2.cli.commands import command
from local2.cli.output import Output
from local2.errors import InvalidArgumentsError
from local2.protocol.maintenance import TaskAction, TaskRequest
from local2.protocol.services import TASKS
from local2.settings import Settings

group = click.Group("tasks", no_args_is_help=True)
ids_argument = click.argument("ids", metavar="ID…", nargs=-1, help="Ids of their records.")
all_option = click.option("--all", "every", is_flag=True, help="All that were set aside.")
kind_option = click.option(
    "--kind", help="Only tasks of this kind: index, unindex, embed, extract or judge."
)


@command("list", group=group)
@kind_option
async def list_tasks(settings: Settings, output: Output, *, kind: str | None) -> None:
    """Count what has yet to be done with records, and list the tasks that failed, and why."""
    report = await ask_stack(settings, TASKS, TaskRequest(kind=kind))
    output.data(report)
    if not report.counts:
        output.text("Everything is done.")
        return
    table = Table("Kind", "Waiting", "Set aside")
    for count in report.counts:
        table.add_row(count.kind, f"{count.waiting:,}", f"{count.aside:,}")
    output.table(table)
    for task in report.failed:
        again = f"again at {shown_time(task.due)}" if task.due else "set aside"
        head = f"{task.kind}  failures: {task.attempts}  {again}"
        show_entry(output, head, task.id, task.error)


@command(group=group)
@ids_argument
@all_option
@kind_option
async def retry(
    settings: Settings, output: Output, *, ids: Sequence[str], every: bool, kind: str | None
) -> None:
    """Give tasks that were set aside one more attempt."""
    await _change(settings, output, "retry", ids, every=every, kind=kind)


@command(group=group)
@ids_argument
@all_option
@kind_option
async def discard(
    settings: Settings, output: Output, *, ids: Sequence[str], every: bool, kind: str | None
) -> None:
    """Drop tasks that were set aside: nothing is extracted from their messages, or judged."""
    await _change(settings, output, "discard", ids, every=every, kind=kind)


async def _change(
    settings: Settings,
    output: Output,
    action: TaskAction,
    ids: Sequence[str],
    *,
    every: bool,
    kind: str | None,
) -> None:
    if every == bool(ids):
        raise InvalidArgumentsError("Give either the ids of records or --all.")
    wanted = TaskRequest(action=action, kind=kind, ids=None if every else tuple(ids))
    report = await ask_stack(settings, TASKS, wanted)
    if ids and not report.changed:
        raise InvalidArgumentsError(
            "None of these records has such a task.", remedy="`local2 tasks list` shows them."
        )
    output.data(report)
    done = {"retry": "tried again", "discard": "discarded"}[action]
    tasks = "task is" if report.changed == 1 else "tasks are"
    output.text(f"{report.changed:,} {tasks} {done}.")
