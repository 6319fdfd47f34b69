"""Open ledgers, after checking that none is missing and that each has the right key."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Self

from local2.backup.files import ledger_files
from local2.content_key import ContentKey, KeyOf
from local2.errors import (
    ConfigError,
    DamagedError,
    LedgerKeyError,
    UnwritableError,
    extra_to_install,
)
from local2.home import LEDGER_FILE, make_private
from local2.ledger.engines import Database
from local2.ledger.engines.sqlite.connections import connect_encrypted, first_row
from local2.ledger.engines.sqlite.database import Database as SqliteDatabase
from local2.ledger.engines.sqlite.schema import SCHEMA
from local2.ledger.engines.sqlite.soundness import Tally, has_content
from local2.ledger.ledger import Ledger
from local2.ledger.records import UNLIMITED, Quota
from local2.protocol.envelope import DEFAULT_TENANT
from local2.settings import MemorySettings, Settings
from local2.tenants.credentials import CONTENT_KEY
from local2.tenants.directory import TENANTS_FILE, Entries
from local2.vectors.config import collection_name, count_vectors

if TYPE_CHECKING:
    from local2.ledger.engines.postgres.database import Database as PostgresDatabase

HAS_RECORDS = "SELECT 1 FROM record WHERE tenant = :tenant LIMIT 1"
"""Returns a row if the tenant has records."""


def ledger_path(settings: MemorySettings, tenant: str, key: ContentKey | None = None) -> Path:
    """Where a tenant's ledger is: in its own file if it has a key, else in the shared one."""
    folder = settings.data_dir if key is None else _own_folder(settings, tenant)
    return folder / LEDGER_FILE


def configured_key(settings: MemorySettings) -> ContentKey | None:
    """Read the key that the configuration names.

    Raises:
        LedgerKeyError: It cannot be used, or its file is readable by others.
    """
    file = settings.content_key_file
    return ContentKey.read(file) if file is not None else None


def content_keys(settings: Settings) -> KeyOf:
    """Make a function that reads a tenant's key; without accounts, only the default tenant's."""
    accounts = settings.bus.accounts

    def key_of(tenant: str) -> ContentKey | None:
        if not (accounts / TENANTS_FILE).exists():
            return configured_key(settings.memory) if tenant == DEFAULT_TENANT else None
        file = accounts / tenant / CONTENT_KEY
        return ContentKey.read(file) if file.exists() else None

    return key_of


def tenants_of(settings: Settings) -> list[str]:
    """List the default tenant, the tenants of the directory, and all others with a ledger.

    Raises:
        ConfigError: The directory of tenants cannot be read.
    """
    entries = Entries.read(settings.bus.accounts)
    named = entries.tenants if entries else ()
    files = ledger_files(settings.memory.data_dir)
    own = [path.parent.name for name, path in files.items() if name != LEDGER_FILE]
    return list(dict.fromkeys((DEFAULT_TENANT, *named, *own)))


class Ledgers:
    """The ledgers of all tenants: those with a key have a separate file, the others share one.

    They are closed when its context ends. `quota` limits what each tenant may store. `shared` is
    the database that other stacks work on, too, once it is open; None for files.
    """

    def __init__(self, settings: MemorySettings, key_of: KeyOf, quota: Quota = UNLIMITED) -> None:
        self._settings = settings
        self._key_of = key_of
        self._quota = quota
        self._shared = AsyncExitStack()
        self._file: SqliteDatabase | None = None
        self.shared: PostgresDatabase | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._shared.aclose()

    @asynccontextmanager
    async def open(self, tenant: str) -> AsyncIterator[Ledger]:
        """Open a tenant's ledger; create it if no other file shows that one existed.

        Raises:
            DamagedError: It is damaged or missing, or lacks commits that were counted.
            LedgerKeyError: Its key is missing or wrong, or it is not encrypted.
            StorageError: It cannot be opened.
        """
        key = await self._checked_key(tenant)
        if key is None:
            yield Ledger(await self._open_shared(tenant), tenant, self._quota)
            return
        path = ledger_path(self._settings, tenant, key)
        try:
            make_private(path.parent)
        except OSError as error:
            raise UnwritableError(path.parent, error) from error
        async with SqliteDatabase.open(path, key=key) as database:
            yield Ledger(database, tenant, self._quota)

    async def prepare(self, tenants: Iterable[str]) -> None:
        """Check that all ledgers can be opened, and open the shared file.

        Raises the errors of `open`.
        """
        for tenant in tenants:
            if await self._checked_key(tenant) is None:
                await self._open_shared(tenant)

    async def find(self, tenant: str) -> str | None:
        """Find a tenant's ledger: its file, or its database; None if there is none yet.

        Raises:
            DamagedError: It is missing although its count of commits exists.
            LedgerKeyError: Its key is missing, or it is not encrypted.
        """
        key = await self._checked_key(tenant)
        if self._settings.ledger is not None:
            return self._settings.ledger
        path = ledger_path(self._settings, tenant, key)
        return str(path) if has_content(path) else None

    async def _checked_key(self, tenant: str) -> ContentKey | None:
        """Read the tenant's key, after checking that its ledger is not missing.

        Raises:
            ConfigError: A database would not be encrypted, or there would be no backup of it.
        """
        key = await asyncio.to_thread(self._key_of, tenant)
        if self._settings.ledger is not None:
            if key is not None:
                raise ConfigError(
                    "A content key encrypts SQLite's files, and `ledger` in config/memory.yaml "
                    "names a PostgreSQL database.",
                    remedy="Remove the key, and encrypt the disk of the database.",
                )
            if self._settings.backup_folder is not None:
                raise ConfigError(
                    "`backup_folder` in config/memory.yaml is for SQLite's files, and `ledger` "
                    "names a PostgreSQL database.",
                    remedy="Set `backup_folder: null`, and make backups with PostgreSQL's own "
                    "tools.",
                )
            return None
        await asyncio.to_thread(refuse_a_missing_ledger, self._settings, tenant, key)
        return key

    async def open_database(self) -> "PostgresDatabase | None":
        """Open the database that the settings name; None if ledgers are files.

        Raises:
            ConfigError: Its driver is not installed.
            StorageError: It cannot be opened.
        """
        if self._settings.ledger is None or self.shared is not None:
            return self.shared
        opening = open_postgres(self._settings.ledger)
        self.shared = await self._shared.enter_async_context(opening)
        return self.shared

    async def _open_shared(self, tenant: str) -> Database:
        if (database := await self.open_database()) is not None:
            return database
        if self._file is None:
            path = ledger_path(self._settings, tenant)
            self._file = await self._shared.enter_async_context(open_file(path))
        return self._file


def open_postgres(
    url: str, *, unfinished: bool = False
) -> "AbstractAsyncContextManager[PostgresDatabase]":
    """Open a database; `unfinished`: also if a memory is being moved into it.

    Raises:
        ConfigError: Its driver is not installed.
        StorageError: It cannot be opened.
    """
    try:
        from local2.ledger.engines.postgres.database import (  # noqa: PLC0415 - an extra
            Database as PostgresDatabase,
        )
    except ImportError as error:
        raise ConfigError(
            "The ledger is to be a PostgreSQL database, and its driver is not installed.",
            remedy=extra_to_install("postgres"),
        ) from error
    return PostgresDatabase.open(url, unfinished=unfinished)


def open_file(
    path: Path, *, unfinished: bool = False
) -> AbstractAsyncContextManager[SqliteDatabase]:
    """Open the file that tenants without a key share, or create it; `unfinished` as above.

    Raises:
        DamagedError: It is damaged, or lacks commits that were counted.
        StorageError: It cannot be opened.
    """
    return SqliteDatabase.open(path, SCHEMA._replace(unfinished=unfinished))


def refuse_a_missing_ledger(settings: MemorySettings, tenant: str, key: ContentKey | None) -> None:
    """Raise if the ledger is missing while its count of commits or its vectors remain.

    Raises:
        DamagedError: The ledger is missing or empty, and the count or the index is not.
        LedgerKeyError: There is an encrypted ledger but no key, or a key but a plain ledger.
    """
    path, index = ledger_path(settings, tenant, key), settings.chroma_path
    if key is None:
        _refuse_without_key(settings, tenant)
    if has_content(path):
        return
    if key is not None:
        # A new, empty encrypted ledger beside a plain one with records would look like data loss.
        plain = ledger_path(settings, tenant)
        if has_content(plain) and first_row(plain, HAS_RECORDS, {"tenant": tenant}):
            raise LedgerKeyError(
                f"{plain} holds memories of the tenant {tenant} that are not encrypted.",
                remedy="Without the key, run `local2 export`; move the data folder and "
                f"{settings.chroma_path} away; with the key, run `local2 import`.",
            )
    tally = Tally(path)
    collection = collection_name(settings.collection, tenant, "serving")
    if vectors := count_vectors(index, collection):
        raise DamagedError(
            f"{path} is missing or empty, but {index} holds {vectors} vectors of its records.",
            remedy="Restore it from a backup. To start with an empty memory, also delete "
            f"{index} and {tally.path}.",
        )
    tally.refuse_a_missing_database()


def usable_key(settings: MemorySettings, tenant: str) -> ContentKey | None:
    """Read the configured key, after checking that it decrypts the existing ledger.

    The check comes before the server starts: with a wrong key, the server would delete the streams
    that it cannot decrypt.

    Raises:
        LedgerKeyError: The key cannot be used, or the ledger is encrypted and no key is configured.
    """
    key = configured_key(settings)
    if key is None:
        _refuse_without_key(settings, tenant)
    elif has_content(path := ledger_path(settings, tenant, key)):
        connect_encrypted(path, key).close()
    return key


def _own_folder(settings: MemorySettings, tenant: str) -> Path:
    return settings.data_dir / "tenants" / tenant


def _refuse_without_key(settings: MemorySettings, tenant: str) -> None:
    folder = _own_folder(settings, tenant)
    if has_content(folder / LEDGER_FILE):
        raise LedgerKeyError(
            f"The memory of tenant {tenant} in {folder} is encrypted, and no key is configured.",
            remedy="Set `content_key_file` in config/memory.yaml to the file of its key. If the "
            "key was deleted to erase the memory, also delete "
            f"{folder} and {settings.chroma_path}.",
        )
