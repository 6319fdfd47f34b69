"""`local2 backup` and `restore`: make backups, read them whole, and put one in place of a ledger.

The running stack makes a backup; if none runs, one is started for it. Reading a backup needs no
stack and disturbs none; a restore refuses a folder on which one runs.
"""

import asyncio
from pathlib import Path

import click
from rich.table import Table

from local2.backup.generations import BackupFolder
from local2.backup.restoring import restore as restore_backup
from local2.backup.sealing import Decrypter
from local2.backup.verifying import verify_backup
from local2.cli.answers import bytes_progress, shown_time
from local2.cli.commands import PATH, command
from local2.cli.output import FAILED, Output, run_async, shown, uncut
from local2.cli.upkeep import stack_bus
from local2.client.access import ask_service
from local2.errors import BackupError, InvalidArgumentsError
from local2.logs import logging_to
from local2.protocol.maintenance import BackupReport, BackupRequest, size_in_units
from local2.protocol.services import BACKUP
from local2.settings import Settings
from local2.stack.ledgers import content_keys

POLL = 0.1
"""Seconds between two readings of a backup's progress."""

generation_option = click.option(
    "--generation", help="The name of a backup in DIR. Default: the newest."
)
identity_option = click.option(
    "--identity", type=PATH, help="The file with the age secret key that decrypts it."
)


@command()
@click.argument(
    "folder",
    metavar="DIR",
    required=False,
    type=PATH,
    help="The folder. Default: backup_folder in the settings.",
)
@click.option("--recipient", help="Encrypt for this age public key, or for those in this file.")
@click.option(
    "--keep",
    type=click.IntRange(min=1),
    help="How many backups to keep in DIR. Default: backup_keep in the settings.",
)
@click.option(
    "--verify",
    is_flag=True,
    help="Make no backup, but read one whole; exit with 1 if it is damaged. A stack may run.",
)
@click.option("--list", "lists", is_flag=True, help="Make no backup, but list those in DIR.")
@generation_option
@identity_option
def backup(
    settings: Settings,
    output: Output,
    *,
    folder: Path | None,
    recipient: str | None,
    keep: int | None,
    verify: bool,
    lists: bool,
    generation: str | None,
    identity: Path | None,
) -> None:
    folder = folder or settings.memory.backup_folder
    if folder is None:
        raise InvalidArgumentsError(
            "No backup folder is given.",
            remedy="Name one, or set backup_folder in config/memory.yaml.",
        )
    if lists:
        _list(output, folder)
        return
    if verify:
        if recipient or keep:
            raise InvalidArgumentsError(
                "--verify makes no backup.", remedy="Leave out --recipient and --keep."
            )
        _verify(settings, output, folder, generation, identity)
        return
    if generation or identity:
        raise InvalidArgumentsError("--generation and --identity are options of --verify.")
    if recipient and Path(recipient).expanduser().is_file():
        recipient = str(Path(recipient).expanduser().resolve())  # the stack runs elsewhere
    request = BackupRequest(folder=str(folder.resolve()), recipient=recipient, keep=keep)
    with logging_to(settings.memory.data_dir / "logs" / "backup.log"):
        report = run_async(_backup(settings, output, request))
    output.data(report)
    output.text(
        f"{report.folder}: backup {report.generation} has {report.records} records"
        f"{', encrypted' if report.encrypted else ''}. {size_in_units(report.written)} of "
        f"{size_in_units(report.size)} are new; {report.removed} earlier backups were deleted."
    )
    if report.turns_waiting:
        output.failure(
            f"{report.turns_waiting} turns still wait to be stored, and are not in the backup."
        )


async def _backup(settings: Settings, output: Output, request: BackupRequest) -> BackupReport:
    async with stack_bus(settings, output, "backing up", probe=BACKUP, operator=True) as bus:
        status = await ask_service(bus, BACKUP, request)
        with bytes_progress(output) as progress:
            task = progress.add_task("Backing up", total=None)
            while status.under_way:
                progress.update(task, total=status.total or None, completed=status.done)
                await asyncio.sleep(POLL)
                status = await ask_service(bus, BACKUP, BackupRequest())
    if status.problem is not None or status.last is None:
        raise BackupError(f"No backup was made: {status.problem or 'the stack was restarted.'}")
    return status.last


def _list(output: Output, folder: Path) -> None:
    backups = BackupFolder(folder).listed()
    output.data(backups)
    if not backups:
        output.text(f"{folder} holds no complete backup.")
        return
    table = Table("Backup", "Time", "Records", "Size", uncut("Note"))
    for listed in backups:
        records = "" if listed.records is None else f"{listed.records:,}"
        size = "" if listed.size is None else size_in_units(listed.size)
        note = "encrypted" if listed.encrypted else listed.problem or ""
        cells = listed.generation, shown_time(listed.at), records, size, note
        table.add_row(*map(shown, cells))
    output.table(table)


def _verify(
    settings: Settings, output: Output, folder: Path, generation: str | None, identity: Path | None
) -> None:
    verified = verify_backup(
        folder,
        generation,
        data_dir=settings.memory.data_dir,
        opener=Decrypter(identity),
        key_of=content_keys(settings),
    )
    output.data(verified)
    table = Table("Ledger", "Records", "Size", "Pieces", uncut("Finding"))
    for ledger in verified.ledgers:
        finding = ledger.damage or "complete"
        if ledger.damage is None and ledger.unread is not None:
            finding = f"every piece is intact; pages and records were not read: {ledger.unread}"
        table.add_row(
            shown(ledger.path),
            f"{ledger.records:,}",
            size_in_units(ledger.size),
            f"{ledger.pieces:,}",
            shown(finding),
        )
    output.table(table)
    name = f"Backup {verified.generation} of {verified.at:%Y-%m-%d %H:%M} UTC"
    if verified.turns_waiting:
        output.failure(f"{verified.turns_waiting} turns waited to be stored, and are not in it.")
    if verified.damaged:
        output.failure(
            f"{name} is damaged, and cannot be restored. Make another one; "
            "--generation reads an earlier one."
        )
        raise click.exceptions.Exit(FAILED)
    output.text(f"{name} is intact: `local2 restore` can restore it.")


@command()
@click.argument("folder", metavar="DIR", type=PATH, help="The folder that `backup` wrote to.")
@generation_option
@click.option(
    "--data-dir", type=PATH, help="Where to restore it. Default: data_dir in the settings."
)
@identity_option
@click.option("--replace", is_flag=True, help="Move an existing memory aside.")
def restore(
    settings: Settings,
    output: Output,
    *,
    folder: Path,
    generation: str | None,
    data_dir: Path | None,
    identity: Path | None,
    replace: bool,
) -> None:
    memory = settings.memory
    own = data_dir is None or data_dir.resolve() == memory.data_dir.resolve()
    target = data_dir or memory.data_dir
    with logging_to(target / "logs" / "restore.log"):
        restored = run_async(
            restore_backup(
                folder,
                generation,
                data_dir=target,
                chroma_path=memory.chroma_path if own else None,
                opener=Decrypter(identity),
                key_of=content_keys(settings),
                replace=replace,
            )
        )
    output.data(restored)
    output.text(
        f"Backup {restored.generation} of {restored.at:%Y-%m-%d %H:%M} UTC was restored to "
        f"{target}: {restored.records} records."
    )
    if restored.forgotten:
        output.text(
            f"{restored.forgotten} of its records were forgotten later, and were erased again."
        )
    if restored.aside:
        output.text(f"The previous memory is in {restored.aside}; delete it once everything works.")
    for warning in restored.warnings:
        output.failure(warning)
