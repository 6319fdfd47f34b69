"""`local2 restore`: replace the ledger in a data folder by one from a backup."""

from pathlib import Path

import click

from local2.backup.restoring import RestoreRequest
from local2.backup.restoring import restore as restore_backup
from local2.backup.sealing import Decrypter
from local2.cli.commands import PATH, command
from local2.cli.output import Output, run_async
from local2.logs import logging_to
from local2.settings import Settings
from local2.stack.ledgers import content_keys


@command()
@click.argument("folder", metavar="DIR", type=PATH, help="The folder that `backup` wrote to.")
@click.option("--generation", help="The name of a backup in DIR. Default: the newest.")
@click.option(
    "--data-dir", type=PATH, help="Where to restore it. Default: data_dir in the settings."
)
@click.option("--identity", type=PATH, help="The file with the age secret key that decrypts it.")
@click.option("--replace", is_flag=True, help="Move an existing memory aside.")
@click.option("--dry-run", is_flag=True, help="Only read the whole backup.")
def restore(  # noqa: PLR0913 - one parameter an option
    settings: Settings,
    output: Output,
    *,
    folder: Path,
    generation: str | None,
    data_dir: Path | None,
    identity: Path | None,
    replace: bool,
    dry_run: bool,
) -> None:
    memory = settings.memory
    own = data_dir is None or data_dir.resolve() == memory.data_dir.resolve()
    request = RestoreRequest(
        folder=folder,
        data_dir=data_dir or memory.data_dir,
        chroma_path=memory.chroma_path if own else None,
        opener=Decrypter(identity),
        key_of=content_keys(settings),
        generation=generation,
        replace=replace,
        dry_run=dry_run,
    )
    with logging_to(request.data_dir / "logs" / "restore.log"):
        restored = run_async(restore_backup(request))
    output.data(restored)
    what = f"Backup {restored.generation} of {restored.at:%Y-%m-%d %H:%M} UTC"
    done = "is complete" if request.dry_run else f"was restored to {request.data_dir}"
    output.text(f"{what} {done}: {restored.records} records.")
    if restored.forgotten:
        output.text(
            f"{restored.forgotten} of its records were forgotten later, and were erased again."
        )
    if restored.aside:
        output.text(f"The previous memory is in {restored.aside}; delete it once everything works.")
    for warning in restored.warnings:
        output.failure(warning)
