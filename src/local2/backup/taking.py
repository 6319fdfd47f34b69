"""Makes one backup, from copying each ledger to storing its pieces; runs in a thread.

Each ledger is first copied within the data folder, and the copy is read completely: damaged content
never becomes a generation, and so never displaces a good one. A piece that the previous generation
has is linked and not written again. New pieces are synced to the disk and not read back: that would
read the system's memory. `local2 backup --verify` reads them later (`verifying.py`).
"""

import os
import threading
from collections.abc import Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec

from local2._version import __version__
from local2.atomic_file import sync
from local2.backup.files import LedgerFile, digest, scratch_folder, write
from local2.backup.generations import (
    FORMAT,
    PIECES,
    BackupFolder,
    BackupGeneration,
    CopiedFile,
    Manifest,
)
from local2.backup.sealing import Seal
from local2.errors import BackupError
from local2.home import LEDGER_FILE
from local2.ledger.engines.sqlite.copies import (
    copy,
    counts_of,
    ledger_key,
    refuse_without_room,
    verified_contents,
)
from local2.protocol.maintenance import BackupReport

SCRATCH = "backup.part"
"""Name of the folder in the data folder that ledgers are copied to."""
PIECE_BYTES = 64 * 1024
"""Size of a piece in bytes: 16 pages. More of the smaller pieces could be linked, but there would
be more files."""


class Pieces:
    """Stores files piece by piece in a generation that is being written."""

    def __init__(self, folder: Path, earlier: BackupGeneration | None, seal: Seal) -> None:
        self._folder = folder
        self._earlier = earlier.path / PIECES if earlier else None
        self._seal = seal
        self._new: list[Path] = []
        self.written = 0
        """Number of bytes that the previous generation did not have."""

    def key_of(self, ledger: bytes) -> bytes:
        """Derive the key of the pieces' names; pieces encrypted to other keys get other names."""
        return bytes.fromhex(digest("\n".join(self._seal.recipients).encode(), ledger))

    def store(self, piece: bytes, key: bytes) -> str:
        """Store or link a piece; return its name."""
        name = digest(piece, key)
        target = self._folder / PIECES / name
        if not target.exists() and not self._link_if_stored(name, piece, target):
            closed = self._seal.encrypt(piece)
            refuse_without_room(self._folder, len(closed))
            write(target, closed, synced=False)
            self._new.append(target)
            self.written += len(closed)
        return name

    def finish(self, manifest: Manifest) -> None:
        """Sync all pieces to the disk, then write the manifest."""
        for piece in self._new:
            sync(piece)
        name = "manifest.age" if self._seal.encrypts else "manifest.json"
        data = self._seal.encrypt(msgspec.json.encode(manifest))
        write(self._folder / name, data)
        self.written += len(data)

    def _link_if_stored(self, name: str, piece: bytes, target: Path) -> bool:
        """Link a piece if the previous generation has it, undamaged as far as it can be read."""
        if self._earlier is None:
            return False
        former = self._earlier / name
        with suppress(OSError):  # no such piece, or a file system without links
            if self._seal.encrypts or former.read_bytes() == piece:
                os.link(former, target)
                return True
        return False


class Stopped(Exception):  # noqa: N818 - not an error
    """The stack is stopping; the backup will be made another time."""


class Progress:
    """Counts processed bytes; each byte of a ledger counts twice, when copied and when stored."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def advance(self, size: int) -> None:
        """Count processed bytes.

        Raises:
            Stopped: A stop was requested.
        """
        self.done += size
        if self._stopping.is_set():
            raise Stopped


def make_backup(
    ledgers: Mapping[str, LedgerFile],
    to: Path,
    *,
    data_dir: Path,
    seal: Seal,
    keep: int,
    at: datetime,
    progress: Progress,
    turns_waiting: int = 0,
) -> BackupReport:
    """Make a backup.

    Args:
        ledgers: What to back up, by path in the data folder.
        to: The folder of the backups.
        data_dir: The data folder, in which the ledgers are copied first.
        seal: Encrypts the backup.
        keep: The number of generations that stay.
        at: The time of the backup.
        progress: Counts the bytes, and can be stopped.
        turns_waiting: Published turns that are not stored yet, and so not in it.

    Raises:
        BackupError: The folder holds something else, a copy lacks records, or there is no ledger.
        LedgerKeyError: A ledger is encrypted with another key.
        StorageError: A ledger cannot be read, or the backup cannot be written.
        Stopped: `progress` was stopped.
    """
    if not ledgers:
        raise BackupError(f"{data_dir} holds no ledger: nothing is remembered yet.")
    folder = BackupFolder(to)
    folder.claim([ledger_key(*ledger) for ledger in ledgers.values()])
    earlier = folder.generations()
    progress.total = 2 * sum(ledger.path.stat().st_size for ledger in ledgers.values())
    with folder.new(at) as generation:
        pieces = Pieces(generation, earlier[-1] if earlier else None, seal)
        manifest = Manifest(
            format=FORMAT,
            local2=__version__,
            at=at,
            ledgers=[
                _store_ledger(name, ledger, data_dir, pieces, progress)
                for name, ledger in ledgers.items()
            ],
            turns_waiting=turns_waiting,
        )
        pieces.finish(manifest)
    name = folder.generations()[-1].path.name
    removed = folder.prune(keep)
    return BackupReport(
        folder=str(to),
        generation=name,
        at=at,
        ledgers=len(manifest.ledgers),
        records=manifest.records,
        size=manifest.size,
        written=pieces.written,
        removed=removed,
        encrypted=seal.encrypts,
        turns_waiting=turns_waiting,
    )


def _store_ledger(
    name: str, ledger: LedgerFile, data_dir: Path, pieces: Pieces, progress: Progress
) -> CopiedFile:
    before = counts_of(*ledger)
    key = pieces.key_of(ledger_key(*ledger))
    with scratch_folder(data_dir, SCRATCH) as scratch:
        copied = scratch / LEDGER_FILE
        size = copy(ledger.path, copied, ledger.key, progress.advance)
        contents = verified_contents(copied, ledger.key)
        if contents.rows < before.rows:
            raise BackupError(
                f"The copy has only {contents.rows} of {before.rows} records.",
                remedy="Run `local2 doctor --deep` while no stack runs: "
                "it reads all of the ledger.",
            )
        with copied.open("rb") as file:
            names = []
            while piece := file.read(PIECE_BYTES):
                names.append(pieces.store(piece, key))
                progress.advance(len(piece))
    return CopiedFile(
        path=name,
        size=size,
        schema=contents.schema,
        rows=contents.rows,
        shells=contents.rows - contents.records,
        key=key,
        pieces=names,
    )
