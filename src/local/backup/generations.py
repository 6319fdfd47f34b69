"""The folder of backups: generations, each of which is complete by itself (decision 0058).

A generation is a folder of pieces of the copied files, and a manifest that lists how to join them.
A piece that an earlier generation has is linked, not written again: its name is a keyed hash of its
content. A generation gets its name once all of it is on the disk.
"""

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from local.backup.files import digest, is_ledger, private, sync, write
from local.backup.sealing import Opener
from local.errors import BackupError, UnwritableError
from local.ledger.door import refuse_without_room

FORMAT = 1
MARKER = "local2-backup.json"
PIECES = "pieces"
PART = ".part"
"""Suffix of what is being written or deleted."""
TIME = "%Y%m%dT%H%M%SZ"
NAME = re.compile(r"(\d{6,})-\d{8}T\d{6}Z")


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """The owner of a folder's backups: those of another ledger would push them out.

    `ledger`: the first one of the data folder when the first backup was made.
    """

    format: int
    ledger: str


class CopiedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger in a generation. `key` is that of the hashes by which its pieces are named."""

    path: str
    size: int
    schema: int
    records: int
    key: bytes
    pieces: list[str]


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a generation; `turns_waiting` counts published turns that are not in it."""

    format: int
    local2: str
    at: datetime
    ledgers: list[CopiedFile]
    turns_waiting: int = 0

    @property
    def records(self) -> int:
        return sum(ledger.records for ledger in self.ledgers)

    @property
    def size(self) -> int:
        return sum(ledger.size for ledger in self.ledgers)


class BackupFolder:
    """A folder that holds generations of one ledger's backups, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(self, ledgers: Sequence[bytes]) -> None:
        """Make the folder that of a data folder, whose ledgers are recognised by their keys.

        Raises:
            BackupError: It holds something else.
            UnwritableError: It cannot be made.
        """
        own = [Marker(format=FORMAT, ledger=digest(b"folder", ledger)) for ledger in ledgers]
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            marker = self._marker()
            if marker is None:
                if any(self.path.iterdir()):
                    raise BackupError(
                        f"{self.path} is no folder of backups, and not empty.",
                        remedy="Name an empty folder, or one that is not there yet.",
                    )
                write(self.path / MARKER, msgspec.json.encode(own[0]))
            elif marker not in own:
                raise BackupError(
                    f"{self.path} holds backups of another ledger, or of another version.",
                    remedy="Name another folder: these would be deleted in time.",
                )
            for unfinished in self.path.glob(f"*{PART}"):
                shutil.rmtree(unfinished)
        except OSError as error:
            raise UnwritableError(self.path, error) from error

    def generations(self) -> list["Generation"]:
        """Return the complete generations, the oldest first.

        Raises:
            BackupError: It is no folder of backups, or cannot be read.
        """
        try:
            found = [entry for entry in self.path.iterdir() if NAME.fullmatch(entry.name)]
        except OSError as error:
            raise BackupError(f"{self.path} cannot be read: {error.strerror}.") from error
        if not found and self._marker() is None:
            raise BackupError(f"{self.path} is no folder of backups.")
        return sorted(map(Generation, found), key=lambda one: one.number)

    @contextmanager
    def new(self, at: datetime) -> Iterator[Path]:
        """Return a folder that becomes the newest generation, or is deleted after a failure."""
        earlier = self.generations()
        number = earlier[-1].number + 1 if earlier else 1
        name = f"{number:06}-{at.astimezone(UTC):{TIME}}"
        unfinished = self.path / f"{name}{PART}"
        try:
            unfinished.mkdir(mode=0o700)
            (unfinished / PIECES).mkdir(mode=0o700)
            yield unfinished
            for folder in (unfinished / PIECES, unfinished):
                sync(folder)
            unfinished.rename(self.path / name)
            sync(self.path)
        except OSError as error:
            raise UnwritableError(self.path, error) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)

    def prune(self, keep: int) -> int:
        """Delete all but the newest; return how many were deleted.

        Raises:
            UnwritableError: One of them cannot be deleted.
        """
        former = self.generations()[:-keep]
        try:
            for generation in former:
                leaving = generation.path.with_name(f"{generation.path.name}{PART}")
                generation.path.rename(leaving)  # a part of it must not look complete
                shutil.rmtree(leaving)
        except OSError as error:
            raise UnwritableError(self.path, error) from error
        return len(former)

    def _marker(self) -> Marker | None:
        try:
            return msgspec.json.decode((self.path / MARKER).read_bytes(), type=Marker)
        except FileNotFoundError:
            return None
        except msgspec.MsgspecError as error:
            raise BackupError(f"{self.path / MARKER} is damaged.") from error


class Generation:
    """One complete backup."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def number(self) -> int:
        found = NAME.fullmatch(self.path.name)
        return int(found[1]) if found else 0

    @property
    def at(self) -> datetime:
        """When it was made, to the second, from its name."""
        return datetime.strptime(f"{self.path.name.rpartition('-')[2]}+0000", f"{TIME}%z")

    @property
    def encrypted(self) -> bool:
        return (self.path / "manifest.age").exists()

    def manifest(self, opener: Opener) -> Manifest:
        """Return what it holds.

        Raises:
            BackupError: It is damaged, of a newer local2, or opens with another key.
        """
        name = "manifest.age" if self.encrypted else "manifest.json"
        data = self._read(self.path / name, opener)
        try:
            manifest = msgspec.json.decode(data, type=Manifest)
        except msgspec.MsgspecError as error:
            raise BackupError(f"{self.path / name} is damaged.", remedy=EARLIER) from error
        paths = [ledger.path for ledger in manifest.ledgers]
        if manifest.format != FORMAT or not all(map(is_ledger, paths)):
            raise BackupError(f"{self.path} is of a newer local2.", remedy="Update local2.")
        return manifest

    def extract(self, ledger: CopiedFile, target: Path, opener: Opener) -> None:
        """Join the pieces of a file, readable by its owner only, and compare all of it.

        Raises:
            BackupError: A piece is missing or damaged, or opens with another key.
            UnwritableError: The target cannot be written.
        """
        refuse_without_room(target.parent, ledger.size)
        try:
            with open(target, "xb", opener=private) as file:
                for name in ledger.pieces:
                    piece = self._read(self.path / PIECES / name, opener)
                    if digest(piece, ledger.key) != name:
                        raise BackupError(f"{self.path}: a piece is damaged.", remedy=EARLIER)
                    file.write(piece)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UnwritableError(target.parent, error) from error
        if target.stat().st_size != ledger.size:
            raise BackupError(f"{self.path} is damaged.", remedy=EARLIER)

    def _read(self, file: Path, opener: Opener) -> bytes:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise BackupError(
                f"{file} cannot be read: {error.strerror}.", remedy=EARLIER
            ) from error
        return opener.open(data) if self.encrypted else data


EARLIER = "Restore an earlier one: --generation NAME."
