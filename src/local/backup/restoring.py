"""Restores ledgers where no stack runs: from a backup, or from before the last migration.

A backup is put together beside the existing files, all of it is read, and what was forgotten since
is erased from it. Only then does it replace them. The copy that a migration leaves (decision 0059)
is complete already, and replaces the ledger at once.
"""

import asyncio
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from local.backup.files import LedgerFile, key_of_ledger, ledger_files, replace_ledgers
from local.backup.generations import BackupFolder, CopiedFile, Generation, Manifest
from local.backup.sealing import Opener
from local.content_key import ContentKey, KeyOf
from local.errors import BackupError, LedgerKeyError, StorageError, UnwritableError
from local.home import folder_lock
from local.ledger.door import (
    Contents,
    contents_of,
    copies_before_migrations,
    counted,
    ensure_known,
    forget_again,
)
from local.vectors.config import distrust_index

SCRATCH = "restore.part"

Keys = Mapping[str, ContentKey | None]
"""By paths of ledgers; an encrypted one without its key is left out."""


class Wish(msgspec.Struct, frozen=True, kw_only=True):
    """A restoration: what, and where. `generation` is its name; None means the newest.

    `key_of`: the keys of encrypted ledgers. `chroma_path`: the index of that data folder; None
    where the index is elsewhere. `replace`: move the existing files aside. `dry_run`: only read all
    of the backup.
    """

    folder: Path
    data_dir: Path
    chroma_path: Path | None
    opener: Opener
    key_of: KeyOf
    generation: str | None = None
    replace: bool = False
    dry_run: bool = False


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    """`forgotten`: records erased since, and again now. `aside`: where the former files are."""

    generation: str
    at: datetime
    ledgers: int
    records: int
    forgotten: int = 0
    warnings: list[str] = []
    aside: str | None = None


async def restore(wish: Wish) -> Restored:
    """Restore a backup, all or nothing.

    Raises:
        BackupError: It is no backup, is damaged, or opens with another key; or a ledger exists and
            must not be replaced.
        LedgerKeyError: A ledger in it is encrypted with another key than the one that is there.
        FolderLockedError: A stack runs on the data folder.
        StorageError: There is not enough space, or it is of a newer local2.
    """
    generation = await asyncio.to_thread(_chosen, wish)
    manifest = await asyncio.to_thread(generation.manifest, wish.opener)
    keys, unread = _keys(manifest, wish.key_of)
    with folder_lock(wish.data_dir):
        former = ledger_files(wish.data_dir)
        if former and not (wish.replace or wish.dry_run):
            raise BackupError(
                f"{wish.data_dir} holds a memory.",
                remedy="--replace moves it aside; --data-dir names another folder.",
            )
        with _unpacked(wish.data_dir) as scratch:
            new = await asyncio.to_thread(
                _extracted, generation, manifest, scratch, wish.opener, keys
            )
            forgotten, warnings = 0, [*_waiting(manifest), *unread]
            aside = None
            if not wish.dry_run:
                forgotten, missed = await _forget_again(new, former, keys, manifest.at)
                warnings += missed
                aside = replace_ledgers(wish.data_dir, new, former, datetime.now(UTC))
                distrust_index(wish.chroma_path)
    return Restored(
        generation=generation.path.name,
        at=manifest.at,
        ledgers=len(manifest.ledgers),
        records=manifest.records,
        forgotten=forgotten,
        warnings=warnings,
        aside=str(aside) if aside else None,
    )


def _chosen(wish: Wish) -> Generation:
    generations = BackupFolder(wish.folder).generations()
    names = [one.path.name for one in generations]
    if not generations:
        raise BackupError(f"{wish.folder} holds no whole backup.")
    if wish.generation is None:
        return generations[-1]
    if wish.generation not in names:
        raise BackupError(
            f"{wish.folder} holds no backup {wish.generation}.",
            remedy=f"It holds {', '.join(names)}.",
        )
    return generations[names.index(wish.generation)]


@contextmanager
def _unpacked(data_dir: Path) -> Iterator[Path]:
    """A folder on the same disk, empty at first and gone at the end."""
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


def _keys(manifest: Manifest, key_of: KeyOf) -> tuple[Keys, list[str]]:
    """Return the keys of the ledgers, and what cannot be read: a key may be put back later."""
    keys, unread = {}, []
    for ledger in manifest.ledgers:
        try:
            keys[ledger.path] = key_of_ledger(ledger.path, key_of)
        except LedgerKeyError as error:
            unread.append(
                f"{ledger.path} is as it was stored, but its pages and records were not read: "
                f"{error.message}"
            )
    return keys, unread


def _extracted(
    generation: Generation, manifest: Manifest, scratch: Path, opener: Opener, keys: Keys
) -> dict[str, Path]:
    """Return every ledger of the backup as a file, all of it read if its key is there."""
    files: dict[str, Path] = {}
    for ledger in manifest.ledgers:
        file = scratch / ledger.path
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        ensure_known(file, ledger.schema)
        generation.extract(ledger, file, opener)
        if ledger.path in keys:
            _compare(ledger, contents_of(file, keys[ledger.path]))
        files[ledger.path] = file
    return files


def _compare(ledger: CopiedFile, found: Contents) -> None:
    if (found.schema, found.records) != (ledger.schema, ledger.records):
        raise BackupError(
            f"The backup says that {ledger.path} has {ledger.records} records, and it has "
            f"{found.records}."
        )


async def _forget_again(
    new: Mapping[str, Path], former: Mapping[str, Path], keys: Keys, at: datetime
) -> tuple[int, list[str]]:
    """Erase what was forgotten since; return how much that was, and what could not be known."""
    forgotten, unknown = 0, []
    for name, file in new.items():
        why = "There is no ledger that says what."
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


def _waiting(manifest: Manifest) -> list[str]:
    if not manifest.turns_waiting:
        return []
    waiting = f"{manifest.turns_waiting} turns waited to be stored when the backup was made"
    return [f"{waiting}: they are not in it."]


class WayBack(msgspec.Struct, frozen=True, kw_only=True):
    """The way from today's ledger back to the stored one.

    `lost`: how many records only today's has; None where today's cannot be read.
    """

    name: str
    kept: str
    schema: int
    records: int
    kept_at: datetime
    lost: int | None


def ways_back(data_dir: Path, key_of: KeyOf) -> list[WayBack]:
    """Return the ledgers to go back to, all of them read; the caller has the folder's lock.

    Raises:
        BackupError: No earlier ledger is stored.
        LedgerKeyError: It is encrypted, and its key is missing or another's.
        StorageError: The earlier ledger is damaged.
    """
    found = []
    for name, ledger in ledger_files(data_dir).items():
        if copies := copies_before_migrations(ledger):
            schema, file = max(copies.items())
            now = LedgerFile(ledger, key_of_ledger(name, key_of))
            found.append(_way_back(name, now, schema, file))
    if not found:
        raise BackupError(
            f"{data_dir} holds no ledger from before a migration.",
            remedy="`local2 restore DIR` restores a backup.",
        )
    return found


def go_back(data_dir: Path, chroma_path: Path, ways: list[WayBack]) -> Path | None:
    """Replace today's ledgers by the earlier ones; today's are moved aside.

    Raises:
        UnwritableError: A file cannot be moved.
    """
    copies = {way.name: Path(way.kept) for way in ways}
    aside = replace_ledgers(data_dir, copies, list(copies), datetime.now(UTC))
    distrust_index(chroma_path)
    return aside


def _way_back(name: str, ledger: LedgerFile, schema: int, file: Path) -> WayBack:
    there = contents_of(file, ledger.key)
    try:
        now: Contents | None = counted(*ledger)
    except StorageError:
        now = None
    return WayBack(
        name=name,
        kept=str(file),
        schema=schema,
        records=there.records,
        kept_at=datetime.fromtimestamp(file.stat().st_mtime, UTC),
        lost=max(now.records - there.records, 0) if now else None,
    )
