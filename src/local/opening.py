"""Opens the ledger, once the files beside it confirm that it is the right one."""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from local.backup.files import MAIN, ledger_files
from local.content_key import ContentKey, KeyOf
from local.errors import DamagedError, LedgerKeyError, UnwritableError
from local.home import make_private
from local.ledger.records import UNLIMITED, Quota
from local.ledger.sqlite.database import Database, finds_any, has_content
from local.ledger.sqlite.database.connections import connect_encrypted
from local.ledger.sqlite.database.soundness import Tally
from local.ledger.sqlite.ledger import COUNTED, Ledger
from local.ledger.sqlite.sql import migrations
from local.protocol.envelope import DEFAULT_TENANT
from local.settings import MemorySettings, Settings
from local.tenants.credentials import CONTENT_KEY
from local.tenants.directory import FILE, Entries
from local.vectors.config import collection_name, count_vectors

OF_TENANT = "SELECT 1 FROM record WHERE tenant = :tenant LIMIT 1"


def ledger_path(settings: MemorySettings, tenant: str, key: ContentKey | None = None) -> Path:
    """Return where a tenant's ledger is: its own file if it has a key, else the shared one."""
    folder = settings.data_dir if key is None else _own_folder(settings, tenant)
    return folder / "ledger.sqlite3"


def has_ledger(settings: MemorySettings, tenant: str, key: ContentKey | None = None) -> bool:
    """Return whether the tenant has a ledger."""
    return has_content(ledger_path(settings, tenant, key))


def configured_key(settings: MemorySettings) -> ContentKey | None:
    """Read the key that the configuration names.

    Raises:
        LedgerKeyError: It cannot be used, or others may read it.
    """
    file = settings.content_key_file
    return ContentKey.read(file) if file is not None else None


def content_keys(settings: Settings) -> KeyOf:
    """Return where the keys of tenants' content are; without accounts there is one tenant."""
    accounts = settings.bus.accounts

    def key_of(tenant: str) -> ContentKey | None:
        if not (accounts / FILE).exists():
            return configured_key(settings.memory) if tenant == DEFAULT_TENANT else None
        file = accounts / tenant / CONTENT_KEY
        return ContentKey.read(file) if file.exists() else None

    return key_of


def tenants_of(settings: Settings) -> list[str]:
    """Return the default tenant, those of the directory, and all others that have a ledger.

    Raises:
        ConfigError: The directory of tenants cannot be read.
    """
    entries = Entries.read(settings.bus.accounts)
    named = entries.tenants if entries else ()
    files = ledger_files(settings.memory.data_dir)
    own = [path.parent.name for name, path in files.items() if name != MAIN]
    return list(dict.fromkeys((DEFAULT_TENANT, *named, *own)))


class Ledgers:
    """Every tenant's ledger: one with a key has a file of its own, all others share one."""

    def __init__(self, settings: MemorySettings, key_of: KeyOf, quota: Quota) -> None:
        self._settings = settings
        self._key_of = key_of
        self._quota = quota
        self._shared = AsyncExitStack()
        self._database: Database | None = None

    async def close(self) -> None:
        await self._shared.aclose()

    @asynccontextmanager
    async def opened(self, tenant: str) -> AsyncIterator[Ledger]:
        """Open a tenant's ledger; create it if no file shows that there was one.

        Raises:
            DamagedError: It is damaged, older than its count of commits, or missing beside it.
            LedgerKeyError: Its key is missing or another one, or it is not encrypted.
            StorageError: It cannot be opened.
        """
        key = await self._checked(tenant)
        if key is None:
            yield Ledger(await self._open_shared(tenant), tenant, self._quota)
            return
        path = ledger_path(self._settings, tenant, key)
        _make(path.parent)
        async with Database.open(path, migrations(), counted=COUNTED, key=key) as database:
            yield Ledger(database, tenant, self._quota)

    async def prepare(self, tenants: Iterable[str]) -> None:
        """Fail now if a ledger could not be opened, and open the file that most tenants share.

        Raises what `opened` raises.
        """
        for tenant in tenants:
            if await self._checked(tenant) is None:
                await self._open_shared(tenant)

    async def found(self, tenant: str) -> Path | None:
        """Return where a tenant's ledger is; None if it has none yet.

        Raises:
            DamagedError: It is missing beside its count of commits.
            LedgerKeyError: Its key is missing, or it is not encrypted.
        """
        path = ledger_path(self._settings, tenant, await self._checked(tenant))
        return path if has_content(path) else None

    async def _checked(self, tenant: str) -> ContentKey | None:
        """Return the tenant's key, if its ledger is not missing."""
        key = await asyncio.to_thread(self._key_of, tenant)
        await asyncio.to_thread(refuse_a_missing_ledger, self._settings, tenant, key)
        return key

    async def _open_shared(self, tenant: str) -> Database:
        if self._database is None:
            self._database = await self._shared.enter_async_context(
                Database.open(ledger_path(self._settings, tenant), migrations(), counted=COUNTED)
            )
        return self._database


@asynccontextmanager
async def open_ledgers(
    settings: MemorySettings, key_of: KeyOf, quota: Quota = UNLIMITED
) -> AsyncIterator[Ledgers]:
    """Open the ledgers of a data folder; `quota` limits what each tenant may store."""
    ledgers = Ledgers(settings, key_of, quota)
    try:
        yield ledgers
    finally:
        await ledgers.close()


def refuse_a_missing_ledger(
    settings: MemorySettings, tenant: str, key: ContentKey | None = None
) -> None:
    """Raise if the ledger is gone while its count of commits and its vectors remain.

    Raises:
        DamagedError: The ledger is missing or empty, and one of the others is not.
        LedgerKeyError: The tenant has a ledger of the other form: encrypted or plain.
    """
    path, index = ledger_path(settings, tenant, key), settings.chroma_path
    if key is None:
        _refuse_without_key(settings, tenant)
    if has_content(path):
        return
    if key is not None:
        _refuse_plain_content(settings, tenant)
    tally = Tally(path, COUNTED)
    collection = collection_name(settings.collection, tenant, "serving")
    if vectors := count_vectors(index, collection):
        raise DamagedError(
            f"{path} is missing or empty, and {index} holds {vectors} vectors of its records.",
            remedy="Restore it from a backup. To begin anew, delete "
            f"{index} and {tally.path}, too.",
        )
    tally.refuse_a_missing_database()


def usable_key(settings: MemorySettings, tenant: str) -> ContentKey | None:
    """Return the configured key, once it has decrypted the existing ledger.

    Used before the ledger is opened: a server with another key deletes what it cannot decrypt.

    Raises:
        LedgerKeyError: It cannot be used, or the ledger is encrypted and there is none.
    """
    key = configured_key(settings)
    if key is None:
        _refuse_without_key(settings, tenant)
    elif has_ledger(settings, tenant, key):
        connect_encrypted(ledger_path(settings, tenant, key), key).close()
    return key


def _make(folder: Path) -> None:
    try:
        make_private(folder)
    except OSError as error:
        raise UnwritableError(folder, error) from error


def _own_folder(settings: MemorySettings, tenant: str) -> Path:
    return settings.data_dir / "tenants" / tenant


def _refuse_without_key(settings: MemorySettings, tenant: str) -> None:
    folder = _own_folder(settings, tenant)
    if has_content(folder / "ledger.sqlite3"):
        raise LedgerKeyError(
            f"What the tenant {tenant} remembers is encrypted in {folder}, and no key is named.",
            remedy="Name the file of its key, as `content_key_file` in config/memory.yaml. If the "
            f"key was deleted to erase it all, delete {folder} and {settings.chroma_path}, too.",
        )


def _refuse_plain_content(settings: MemorySettings, tenant: str) -> None:
    """Refuse an empty encrypted ledger beside a full plain one; it would look like data loss."""
    plain = ledger_path(settings, tenant)
    if has_content(plain) and finds_any(plain, OF_TENANT, {"tenant": tenant}):
        raise LedgerKeyError(
            f"{plain} holds what the tenant {tenant} remembers, and it is not encrypted.",
            remedy="Without the key, run `local2 export`; move the data folder and "
            f"{settings.chroma_path} away; with the key, run `local2 import`.",
        )
