"""`local2 restore` and `migrate`: another ledger takes the place of the one in a data folder."""

from pathlib import Path

import typer

from local.backup.restoring import Restored, WayBack, Wish, go_back, ways_back
from local.backup.restoring import restore as restore_backup
from local.backup.sealing import Opener
from local.cli.output import FAILED, Output, run_async
from local.errors import InvalidArgumentsError
from local.home import folder_lock
from local.logs import logging_to
from local.opening import content_keys, open_ledgers, tenants_of
from local.settings import Settings


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
    wish = Wish(
        folder=folder,
        data_dir=data_dir or memory.data_dir,
        chroma_path=memory.chroma_path if own else None,
        opener=Opener(identity),
        key_of=content_keys(settings),
        generation=generation,
        replace=replace,
        dry_run=dry_run,
    )
    with logging_to(wish.data_dir / "logs" / "restore.log"):
        restored = run_async(restore_backup(wish))
    output.data(restored)
    _show(output, wish, restored)


def _show(output: Output, wish: Wish, restored: Restored) -> None:
    what = f"Backup {restored.generation} of {restored.at:%Y-%m-%d %H:%M} UTC"
    done = "is whole" if wish.dry_run else f"is restored to {wish.data_dir}"
    output.text(f"{what} {done}: {restored.records} records.")
    if restored.forgotten:
        output.text(f"{restored.forgotten} records were forgotten since, and are erased again.")
    if restored.aside:
        output.text(f"What was there is in {restored.aside}; delete it when all is well.")
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
            run_async(_migrated(settings))
            output.text("The ledger has the schema of this local2.")


async def _migrated(settings: Settings) -> None:
    async with open_ledgers(settings.memory, content_keys(settings)) as ledgers:
        for tenant in tenants_of(settings):
            if await ledgers.find(tenant):
                async with ledgers.opened(tenant):
                    pass


def _go_back(settings: Settings, output: Output, *, yes: bool) -> None:
    memory = settings.memory
    ways = ways_back(memory.data_dir, content_keys(settings))
    for way in ways:
        output.text(_described(way))
    if not yes:
        _confirm(output)
    aside = go_back(memory.data_dir, memory.chroma_path, ways)
    output.data(ways)
    output.text(
        f"Today's ledger is in {aside}. Start the local2 of before: this one migrates again."
    )


def _confirm(output: Output) -> None:
    if output.json:
        raise InvalidArgumentsError("With --json there is no question.", remedy="Add --yes.")
    if not typer.confirm("Go back?"):
        raise typer.Exit(FAILED)


def _described(way: WayBack) -> str:
    lost = "It cannot be read what is lost" if way.lost is None else f"{way.lost} records are lost"
    return (
        f"{way.name} goes back to schema {way.schema} of {way.kept_at:%Y-%m-%d %H:%M} UTC, with "
        f"{way.records} records. {lost}, and whatever else was changed since."
    )
