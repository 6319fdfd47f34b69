"""Brings the schema of a database up to date, and keeps the file as it was before (decision 0059).

The copy has the number of its schema in its name. Only the newest one is kept.
"""

import sqlite3
from collections.abc import Sequence
from importlib.resources.abc import Traversable
from pathlib import Path

import structlog

from local.content_key import ContentKey
from local.errors import StorageError, UnwritableError
from local.ledger.sqlite.database.copies import copy

log = structlog.get_logger()


def migrate(
    connection: sqlite3.Connection,
    path: Path,
    migrations: Sequence[Traversable],
    key: ContentKey | None,
) -> None:
    """Execute the migrations that the database lacks, all or none; `key` encrypts the copy, too.

    Raises:
        StorageError: It is newer than they are, or there is no room for a copy.
    """
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version > len(migrations):
        raise StorageError(
            f"{path} has schema {version}; this local2 knows {len(migrations)}.",
            remedy="Update local2, or use another data folder.",
        )
    if version == len(migrations):
        return
    kept = _keep(path, version, key) if version else None
    script = "\n".join(file.read_text(encoding="utf-8") for file in migrations[version:])
    connection.executescript(f"BEGIN; {script}\nPRAGMA user_version = {len(migrations)}; COMMIT;")
    for file in kept_files(path).values() if kept else ():
        if file != kept:
            file.unlink()


def kept_files(path: Path) -> dict[int, Path]:
    """The copies of a database from before its migrations, by the numbers of their schemas."""
    beginning = f"{path.stem}.schema-"
    found = {
        file.name.removeprefix(beginning).removesuffix(path.suffix): file
        for file in path.parent.glob(f"{beginning}*{path.suffix}")
    }
    return {int(number): file for number, file in sorted(found.items()) if number.isdecimal()}


def drop_kept(path: Path) -> None:
    """Delete the copies of a database from before its migrations.

    Raises:
        UnwritableError: One of them cannot be deleted.
    """
    for file in kept_files(path).values():
        try:
            file.unlink(missing_ok=True)
        except OSError as error:
            raise UnwritableError(file, error) from error
        log.info("kept_before_migration_deleted", path=str(file))


def _keep(path: Path, version: int, key: ContentKey | None) -> Path:
    kept = path.with_name(f"{path.stem}.schema-{version}{path.suffix}")
    unfinished = kept.with_suffix(".part")
    unfinished.unlink(missing_ok=True)
    try:
        copy(path, unfinished, key)
    except StorageError:
        unfinished.unlink(missing_ok=True)
        raise
    unfinished.replace(kept)
    log.info("kept_before_migration", path=str(kept), schema=version)
    return kept
