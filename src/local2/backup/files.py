"""Finds the ledgers of a data folder, and writes the files of a backup.

Files of a backup are readable by their owner only, and named by hashes.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from local2.content_key import ContentKey, KeyOf
from local2.errors import LedgerKeyError, UnwritableError
from local2.home import LEDGER_FILE, make_private

_PATTERNS = (LEDGER_FILE, f"tenants/*/{LEDGER_FILE}")
_NAME = re.compile(rf"(?:tenants/(?!\.)[^/]+/)?{re.escape(LEDGER_FILE)}")


class LedgerFile(NamedTuple):
    """A ledger's file, and the key that decrypts it; None if it is not encrypted."""

    path: Path
    key: ContentKey | None


def is_ledger(name: str) -> bool:
    """Whether a path in a data folder is that of a ledger."""
    return _NAME.fullmatch(name) is not None


def ledger_files(data_dir: Path) -> dict[str, Path]:
    """All ledgers by path in the data folder; the one shared by tenants is first."""
    found = [path for pattern in _PATTERNS for path in sorted(data_dir.glob(pattern))]
    return {path.relative_to(data_dir).as_posix(): path for path in found if path.stat().st_size}


def with_keys(data_dir: Path, key_of: KeyOf) -> dict[str, LedgerFile]:
    """All ledgers with their keys.

    Raises:
        LedgerKeyError: A ledger is encrypted, and its key is missing or unusable.
    """
    files = ledger_files(data_dir).items()
    return {name: LedgerFile(path, key_of_ledger(name, key_of)) for name, path in files}


def key_of_ledger(name: str, key_of: KeyOf) -> ContentKey | None:
    """The key of the ledger at a path in the data folder; the shared ledger has none.

    Raises:
        LedgerKeyError: The ledger is one tenant's, and its key is missing or unusable.
    """
    if name == LEDGER_FILE:
        return None
    tenant = Path(name).parent.name
    if (key := key_of(tenant)) is None:
        raise LedgerKeyError(
            f"{name} is encrypted, and the key of the tenant {tenant} is missing.",
            remedy="Put the key back. If it was deleted to erase the tenant's data, delete "
            f"{Path(name).parent} in the data folder, too.",
        )
    return key


@contextmanager
def scratch_folder(data_dir: Path, name: str) -> Iterator[Path]:
    """Yield an empty folder for copies of ledgers, which is deleted at the end.

    It is in the data folder, because copies are as secret as the ledgers.
    """
    scratch = data_dir / name
    try:
        shutil.rmtree(scratch, ignore_errors=True)
        make_private(scratch)
    except OSError as error:
        raise UnwritableError(data_dir, error) from error
    try:
        yield scratch
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write(file: Path, data: bytes, *, synced: bool = True) -> None:
    with open(file, "xb", opener=private) as opened:
        opened.write(data)
        if synced:
            opened.flush()
            os.fsync(opened.fileno())


def private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)


def digest(data: bytes, key: bytes) -> str:
    return hashlib.blake2b(data, key=key, digest_size=32, person=b"local2-backup").hexdigest()
