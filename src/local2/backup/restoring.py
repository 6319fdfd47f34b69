"""Restores ledgers from a backup while no stack runs.

A backup is extracted beside the existing files and read completely, and what was erased since it
was made is erased from it. Only then does it replace them.
"""

import asyncio
from collections.abc import Collection, Mapping
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import structlog

from local2.atomic_file import sync
from local2.backup.files import ledger_files, scratch_folder
from local2.backup.generations import BackupFolder
from local2.backup.sealing import Decrypter
from local2.backup.verifying import Keys, extract_verified, keys_of
from local2.content_key import KeyOf
from local2.errors import BackupError, StorageError, UnwritableError
from local2.home import LEDGER_FILE, folder_lock
from local2.ledger.engines.sqlite.erasing_again import forget_again
from local2.vectors.config import distrust_index

SCRATCH = "restore.part"
"""Name of the folder in the data folder that a backup is extracted to."""

log = structlog.get_logger()


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


async def restore(
    folder: Path,
    name: str | None = None,
    *,
    data_dir: Path,
    chroma_path: Path | None,
    opener: Decrypter,
    key_of: KeyOf,
    replace: bool = False,
) -> Restored:
    """Restore a backup, all or nothing.

    Args:
        folder: The folder of the backups.
        name: The generation to restore; None means the newest.
        data_dir: Where to restore it.
        chroma_path: The index of that data folder; None if it is elsewhere.
        opener: Decrypts the backup.
        key_of: Returns the keys of encrypted ledgers.
        replace: Whether to move existing files aside.

    Raises:
        BackupError: The backup is missing, is damaged, or needs another key; or a ledger exists
            and must not be replaced.
        LedgerKeyError: A ledger in the backup is encrypted with another key than the present one.
        FolderLockedError: A stack runs on the data folder.
        StorageError: There is not enough space, or the backup has another schema.
    """
    generation = await asyncio.to_thread(BackupFolder(folder).find, name)
    manifest = await asyncio.to_thread(generation.manifest, opener)
    keys, missing_keys = keys_of(manifest, key_of)
    with folder_lock(data_dir):
        former = ledger_files(data_dir)
        if former and not replace:
            raise BackupError(
                f"{data_dir} holds a memory.",
                remedy="--replace moves it aside; --data-dir names another folder.",
            )
        with scratch_folder(data_dir, SCRATCH) as scratch:
            new = {
                ledger.path: await asyncio.to_thread(
                    extract_verified, generation, ledger, scratch, opener, keys
                )
                for ledger in manifest.ledgers
            }
            warnings = []
            if waiting := manifest.turns_waiting:
                warnings.append(
                    f"{waiting} turns waited to be stored when the backup was made: they are not "
                    "in it."
                )
            warnings += [
                f"{path} is unchanged, but its pages and records were not checked: {reason}"
                for path, reason in missing_keys.items()
            ]
            forgotten, missed = await _forget_again(new, former, keys, manifest.at)
            aside = replace_ledgers(data_dir, new, former, datetime.now(UTC))
            distrust_index(chroma_path)
    return Restored(
        generation=generation.path.name,
        at=manifest.at,
        ledgers=len(manifest.ledgers),
        records=manifest.records,
        forgotten=forgotten,
        warnings=warnings + missed,
        aside=str(aside) if aside else None,
    )


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


def replace_ledgers(
    data_dir: Path, new: Mapping[str, Path], former: Collection[str], at: datetime
) -> Path | None:
    """Move the former ledgers aside and the new ones into place; return the folder of the former.

    The former files are moved first and their commit counts last. Until then, no stack starts on
    the folder (decision 0023), so a kill in between never leaves one that looks complete.

    Raises:
        UnwritableError: A file cannot be moved; calling this again continues.
    """
    every = sorted({*former, *new}, key=lambda name: name == LEDGER_FILE)  # the shared one last
    aside = data_dir / f"aside-{at:%Y%m%dT%H%M%S%fZ}"
    try:
        for name in every:
            for ending in ("", "-wal", "-shm"):
                _move(data_dir / f"{name}{ending}", aside / f"{name}{ending}")
        for name in (name for name in every if name in new):
            (data_dir / name).parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new[name].rename(data_dir / name)
            sync((data_dir / name).parent)
        for name in every:
            tally = Path(name).with_suffix(".tally")
            _move(data_dir / tally, aside / tally)
    except OSError as error:
        raise UnwritableError(data_dir, error) from error
    log.info("ledgers_replaced", data=str(data_dir), new=len(new), former=len(former))
    return aside if aside.exists() else None


def _move(file: Path, aside: Path) -> None:
    if file.exists():
        aside.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.rename(aside)
        sync(file.parent)
