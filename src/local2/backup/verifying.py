"""Reads a backup whole: every piece, and every page and record of the ledgers that they make.

This is what `restore` does before it replaces anything. `local2 backup --verify` does only this,
beside a running stack: it takes no lock, and its copies have a folder of their own.
"""

import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from local2.backup.files import key_of_ledger, scratch_folder
from local2.backup.generations import BackupFolder, BackupGeneration, CopiedFile, Manifest
from local2.backup.sealing import Decrypter
from local2.backup.taking import Progress
from local2.content_key import ContentKey, KeyOf
from local2.errors import BackupError, DamagedError, LedgerKeyError
from local2.home import is_alive
from local2.ledger.engines.sqlite.copies import refuse_another_schema, verified_contents
from local2.protocol.maintenance import VerifiedBackup, VerifiedLedger

SCRATCH = "verify-{process}.part"
"""Name of the folder in the data folder that a process extracts a backup to."""

Keys = Mapping[str, ContentKey | None]
"""Keys by path of the ledger; encrypted ledgers whose keys are missing are left out."""


def verify_backup(
    folder: Path,
    name: str | None,
    *,
    data_dir: Path,
    opener: Decrypter,
    key_of: KeyOf,
    progress: Progress | None = None,
) -> VerifiedBackup:
    """Read a backup whole; what is damaged in its ledgers is told, and not raised.

    Args:
        folder: The folder of the backups.
        name: The generation to read; None means the newest.
        data_dir: Its ledgers are extracted to this folder for a while.
        opener: Decrypts it.
        key_of: Returns the keys of encrypted ledgers.
        progress: Counts the bytes that were read.

    Raises:
        Stopped: `progress` was stopped.
        BackupError: The backup is missing, its manifest is damaged, or it needs another key.
        LedgerKeyError: A ledger in the backup is encrypted with another key than the present one.
        StorageError: There is not enough space, or the backup has another schema.
    """
    progress = progress or Progress()
    generation = BackupFolder(folder).find(name)
    manifest = generation.manifest(opener)
    progress.total = manifest.size
    keys, unread = keys_of(manifest, key_of)
    # What processes that were killed had extracted is removed first.
    for left_over in data_dir.glob(SCRATCH.format(process="*")):
        process = left_over.name.removeprefix("verify-").removesuffix(".part")
        if process.isdigit() and not is_alive(int(process)):
            shutil.rmtree(left_over, ignore_errors=True)
    was_there = data_dir.exists()
    ledgers = []
    try:
        own = SCRATCH.format(process=os.getpid())
        with scratch_folder(data_dir, own) as scratch:
            for ledger in manifest.ledgers:
                damage = None
                try:
                    extract_verified(
                        generation, ledger, scratch, opener, keys, advance=progress.advance
                    ).unlink()
                except (BackupError, DamagedError) as error:
                    damage = error.message
                ledgers.append(
                    VerifiedLedger(
                        path=ledger.path,
                        records=ledger.records,
                        size=ledger.size,
                        pieces=len(ledger.pieces),
                        damage=damage,
                        unread=unread.get(ledger.path),
                    )
                )
    finally:
        if not was_there:  # an empty data folder would look like a memory
            with suppress(OSError):
                data_dir.rmdir()
    return VerifiedBackup(
        generation=generation.path.name,
        at=manifest.at,
        damaged=any(ledger.damage is not None for ledger in ledgers),
        turns_waiting=manifest.turns_waiting,
        ledgers=ledgers,
    )


def keys_of(manifest: Manifest, key_of: KeyOf) -> tuple[Keys, dict[str, str]]:
    """The ledgers' keys, and by path why others are missing: they may be added later."""
    keys: dict[str, ContentKey | None] = {}
    missing: dict[str, str] = {}
    for ledger in manifest.ledgers:
        try:
            keys[ledger.path] = key_of_ledger(ledger.path, key_of)
        except LedgerKeyError as error:
            missing[ledger.path] = error.message
    return keys, missing


def extract_verified(
    generation: BackupGeneration,
    ledger: CopiedFile,
    scratch: Path,
    opener: Decrypter,
    keys: Keys,
    *,
    advance: Callable[[int], None] = lambda _: None,
) -> Path:
    """Extract a ledger to its path in a folder, and read it completely if its key is there.

    `advance` is told the bytes of each piece.

    Raises:
        BackupError: A piece is missing or damaged, or needs another key; or records are missing.
        DamagedError: A page is damaged.
        LedgerKeyError: The key belongs to another ledger.
        StorageError: There is not enough space, or the ledger has another schema.
    """
    file = scratch / ledger.path
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    refuse_another_schema(file, ledger.schema)
    generation.extract(ledger, file, opener, advance)
    if ledger.path in keys:
        found = verified_contents(file, keys[ledger.path])
        if (found.schema, found.rows) != (ledger.schema, ledger.rows):
            raise BackupError(
                f"{ledger.path} has {found.rows} records, but the backup should have {ledger.rows}."
            )
    return file
