"""The ledgers of a data folder: that of all tenants, and tenants' own."""

import re
from pathlib import Path
from typing import NamedTuple

from local.content_key import ContentKey, KeyOf
from local.errors import LedgerKeyError

MAIN = "ledger.sqlite3"
_PATTERNS = (MAIN, f"tenants/*/{MAIN}")
_NAME = re.compile(rf"(?:tenants/(?!\.)[^/]+/)?{re.escape(MAIN)}")


class LedgerFile(NamedTuple):
    """A ledger's file, and the key that decrypts it; None where it is not encrypted."""

    path: Path
    key: ContentKey | None


def is_ledger(name: str) -> bool:
    """Whether a path in a data folder is that of a ledger."""
    return _NAME.fullmatch(name) is not None


def ledger_files(data_dir: Path) -> dict[str, Path]:
    """Every ledger by its path in the data folder, that of all tenants first."""
    found = [path for pattern in _PATTERNS for path in sorted(data_dir.glob(pattern))]
    return {path.relative_to(data_dir).as_posix(): path for path in found if path.stat().st_size}


def with_keys(data_dir: Path, key_of: KeyOf) -> dict[str, LedgerFile]:
    """Every ledger that is there, ready to be read.

    Raises:
        LedgerKeyError: One is encrypted, and its key is missing or cannot be used.
    """
    files = ledger_files(data_dir).items()
    return {name: LedgerFile(path, key_of_ledger(name, key_of)) for name, path in files}


def key_of_ledger(name: str, key_of: KeyOf) -> ContentKey | None:
    """The key of a ledger by its path in the data folder; that of all tenants has none.

    Raises:
        LedgerKeyError: It is a tenant's own, and the key is missing or cannot be used.
    """
    if name == MAIN:
        return None
    tenant = Path(name).parent.name
    if (key := key_of(tenant)) is None:
        raise LedgerKeyError(
            f"{name} is encrypted, and there is no key of the tenant {tenant}.",
            remedy="Put the key back. If it was deleted to erase all that the tenant had, delete "
            f"{Path(name).parent} in the data folder, too.",
        )
    return key
