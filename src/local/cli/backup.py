"""`local2 backup`: has the running stack make a backup, or a stack that is started for it."""

import asyncio
from pathlib import Path

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn

from local.cli.offline import stack_bus
from local.cli.output import Output, run_async
from local.client.maintenance import backup_status, begin_backup
from local.errors import BackupError, InvalidArgumentsError
from local.logs import logging_to
from local.protocol.maintenance import BackupReport, BackupRequest
from local.settings import Settings

POLL = 0.1
"""Seconds between two looks at how far it is."""
MEGABYTE = 1_000_000


def backup(
    settings: Settings,
    output: Output,
    folder: Path | None,
    *,
    recipient: str | None,
    keep: int | None,
) -> None:
    folder = folder or settings.memory.backup_folder
    if folder is None:
        raise InvalidArgumentsError(
            "No folder is named.", remedy="Name one, or set backup_folder in config/memory.yaml."
        )
    if recipient and Path(recipient).expanduser().is_file():
        recipient = str(Path(recipient).expanduser().resolve())  # the stack runs elsewhere
    request = BackupRequest(folder=str(folder.resolve()), recipient=recipient, keep=keep)
    with logging_to(settings.memory.data_dir / "logs" / "backup.log"):
        report = run_async(_backup(settings, output, request))
    output.data(report)
    output.text(
        f"{report.folder}: backup {report.generation} has {report.records} records"
        f"{', encrypted' if report.encrypted else ''}. {_megabytes(report.written)} of "
        f"{_megabytes(report.size)} are new; {report.removed} earlier backups were deleted."
    )
    if report.turns_waiting:
        output.failure(f"{report.turns_waiting} turns wait to be stored, and are not in it.")


async def _backup(settings: Settings, output: Output, request: BackupRequest) -> BackupReport:
    async with stack_bus(settings, output, "backing up", asked=backup_status, operator=True) as bus:
        status = await begin_backup(bus, request)
        with _progress(output) as progress:
            task = progress.add_task("Backing up", total=None)
            while status.under_way:
                progress.update(task, total=status.total or None, completed=status.done)
                await asyncio.sleep(POLL)
                status = await backup_status(bus)
    if status.problem is not None or status.last is None:
        raise BackupError(f"No backup was made: {status.problem or 'the stack was restarted.'}")
    return status.last


def _progress(output: Output) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn())
    return Progress(*columns, console=output.errors, disable=output.json, transient=True)


def _megabytes(size: int) -> str:
    return f"{size / MEGABYTE:,.1f} MB"
