"""`local2 restore` and `migrate`: replace the ledger in a data folder by another one."""

from pathlib import Path

import click

from local2.backup.restoring import (
    EarlierLedger,
    Restored,
    RestoreRequest,
    earlier_ledgers,
    go_back,
)
from local2.backup.restoring import restore as restore_backup
from local2.backup.sealing import Decrypter
from local2.cli.output import FAILED, Output, run_async
from local2.errors import InvalidArgumentsError
from local2.home import folder_lock
from local2.logs import logging_to
from local2.opening import content_keys, open_ledgers, tenants_of
from local2.settings import Settings


def restore(  # noqa: PLR0913 - one parameter an option
    settings: Settings,
    output: Output,
    folder: Path,
    *,
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
    _show(output, request, restored)


def _show(output: Output, request: RestoreRequest, restored: Restored) -> None:
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


def migrate(settings: Settings, output: Output, *, back: bool, yes: bool) -> None:
    with (
        logging_to(settings.memory.data_dir / "logs" / "migrate.log"),
        folder_lock(settings.memory.data_dir),
    ):
        if back:
            _go_back(settings, output, yes=yes)
        else:
            run_async(_migrate(settings))
            output.text("The ledger has the schema of this version of local2.")


async def _migrate(settings: Settings) -> None:
    async with open_ledgers(settings.memory, content_keys(settings)) as ledgers:
        for tenant in tenants_of(settings):
            if await ledgers.find(tenant):
                async with ledgers.open(tenant):
                    pass


def _go_back(settings: Settings, output: Output, *, yes: bool) -> None:
    memory = settings.memory
    earlier = earlier_ledgers(memory.data_dir, content_keys(settings))
    for ledger in earlier:
        output.text(_describe(ledger))
    if not yes:
        _confirm(output)
    aside = go_back(memory.data_dir, memory.chroma_path, earlier)
    output.data(earlier)
    output.text(
        f"Today's ledger is in {aside}. Start the previous version of local2: this one would "
        "migrate again."
    )


def _confirm(output: Output) -> None:
    if output.json:
        raise InvalidArgumentsError(
            "With --json, the command cannot ask for confirmation.", remedy="Add --yes."
        )
    if not click.confirm("Go back?"):
        raise click.exceptions.Exit(FAILED)


def _describe(ledger: EarlierLedger) -> str:
    lost = "An unknown number of" if ledger.lost is None else f"{ledger.lost}"
    return (
        f"{ledger.name} goes back to schema {ledger.schema} of {ledger.kept_at:%Y-%m-%d %H:%M} "
        f"UTC, with {ledger.records} records. {lost} records and all other changes since then will "
        "be lost."
    )
