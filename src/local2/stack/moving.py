"""Moves the memory of a stopped home from its files to a database, or from the database to files.

The source is the ledger that the settings name, and it is only read. Whatever else a home has, such
as turns that wait in JetStream, accounts and settings, stays where it is: it is then used with the
other ledger.
"""

import re
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from local2.backup.files import MAIN, ledger_files
from local2.errors import InvalidArgumentsError, LedgerKeyError, StorageError, without_credentials
from local2.home import folder_lock
from local2.ledger.engines import Database
from local2.ledger.engines.sqlite.soundness import has_content
from local2.ledger.moving import Moved, Progress, move
from local2.settings import Settings
from local2.stack.ledgers import content_keys, open_file, open_postgres, tenants_of
from local2.vectors.config import count_vectors

_DATABASE = re.compile("postgres(ql)?://")


class MovedMemory(msgspec.Struct, frozen=True, kw_only=True):
    """From where to where a memory was moved, and what is in both."""

    source: str
    target: str
    moved: Moved


async def move_memory(settings: Settings, to: str, progress: Progress) -> MovedMemory:
    """Copy the memory to a database (its URL) or to files (their folder), and compare both.

    A move that was interrupted is continued. Both are compared again if the target is whole.

    Raises:
        InvalidArgumentsError: Both would be files, or both databases.
        LedgerKeyError: The memory of a tenant is encrypted.
        FolderLockedError: A stack runs on a folder.
        StorageError: There is no memory, the target holds another one, a stack works on one of
            them, or one has another schema or cannot be opened.
    """
    data_dir, url = settings.memory.data_dir, settings.memory.ledger
    is_database = _DATABASE.match(to) is not None
    if is_database == (url is not None):
        with_tools = "pg_dump and pg_restore" if is_database else "`local2 backup` and `restore`"
        raise InvalidArgumentsError(
            "A memory is moved from files to PostgreSQL, or from PostgreSQL to files.",
            remedy=f"What this asks for is done by {with_tools}.",
        )
    _refuse_encrypted(settings)
    async with AsyncExitStack() as resources:
        resources.enter_context(folder_lock(data_dir))
        if url is None:
            source: Database = await resources.enter_async_context(open_file(_existing(data_dir)))
            target: Database = await resources.enter_async_context(
                open_postgres(to, unfinished=True)
            )
            names = str(data_dir / MAIN), without_credentials(to)
        else:
            file = _lock_target(Path(to), settings, resources)
            source = await resources.enter_async_context(open_postgres(url))
            target = await resources.enter_async_context(open_file(file, unfinished=True))
            names = without_credentials(url), str(file)
        moved = await move(source, target, progress)
    return MovedMemory(source=names[0], target=names[1], moved=moved)


def _refuse_encrypted(settings: Settings) -> None:
    """Refuse a memory in several files, whose keys and numbers of rows are each file's own.

    Raises:
        LedgerKeyError: A tenant has a content key, or an encrypted file.
    """
    key_of = content_keys(settings)
    files = ledger_files(settings.memory.data_dir)
    with_file = {Path(name).parent.name for name in files if name != MAIN}
    for tenant in tenants_of(settings):
        if tenant in with_file or key_of(tenant) is not None:
            raise LedgerKeyError(
                f"The memory of the tenant {tenant} is encrypted, and would not be in PostgreSQL.",
                remedy="Run `local2 export` with its key, and `local2 import` where it is to be.",
            )


def _existing(data_dir: Path) -> Path:
    """Return the file of a memory.

    Raises:
        StorageError: There is none.
    """
    file = data_dir / MAIN
    if not has_content(file):
        raise StorageError(
            f"There is no memory in {data_dir.resolve()}.",
            remedy="Name the folder of the memory with --home.",
        )
    return file


def _lock_target(folder: Path, settings: Settings, resources: AsyncExitStack) -> Path:
    """Return the file to move a memory to, in a folder that no stack uses.

    Raises:
        FolderLockedError: A stack runs on the folder.
        StorageError: The index beside it is that of a former memory.
    """
    folder = folder.expanduser()
    file = folder / MAIN
    if folder.resolve() != settings.memory.data_dir.resolve():
        resources.enter_context(folder_lock(folder))
        return file
    index = settings.memory.chroma_path
    if not has_content(file) and count_vectors(index, settings.memory.collection):
        raise StorageError(
            f"{index.resolve()} has the vectors of a former memory.",
            remedy="Delete it: it is filled again from the vectors that are moved.",
        )
    return file
