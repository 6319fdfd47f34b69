"""Manages a folder of backup generations, each of which is complete by itself (decision 0027).

A generation is a folder with pieces of the copied files, and a manifest that lists how to join
them. A piece's name is a keyed hash of its content, so a piece that the previous generation has is
linked and not written again. A generation gets its final name once all of it is on the disk.
"""

import os
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from local2.atomic_file import sync
from local2.backup.files import digest, is_ledger, private, write
from local2.backup.sealing import Decrypter
from local2.errors import BackupError, UnwritableError
from local2.ledger.engines.sqlite.copies import refuse_without_room
from local2.protocol.maintenance import ListedBackup

FORMAT = 1
MARKER = "local2-backup.json"
PIECES = "pieces"
PART = ".part"
"""Suffix of a generation that is being written or deleted."""
TIME = "%Y%m%dT%H%M%SZ"
NAME = re.compile(r"(\d{6,})-\d{8}T\d{6}Z")


class Marker(msgspec.Struct, frozen=True, kw_only=True):
    """Identifies the data folder of the backups, since those of another one would displace them.

    `ledger` is a hash of the key that the data folder's first ledger had at the first backup.
    """

    format: int
    ledger: str


class CopiedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A ledger in a generation; `key` is the key of the hashes that name its pieces.

    `rows` counts the records and the `shells` of erased ones.
    """

    path: str
    size: int
    schema: int
    rows: int = msgspec.field(name="records")  # its name in the manifest
    shells: int = 0
    key: bytes
    pieces: list[str]

    @property
    def records(self) -> int:
        return self.rows - self.shells


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """The content of a generation; `turns_waiting` counts published turns that it lacks."""

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
    """A folder that holds the generations of one data folder's backups, and nothing else."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def claim(self, ledgers: Sequence[bytes]) -> None:
        """Create or check the folder for the backups of a data folder with these ledgers' keys.

        Raises:
            BackupError: The folder holds something else.
            UnwritableError: The folder cannot be created.
        """
        own = [Marker(format=FORMAT, ledger=digest(b"folder", ledger)) for ledger in ledgers]
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            marker = self._marker()
            if marker is None:
                if any(self.path.iterdir()):
                    raise BackupError(
                        f"{self.path} is not a folder of backups, and not empty.",
                        remedy="Name an empty folder, or one that does not exist yet.",
                    )
                write(self.path / MARKER, msgspec.json.encode(own[0]))
            elif marker not in own:
                raise BackupError(
                    f"{self.path} holds backups of another ledger, or of another version.",
                    remedy="Name another folder: these backups would be deleted over time.",
                )
            for unfinished in self.path.glob(f"*{PART}"):
                shutil.rmtree(unfinished)
        except OSError as error:
            raise UnwritableError(self.path, error) from error

    def generations(self) -> list["BackupGeneration"]:
        """The complete generations, the oldest first.

        Raises:
            BackupError: The folder cannot be read, or is not a folder of backups.
        """
        try:
            found = [entry for entry in self.path.iterdir() if NAME.fullmatch(entry.name)]
        except OSError as error:
            why = f"{self.path} cannot be read: {error.strerror}."
            raise BackupError(why, remedy=NAME_FOLDER) from error
        if not found and self._marker() is None:
            raise BackupError(f"{self.path} is not a folder of backups.", remedy=NAME_FOLDER)
        return sorted(map(BackupGeneration, found), key=lambda generation: generation.number)

    def listed(self) -> list[ListedBackup]:
        """The backups, the newest first, with what those tell that are not encrypted.

        Raises:
            BackupError: It is not a folder of backups.
        """
        listed = []
        for generation in reversed(self.generations()):
            backup = ListedBackup(
                generation=generation.path.name, at=generation.at, encrypted=generation.encrypted
            )
            if not generation.encrypted:
                try:
                    manifest = generation.manifest(Decrypter(None))
                except BackupError as error:
                    backup = msgspec.structs.replace(backup, problem=str(error))
                else:
                    backup = msgspec.structs.replace(
                        backup, records=manifest.records, size=manifest.size
                    )
            listed.append(backup)
        return listed

    def find(self, name: str | None) -> "BackupGeneration":
        """Find a complete generation by its name, by default the newest.

        Raises:
            BackupError: There is none, or the folder cannot be read.
        """
        generations = {generation.path.name: generation for generation in self.generations()}
        if not generations:
            raise BackupError(f"{self.path} holds no complete backup.", remedy=NAME_FOLDER)
        if name is None:
            return list(generations.values())[-1]
        if name not in generations:
            raise BackupError(
                f"{self.path} holds no backup {name}.",
                remedy=f"It holds {', '.join(generations)}.",
            )
        return generations[name]

    @contextmanager
    def new(self, at: datetime) -> Iterator[Path]:
        """Yield a folder that becomes the newest generation, or is deleted after a failure."""
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
        """Delete all but the `keep` newest generations; return how many were deleted.

        Raises:
            UnwritableError: A generation cannot be deleted.
        """
        former = self.generations()[:-keep]
        try:
            for generation in former:
                deleted = generation.path.with_name(f"{generation.path.name}{PART}")
                generation.path.rename(deleted)  # a partly deleted one must not look complete
                shutil.rmtree(deleted)
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


class BackupGeneration:
    """One complete backup."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def number(self) -> int:
        found = NAME.fullmatch(self.path.name)
        return int(found[1]) if found else 0

    @property
    def at(self) -> datetime:
        """The time of the backup, to the second, as in its name."""
        return datetime.strptime(f"{self.path.name.rpartition('-')[2]}+0000", f"{TIME}%z")

    @property
    def encrypted(self) -> bool:
        return (self.path / "manifest.age").exists()

    def manifest(self, opener: Decrypter) -> Manifest:
        """Read the manifest.

        Raises:
            BackupError: It is damaged, is from a newer local2, or needs another key.
        """
        name = "manifest.age" if self.encrypted else "manifest.json"
        data = self._read(self.path / name, opener)
        try:
            manifest = msgspec.json.decode(data, type=Manifest)
        except msgspec.MsgspecError as error:
            raise BackupError(f"{self.path / name} is damaged.", remedy=USE_EARLIER) from error
        paths = [ledger.path for ledger in manifest.ledgers]
        if manifest.format != FORMAT or not all(map(is_ledger, paths)):
            raise BackupError(f"{self.path} is from a newer local2.", remedy="Update local2.")
        return manifest

    def extract(
        self,
        ledger: CopiedFile,
        target: Path,
        opener: Decrypter,
        advance: Callable[[int], None] = lambda _: None,
    ) -> None:
        """Join the pieces of a ledger into a file readable by its owner only, and verify them.

        `advance` is told the bytes of each piece.

        Raises:
            BackupError: A piece is missing or damaged, or needs another key.
            UnwritableError: The target cannot be written.
        """
        refuse_without_room(target.parent, ledger.size)
        try:
            with open(target, "xb", opener=private) as file:
                for name in ledger.pieces:
                    piece = self._read(self.path / PIECES / name, opener)
                    if digest(piece, ledger.key) != name:
                        raise BackupError(f"{self.path}: a piece is damaged.", remedy=USE_EARLIER)
                    file.write(piece)
                    advance(len(piece))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UnwritableError(target.parent, error) from error
        if target.stat().st_size != ledger.size:
            raise BackupError(f"{self.path} is damaged.", remedy=USE_EARLIER)

    def _read(self, file: Path, opener: Decrypter) -> bytes:
        try:
            data = file.read_bytes()
        except OSError as error:
            raise BackupError(
                f"{file} cannot be read: {error.strerror}.", remedy=USE_EARLIER
            ) from error
        return opener.decrypt(data) if self.encrypted else data


NAME_FOLDER = "Name the folder that `local2 backup` wrote to."
USE_EARLIER = "Restore an earlier one: --generation NAME."
