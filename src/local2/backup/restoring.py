"""Restores ledgers from a backup while no stack runs.

A backup is extracted beside the existing files and read completely, and what was erased since it
was made is erased from it. Only then does it replace them.
"""

import asyncio
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from local2.backup.files import key_of_ledger, ledger_files, replace_ledgers
from local2.backup.generations import BackupFolder, Generation, Manifest
from local2.backup.sealing import Decrypter
from local2.content_key import ContentKey, KeyOf
from local2.errors import BackupError, LedgerKeyError, StorageError, UnwritableError
from local2.home import folder_lock
from local2.ledger.sqlite.copies import contents_of, forget_again, refuse_another_schema
from local2.vectors.config import distrust_index

SCRATCH = "restore.part"
"""Name of the folder in the data folder that a backup is extracted to."""

Keys = Mapping[str, ContentKey | None]
"""Keys by path of the ledger; encrypted ledgers whose keys are missing are left out."""


class RestoreRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What to restore, and where.

    `generation` is the name of the backup; None means the newest. `key_of` returns the keys of
    encrypted ledgers. `chroma_path` is the index of the data folder; None if it is elsewhere.
    `replace` moves the existing files aside. `dry_run` only reads the backup, completely.
    """

    folder: Path
    data_dir: Path
    chroma_path: Path | None
    opener: Decrypter
    key_of: KeyOf
    generation: str | None = None
    replace: bool = False
    dry_run: bool = False


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """The result of a restoration.

    `forgotten` counts records that were erased since the backup, and are erased again. `aside` is
    the folder of the former files.
    """

    generation: str
    at: datetime
    ledgers: int
    records: int
    forgotten: int = 0
    warnings: list[str] = []
    aside: str | None = None


async def restore(request: RestoreRequest) -> Restored:
    """Restore a backup, all or nothing.

    Raises:
        BackupError: The backup is missing, is damaged, or needs another key; or a ledger exists
            and must not be replaced.
        LedgerKeyError: A ledger in the backup is encrypted with another key than the present one.
        FolderLockedError: A stack runs on the data folder.
        StorageError: There is not enough space, or the backup has another schema.
    """
    generation = await asyncio.to_thread(_chosen, request)
    manifest = await asyncio.to_thread(generation.manifest, request.opener)
    keys, unread = {}, []
    for ledger in manifest.ledgers:
        try:
            keys[ledger.path] = key_of_ledger(ledger.path, request.key_of)
        except LedgerKeyError as error:  # the key may be added later
            unread.append(
                f"{ledger.path} is unchanged, but its pages and records were not checked: "
                f"{error.message}"
            )
    with folder_lock(request.data_dir):
        former = ledger_files(request.data_dir)
        if former and not (request.replace or request.dry_run):
            raise BackupError(
                f"{request.data_dir} holds a memory.",
                remedy="--replace moves it aside; --data-dir names another folder.",
            )
        with _scratch_folder(request.data_dir) as scratch:
            new = await asyncio.to_thread(
                _extract, generation, manifest, scratch, request.opener, keys
            )
            forgotten, warnings = 0, list(unread)
            if waiting := manifest.turns_waiting:
                warnings.insert(
                    0,
                    f"{waiting} turns waited to be stored when the backup was made: they are not "
                    "in it.",
                )
            aside = None
            if not request.dry_run:
                forgotten, missed = await _forget_again(new, former, keys, manifest.at)
                warnings += missed
                aside = replace_ledgers(request.data_dir, new, former, datetime.now(UTC))
                distrust_index(request.chroma_path)
    return Restored(
        generation=generation.path.name,
        at=manifest.at,
        ledgers=len(manifest.ledgers),
        records=manifest.records,
        forgotten=forgotten,
        warnings=warnings,
        aside=str(aside) if aside else None,
    )


def _chosen(request: RestoreRequest) -> Generation:
    generations = BackupFolder(request.folder).generations()
    names = [generation.path.name for generation in generations]
    if not generations:
        raise BackupError(f"{request.folder} holds no complete backup.")
    if request.generation is None:
        return generations[-1]
    if request.generation not in names:
        raise BackupError(
            f"{request.folder} holds no backup {request.generation}.",
            remedy=f"It holds {', '.join(names)}.",
        )
    return generations[names.index(request.generation)]


@contextmanager
def _scratch_folder(data_dir: Path) -> Iterator[Path]:
    """Yield an empty folder on the same disk, which is deleted at the end."""
    scratch = data_dir / SCRATCH
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        scratch.mkdir(mode=0o700)
    except OSError as error:
        raise UnwritableError(data_dir, error) from error
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def _extract(
    generation: Generation, manifest: Manifest, scratch: Path, opener: Decrypter, keys: Keys
) -> dict[str, Path]:
    """Extract every ledger of the backup to a file, and read it completely if its key exists."""
    files: dict[str, Path] = {}
    for ledger in manifest.ledgers:
        file = scratch / ledger.path
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        refuse_another_schema(file, ledger.schema)
        generation.extract(ledger, file, opener)
        if ledger.path in keys:
            found = contents_of(file, keys[ledger.path])
            if (found.schema, found.rows) != (ledger.schema, ledger.records):
                raise BackupError(
                    f"{ledger.path} has {found.rows} records, but the backup should have "
                    f"{ledger.records}."
                )
        files[ledger.path] = file
    return files


async def _forget_again(
    new: Mapping[str, Path], former: Mapping[str, Path], keys: Keys, at: datetime
) -> tuple[int, list[str]]:
    """Erase what was erased since; return the number of records, and warnings."""
    forgotten, unknown = 0, []
    for name, file in new.items():
        why = "There is no former ledger that records it."
        try:
            if name in former and name in keys:
                forgotten += await forget_again(file, former[name], keys[name])
                continue
            if name in former:
                why = "It cannot be read without its key."
        except StorageError as error:
            why = error.message
        finally:
            file.with_suffix(".tally").unlink(missing_ok=True)
        unknown.append(
            f"What was forgotten after {at:%Y-%m-%d %H:%M} UTC may be back in {name}: forget it "
            f"again. {why}"
        )
    return forgotten, unknown
