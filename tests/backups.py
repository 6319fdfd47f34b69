"""Ledgers with notes in them, backups of these, and the content of their files."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

import pyrage

from ledgers import open_ledger
from local2.backup.files import with_keys
from local2.backup.generations import BackupFolder, BackupGeneration
from local2.backup.restoring import Restored, restore
from local2.backup.sealing import Decrypter, Seal
from local2.backup.taking import Progress, make_backup
from local2.content_key import ContentKey, KeyOf
from local2.ledger.records import NewRecord
from local2.protocol.envelope import utc_now
from local2.protocol.maintenance import BackupReport
from stacks import settings_in

TABLES = ("record", "vector", "feature", "task", "audit", "note", "tombstone", "relation")


def data_dir(folder: Path) -> Path:
    return settings_in(folder).memory.data_dir


def plain(_: str) -> None:
    """Return no key: no tenant has one."""


async def remember(
    folder: Path,
    first: int,
    last: int,
    *,
    about: str = "a planet",
    tenant: str = "default",
    key: ContentKey | None = None,
) -> None:
    """Store notes with these numbers; the ledger commits many together."""
    data_dir(folder).mkdir(exist_ok=True)
    notes = [
        NewRecord(
            id=f"r{number}",
            kind="episode",
            content=f"Note {number} is about {about}. " + f"{number * 7919} " * 100,
            event_time=utc_now(),
            owner="ada",
            session_id="s1",
        )
        for number in range(first, last)
    ]
    async with open_ledger(settings_in(folder).memory, tenant, key) as ledger:
        await asyncio.gather(*(ledger.records.store([note]) for note in notes))


def back_up(
    folder: Path,
    to: Path,
    *,
    recipient: str | None = None,
    keep: int = 7,
    key_of: KeyOf = plain,
    progress: Progress | None = None,
    turns_waiting: int = 0,
) -> BackupReport:
    data = data_dir(folder)
    return make_backup(
        with_keys(data, key_of),
        to,
        data_dir=data,
        seal=Seal.for_recipient(recipient),
        keep=keep,
        at=utc_now(),
        progress=progress or Progress(),
        turns_waiting=turns_waiting,
    )


def back_up_again_and_again(folder: Path, to: Path) -> None:
    while True:
        back_up(folder, to)


def generations(of: Path) -> list[BackupGeneration]:
    return BackupFolder(of).generations()


async def restore_backup(
    backups: Path,
    folder: Path,
    *,
    identity: Path | None = None,
    generation: str | None = None,
    replace: bool = False,
    key_of: KeyOf = plain,
) -> Restored:
    return await restore(
        backups,
        generation,
        data_dir=data_dir(folder),
        chroma_path=settings_in(folder).memory.chroma_path,
        opener=Decrypter(identity),
        key_of=key_of,
        replace=replace,
    )


def rows(ledger: Path, table: str = "record") -> list[tuple[object, ...]]:
    """Return every row as it is stored."""
    with closing(sqlite3.connect(ledger)) as connection:
        return sorted(connection.execute(f"SELECT * FROM {table}"), key=repr)  # noqa: S608


def every_row(ledger: Path) -> dict[str, list[tuple[object, ...]]]:
    return {table: rows(ledger, table) for table in TABLES}


def key_pair(folder: Path) -> tuple[str, Path]:
    """Return a public key, and the file of the secret one, as `age-keygen` writes it."""
    secret = pyrage.x25519.Identity.generate()
    file = folder / f"{secret.to_public()}.txt"
    file.write_text(f"# public key: {secret.to_public()}\n{secret}\n")
    return str(secret.to_public()), file
