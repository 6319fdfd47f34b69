"""Makes one backup, from the copy of each ledger to the pieces of its generation, in a thread.

The pages are copied beside the ledger first, and all of the copy is read: damaged content never
becomes a generation, and never pushes out a complete one. A piece that the generation before has is
linked, not written again.
"""

import os
import shutil
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from datetime import datetime
from pathlib import Path

import msgspec

from local import __version__
from local.backup.files import LedgerFile, digest, sync, write
from local.backup.generations import FORMAT, PIECES, BackupFolder, CopiedFile, Generation, Manifest
from local.backup.sealing import Seal
from local.errors import BackupError, UnwritableError
from local.ledger.door import Contents, contents_of, copy, counted, ledger_key, refuse_without_room

SCRATCH = "backup.part"
"""In the data folder: the copies are as secret as the ledger, wherever the backup lies."""
PIECE = 64 * 1024
"""Bytes: 16 pages. Smaller pieces would have more in common with earlier ones, and need more
files."""


class Pieces:
    """Stores files in a generation that is being written, piece by piece."""

    def __init__(self, folder: Path, earlier: Generation | None, seal: Seal) -> None:
        self._folder = folder
        self._earlier = earlier.path / PIECES if earlier else None
        self._seal = seal
        self._new: list[Path] = []
        self.written = 0
        """Bytes that no earlier generation had."""

    def key_of(self, ledger: bytes) -> bytes:
        """Return the key of the pieces' names; pieces encrypted to other keys share none."""
        return bytes.fromhex(digest("\n".join(self._seal.recipients).encode(), ledger))

    def store(self, piece: bytes, key: bytes) -> str:
        """Store a piece, or link it; return its name."""
        name = digest(piece, key)
        target = self._folder / PIECES / name
        if not target.exists() and not self._linked(name, piece, target):
            closed = self._seal.close(piece)
            refuse_without_room(self._folder, len(closed))
            write(target, closed, synced=False)
            self._new.append(target)
            self.written += len(closed)
        return name

    def finish(self, manifest: Manifest) -> None:
        """Write the manifest, once all pieces are on the disk."""
        for piece in self._new:
            sync(piece)
        name = "manifest.age" if self._seal.encrypts else "manifest.json"
        data = self._seal.close(msgspec.json.encode(manifest))
        write(self._folder / name, data)
        self.written += len(data)

    def _linked(self, name: str, piece: bytes, target: Path) -> bool:
        """Return whether an earlier generation has it, complete as far as it can be read."""
        if self._earlier is None:
            return False
        former = self._earlier / name
        with suppress(OSError):  # there is none, or the file system has no links
            if self._seal.encrypts or former.read_bytes() == piece:
                os.link(former, target)
                return True
        return False


class Stopped(Exception):  # noqa: N818 - nothing is wrong
    """The stack stops; the backup is made another time."""


class Progress:
    """Counts the bytes that are done; each is copied first, and then stored."""

    def __init__(self) -> None:
        self.done = 0
        self.total = 0
        self._stopping = threading.Event()

    def stop(self) -> None:
        self._stopping.set()

    def advance(self, size: int) -> None:
        """Add so many bytes.

        Raises:
            Stopped: A stop was requested.
        """
        self.done += size
        if self._stopping.is_set():
            raise Stopped


class Ask(msgspec.Struct, frozen=True, kw_only=True):
    """The ledgers to back up, by their paths in the data folder, and the target."""

    data_dir: Path
    ledgers: Mapping[str, LedgerFile]
    folder: Path
    seal: Seal
    keep: int
    at: datetime
    turns_waiting: int = 0


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """The backup that was made. `written`: bytes that no generation had; `removed`: generations."""

    generation: str
    manifest: Manifest
    written: int
    removed: int


def take(ask: Ask, progress: Progress) -> Taken:
    """Make a backup.

    Raises:
        BackupError: The folder holds something else, a copy lacks records, or there is no ledger.
        LedgerKeyError: A ledger is encrypted with another key.
        StorageError: A ledger cannot be read, or the backup cannot be written.
        Stopped: `progress` was stopped.
    """
    if not ask.ledgers:
        raise BackupError(f"{ask.data_dir} holds no ledger: nothing is remembered yet.")
    folder = BackupFolder(ask.folder)
    folder.claim([ledger_key(*ledger) for ledger in ask.ledgers.values()])
    earlier = folder.generations()
    progress.total = 2 * sum(ledger.path.stat().st_size for ledger in ask.ledgers.values())
    with folder.new(ask.at) as generation:
        pieces = Pieces(generation, earlier[-1] if earlier else None, ask.seal)
        manifest = Manifest(
            format=FORMAT,
            local2=__version__,
            at=ask.at,
            ledgers=[
                _stored(name, ledger, ask.data_dir, pieces, progress)
                for name, ledger in ask.ledgers.items()
            ],
            turns_waiting=ask.turns_waiting,
        )
        pieces.finish(manifest)
    name = folder.generations()[-1].path.name
    removed = folder.prune(ask.keep)
    return Taken(generation=name, manifest=manifest, written=pieces.written, removed=removed)


def _stored(
    name: str, ledger: LedgerFile, data_dir: Path, pieces: Pieces, progress: Progress
) -> CopiedFile:
    key = pieces.key_of(ledger_key(*ledger))
    with _scratch(data_dir) as scratch:
        copied = scratch / "ledger.sqlite3"
        before = counted(*ledger)
        size = copy(ledger.path, copied, ledger.key, progress.advance)
        contents = _checked(LedgerFile(copied, ledger.key), before)
        with copied.open("rb") as file:
            names = []
            while piece := file.read(PIECE):
                names.append(pieces.store(piece, key))
                progress.advance(len(piece))
    return CopiedFile(
        path=name,
        size=size,
        schema=contents.schema,
        records=contents.records,
        key=key,
        pieces=names,
    )


def _checked(copied: LedgerFile, before: Contents) -> Contents:
    contents = contents_of(*copied)
    if contents.records < before.records:
        raise BackupError(
            f"The copy has {contents.records} records of {before.records}.",
            remedy="`local2 doctor --deep` reads all of the ledger, while no stack runs.",
        )
    return contents


@contextmanager
def _scratch(data_dir: Path) -> Iterator[Path]:
    """Return a folder for copies, empty at first and deleted at the end."""
    folder = data_dir / SCRATCH
    try:
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(mode=0o700)
        yield folder
    except OSError as error:
        raise UnwritableError(folder, error) from error
    finally:
        shutil.rmtree(folder, ignore_errors=True)
