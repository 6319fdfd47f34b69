"""Goes back to the ledgers as they were before the last migration (decision 0059)."""

from datetime import UTC, datetime
from pathlib import Path

import msgspec

from local.backup.ledgers import LedgerFile, key_of_ledger, ledger_files
from local.backup.replacing import replace_ledgers
from local.content_key import KeyOf
from local.errors import BackupError, StorageError
from local.ledger.door import Contents, contents_of, counted, kept_files
from local.vectors.config import distrust_index


class WayBack(msgspec.Struct, frozen=True, kw_only=True):
    """From the ledger of today to the one that was kept. `lost`: records that only today's has.

    `lost` is None where today's cannot be read.
    """

    name: str
    kept: str
    schema: int
    records: int
    kept_at: datetime
    lost: int | None


def ways_back(data_dir: Path, key_of: KeyOf) -> list[WayBack]:
    """What there is to go back to, all of it read; the lock on the folder is the caller's.

    Raises:
        BackupError: Nothing was kept.
        LedgerKeyError: It is encrypted, and its key is missing or another's.
        StorageError: What was kept is damaged.
    """
    found = []
    for name, ledger in ledger_files(data_dir).items():
        if kept := kept_files(ledger):
            schema, file = max(kept.items())
            now = LedgerFile(ledger, key_of_ledger(name, key_of))
            found.append(_way_back(name, now, schema, file))
    if not found:
        raise BackupError(
            f"{data_dir} holds no ledger from before a migration.",
            remedy="`local2 restore DIR` restores a backup.",
        )
    return found


def go_back(data_dir: Path, chroma_path: Path, ways: list[WayBack]) -> Path | None:
    """Have the kept ledgers take the place of today's, which are moved aside.

    Raises:
        UnwritableError: A file cannot be moved.
    """
    kept = {way.name: Path(way.kept) for way in ways}
    aside = replace_ledgers(data_dir, kept, list(kept), datetime.now(UTC))
    distrust_index(chroma_path)
    return aside


def _way_back(name: str, ledger: LedgerFile, schema: int, file: Path) -> WayBack:
    there = contents_of(file, ledger.key)
    try:
        now: Contents | None = counted(*ledger)
    except StorageError:
        now = None
    return WayBack(
        name=name,
        kept=str(file),
        schema=schema,
        records=there.records,
        kept_at=datetime.fromtimestamp(file.stat().st_mtime, UTC),
        lost=max(now.records - there.records, 0) if now else None,
    )
