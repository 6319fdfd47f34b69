"""Moves the memory of a stopped home from its files to a database, or from the database to files.

The source is the ledger that the settings name, and it is only read. Whatever else a home has, such
as turns that wait in JetStream, accounts and settings, stays where it is: it is then used with the
other ledger.
"""

import re
from contextlib import AsyncExitStack
from pathlib import Path

import msgspec

from local2.backup.files import ledger_files
from local2.errors import InvalidArgumentsError, LedgerKeyError, StorageError, without_credentials
from local2.home import LEDGER_FILE, folder_lock
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
        InvalidArgumentsError: Both would be files, or both databases, or the target is neither.
        LedgerKeyError: The memory of a tenant is encrypted.
        FolderLockedError: A stack runs on a folder.
        StorageError: There is no memory, the target holds another one, the index beside it is that
            of a former one, a stack works on one of them, or one has another schema or cannot be
            opened.
    """
    data_dir, url = settings.memory.data_dir, settings.memory.ledger
    is_database = _DATABASE.match(to) is not None
    if "://" in to and not is_database:
        raise InvalidArgumentsError(
            f"{without_credentials(to)} is neither a database of PostgreSQL nor a folder.",
            remedy="Name `postgresql://USER@HOST/DATABASE`, or a folder.",
        )
    if is_database == (url is not None):
        with_tools = "pg_dump and pg_restore" if is_database else "`local2 backup` and `restore`"
        raise InvalidArgumentsError(
            "A memory is moved from files to PostgreSQL, or from PostgreSQL to files.",
            remedy=f"What this asks for is done by {with_tools}.",
        )
    # A memory in several files has keys, and numbers of rows, of each file's own.
    key_of = content_keys(settings)
    with_file = {Path(name).parent.name for name in ledger_files(data_dir) if name != LEDGER_FILE}
    for tenant in tenants_of(settings):
        if tenant in with_file or key_of(tenant) is not None:
            raise LedgerKeyError(
                f"The memory of the tenant {tenant} is encrypted, and would not be in PostgreSQL.",
                remedy="Run `local2 export` with its key, and `local2 import` where it is to be.",
            )
    async with AsyncExitStack() as resources:
        resources.enter_context(folder_lock(data_dir))
        if url is None:
            file = data_dir / LEDGER_FILE
            if not has_content(file):
                raise StorageError(
                    f"There is no memory in {data_dir.resolve()}.",
                    remedy="Name the folder of the memory with --home.",
                )
            source: Database = await resources.enter_async_context(open_file(file))
            target: Database = await resources.enter_async_context(
                open_postgres(to, unfinished=True)
            )
            names = str(file), without_credentials(to)
        else:
            folder = Path(to).expanduser().resolve()  # noqa: ASYNC240 - nothing else runs meanwhile
            file, index = folder / LEDGER_FILE, settings.memory.chroma_path
            if folder != data_dir.resolve():
                resources.enter_context(folder_lock(folder))
            elif not has_content(file) and count_vectors(index, settings.memory.collection):
                raise StorageError(
                    f"{index.resolve()} has the vectors of a former memory.",
                    remedy="Delete it: it is filled again from the vectors that are moved.",
                )
            source = await resources.enter_async_context(open_postgres(url))
            target = await resources.enter_async_context(open_file(file, unfinished=True))
            names = without_credentials(url), str(file)
        moved = await move(source, target, progress)
    return MovedMemory(source=names[0], target=names[1], moved=moved)
