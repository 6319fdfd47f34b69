"""The ledgers of a data folder: that of all tenants, and tenants' own."""

import re
from pathlib import Path

MAIN = "ledger.sqlite3"
_PATTERNS = (MAIN, f"tenants/*/{MAIN}")
_NAME = re.compile(rf"(?:tenants/(?!\.)[^/]+/)?{re.escape(MAIN)}")


def is_ledger(name: str) -> bool:
    """Whether a path in a data folder is that of a ledger."""
    return _NAME.fullmatch(name) is not None


def ledger_files(data_dir: Path) -> dict[str, Path]:
    """Every ledger by its path in the data folder, that of all tenants first."""
    found = [path for pattern in _PATTERNS for path in sorted(data_dir.glob(pattern))]
    return {path.relative_to(data_dir).as_posix(): path for path in found if path.stat().st_size}
