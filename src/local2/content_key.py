"""The key that encrypts a tenant's content: 32 random bytes in a file that only its owner may read.

The file holds 64 hexadecimal digits. Its path is configured, never given on a command line, and no
error or log shows the key. Without the key nobody can read the content.
"""

import hashlib
import os
import re
import secrets
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Self

from local2.errors import LedgerKeyError, UnwritableError

LENGTH = 32
"""Bytes of a key, as AES-256 needs."""
_DIGITS = re.compile(rb"[0-9a-fA-F]{64}\s*")


class ContentKey:
    """A key whose `repr` does not reveal it."""

    __slots__ = ("_bytes",)

    def __init__(self, key: bytes) -> None:
        self._bytes = key

    @classmethod
    def read(cls, file: Path) -> Self:
        """Read the key in a file.

        Raises:
            LedgerKeyError: The file is missing, readable by others, or holds no key.
        """
        try:
            with file.open("rb") as opened:
                mode = stat.S_IMODE(os.fstat(opened.fileno()).st_mode)
                content = opened.read(2 * LENGTH + 2)
        except OSError as error:
            raise LedgerKeyError(
                f"The key {file} cannot be read: {error.strerror}.",
                remedy="Restore the file: what the key encrypts cannot be read without it.",
            ) from error
        if mode & 0o077:
            raise LedgerKeyError(
                f"The key {file} may be read by others (mode {mode:04o}).",
                remedy=f"Run `chmod 600 {file}`; if others may have read it, export the memory and "
                "import it with a new key (docs/security.md).",
            )
        if not _DIGITS.fullmatch(content):
            raise LedgerKeyError(
                f"{file} does not hold a key.",
                remedy=f"It must hold {2 * LENGTH} hexadecimal digits; restore the original key.",
            )
        return cls(bytes.fromhex(content.decode()))

    @classmethod
    def create(cls, file: Path) -> Self:
        """Generate a key and store it in a new file.

        Raises:
            UnwritableError: The file exists already, or cannot be created.
        """
        key = secrets.token_bytes(LENGTH)
        try:
            descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as opened:  # noqa: PTH123 - a descriptor has no path
                opened.write(key.hex().encode() + b"\n")
                opened.flush()
                os.fsync(descriptor)
        except OSError as error:
            raise UnwritableError(file, error) from error
        return cls(key)

    def hex(self) -> str:
        return self._bytes.hex()

    def derive(self, purpose: str) -> "ContentKey":
        """A key for one purpose, from which this key cannot be computed."""
        person = purpose.encode()
        return ContentKey(hashlib.blake2b(key=self._bytes, person=person, digest_size=32).digest())


KeyOf = Callable[[str], ContentKey | None]
"""Returns the key of a tenant's content, or None; raises LedgerKeyError if it cannot be used."""
