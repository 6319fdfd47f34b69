"""`local2 import` of anything but an export of local2: send it, show the progress, report."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from local2.cli.answers import NAME, Outcome, name_of, report
from local2.cli.output import Output, beginning, run_async
from local2.client.access import connected
from local2.errors import Local2Error
from local2.protocol.envelope import Sender
from local2.settings import Settings
from local2.sources.importer import Importer
from local2.sources.items import LeftOut
from local2.sources.opening import TITLES, Source

if TYPE_CHECKING:
    from rich.progress import Progress

AGAIN = "Import it again to continue: nothing is stored twice."
SHOWN_NAMES = 3
NAME_CHARACTERS = 160


def import_source(  # noqa: PLR0913 - one parameter an option
    settings: Settings,
    output: Output,
    file: Path,
    source: Source,
    caller: Sender,
    *,
    mine: bool,
    dry_run: bool,
) -> None:
    """Import a source; end the command with exit code 1 if it was not read to its end."""
    output.text(f"{name_of(file)}: {TITLES[source.format]}.")
    error = None
    with _progress(output) as bar:
        task = bar.add_task("Importing", total=source.total_bytes, told="")
        began, sent = time.monotonic(), 0

        def show(number: int) -> None:
            nonlocal sent
            sent += number
            rate = sent / max(time.monotonic() - began, 0.001)
            told = f"{sent:,} stored, {rate:,.0f}/s"
            bar.update(task, completed=source.bytes_read, told=told)

        importer = Importer(source, caller, mine=mine, on_sent=show)
        try:
            if dry_run:
                importer.count()
            else:
                run_async(_send(settings, importer, caller))
        except Local2Error as failed:
            error = str(failed)
        except KeyboardInterrupt:
            error = "It was interrupted."
    done = importer.report
    for group in done.left_out:
        output.text(_told(group))
    content = done.summary()
    if error is not None:
        error = f"{content} Then: {error} {AGAIN}"
    report(output, [Outcome(file=name_of(file), content=content, data=done, error=error)])


async def _send(settings: Settings, importer: Importer, caller: Sender) -> None:
    async with connected(settings, name=NAME, user=caller.user) as bus:
        await importer.run(bus)


def _told(group: LeftOut) -> str:
    """Say what was left out for one reason."""
    names = [beginning(name, NAME_CHARACTERS) for name in group.names[:SHOWN_NAMES]]
    more = ["and more; --json lists them"] if len(group.names) > SHOWN_NAMES else []
    named = "; ".join([*names, *more]).rstrip(".")
    return f"Left out: {group.count:,} ({group.reason}): {named}."


def _progress(output: Output) -> "Progress":
    """Make a bar of the part that was read, with the rate and the time left."""
    from rich.progress import (  # noqa: PLC0415 - few commands show one
        BarColumn,
        Progress,
        TaskProgressColumn,
        TextColumn,
        TimeRemainingColumn,
    )

    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[told]}", markup=False),
        TimeRemainingColumn(),
        console=output.errors,
        transient=True,
        disable=not output.shows_progress,
    )
