"""Stores the pieces of a generation that is being written, or links those of the one before."""

import os
from contextlib import suppress
from pathlib import Path

import msgspec

from local.backup.files import digest, sync, write
from local.backup.generations import PIECES, Generation, Manifest
from local.backup.sealing import Seal
from local.ledger.door import refuse_without_room


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
        """Of names: pieces that are encrypted to others have other names, and are not shared."""
        return bytes.fromhex(digest("\n".join(self._seal.recipients).encode(), ledger))

    def store(self, piece: bytes, key: bytes) -> str:
        """Store a piece, or link it; its name."""
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
        """Whether an earlier generation has it; where it can be read, whole."""
        if self._earlier is None:
            return False
        former = self._earlier / name
        with suppress(OSError):  # there is none; or the disk knows no links
            if self._seal.encrypts or former.read_bytes() == piece:
                os.link(former, target)
                return True
        return False
