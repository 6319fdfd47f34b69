"""The stack's backups, made or read one at a time.

They are made on request (`agents/services.py`) and when they are due.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import structlog

from local2.background import stop
from local2.backup.files import LedgerFile
from local2.backup.generations import BackupFolder
from local2.backup.sealing import Decrypter, Seal
from local2.backup.taking import Progress, make_backup
from local2.backup.verifying import verify_backup
from local2.content_key import KeyOf
from local2.errors import (
    BackupError,
    ConfigError,
    InvalidArgumentsError,
    Local2Error,
    OverloadedError,
)
from local2.protocol.envelope import Clock
from local2.protocol.maintenance import (
    BackupList,
    BackupReport,
    BackupRequest,
    BackupsFound,
    BackupStatus,
    VerificationRequest,
    VerifiedBackup,
)
from local2.settings import MemorySettings

BY_POSTGRESQL = ConfigError(
    "The memory is in a PostgreSQL database, whose own tools make backups of it.",
    remedy="`pg_dump --format=custom --file=FILE URL` copies it while stacks serve, and "
    "`pg_restore` brings it back; for a backup of any moment, see `pg_basebackup` and the archive "
    "of its write-ahead log. What was forgotten stays in earlier backups.",
)
FAULT = "It failed; the server's log says where."
START_DELAY = 60.0
"""Seconds after a start in which no scheduled backup begins, in favour of the first requests."""
CHECK_INTERVAL = 600.0
"""Seconds between two checks whether a backup is due; they are repeated because machines sleep."""

log = structlog.get_logger()

T = TypeVar("T")


class Backups:
    """Backups of all ledgers in a data folder, of all tenants."""

    def __init__(
        self,
        settings: MemorySettings,
        ledgers: Callable[[], dict[str, LedgerFile]],
        wait_until_stored: Callable[[], Awaitable[int]],
        clock: Clock,
        key_of: KeyOf,
    ) -> None:
        """`wait_until_stored` waits for published turns, and returns how many still are not.

        `key_of` returns the keys of ledgers that are read in a backup.
        """
        self._settings = settings
        self._folder = settings.backup_folder.absolute() if settings.backup_folder else None
        self._ledgers = ledgers
        self._wait_until_stored = wait_until_stored
        self._clock = clock
        self._key_of = key_of
        self._progress: Progress | None = None
        self._task: asyncio.Task[None] | None = None
        self._last: BackupReport | None = None
        self._verified: VerifiedBackup | None = None
        self._is_verifying = False
        self._problem: str | None = None

    async def run(self) -> None:
        """Make backups when they are due; on cancellation, stop the one in progress."""
        folder = self._folder
        try:
            await asyncio.sleep(START_DELAY)
            while True:
                if folder is not None:
                    newest = await asyncio.to_thread(_newest, folder)
                    age = self._clock() - newest if newest else None
                    hours = timedelta(hours=self._settings.backup_hours)
                    # A newest backup that is dated in the future does not count.
                    if age is None or not timedelta() <= age < hours:
                        try:
                            making = self.begin(BackupRequest(folder=str(folder)))
                        except OverloadedError:
                            log.info("backup_delayed", reason="another one is in progress")
                        else:
                            await asyncio.wait({making})
                await asyncio.sleep(CHECK_INTERVAL)
        finally:
            if self._task is not None:
                await stop(self._task)

    def begin(self, request: BackupRequest) -> asyncio.Task[None]:
        """Start a backup; `status` reports its progress.

        Raises:
            InvalidArgumentsError: No absolute folder is named, or the number to keep is below 1.
            OverloadedError: Another backup is made or read at present.
            ConfigError: The memory is in a PostgreSQL database.
        """
        if self._settings.ledger is not None:
            raise BY_POSTGRESQL
        if not request.folder or not Path(request.folder).is_absolute():
            raise InvalidArgumentsError("folder: the full path of a folder is needed.")
        if request.keep is not None and request.keep < 1:
            raise InvalidArgumentsError("keep: at least 1.")
        folder = Path(request.folder)
        return self._begin(lambda progress: self._make_backup(request, folder, progress))

    def begin_verification(self, request: VerificationRequest) -> None:
        """Start to read a backup whole; `status` reports its progress.

        Raises:
            InvalidArgumentsError: No absolute folder is named, and there are no automatic backups.
            OverloadedError: Another backup is made or read at present.
        """
        folder = self._folder_of(request.folder)
        self._begin(lambda progress: self._verify(request, folder, progress), is_verifying=True)

    async def find(self, request: BackupList) -> BackupsFound:
        """List the backups in a folder.

        Raises:
            InvalidArgumentsError: No absolute folder is named, and there are no automatic backups.
            BackupError: It is not a folder of backups.
        """
        folder = self._folder_of(request.folder)
        backups = await asyncio.to_thread(BackupFolder(folder).listed)
        return BackupsFound(folder=str(folder), backups=backups)

    def _folder_of(self, named: str | None) -> Path:
        folder = Path(named) if named else self._folder
        if folder is None or not folder.is_absolute():
            raise InvalidArgumentsError(
                "folder: the full path of a folder is needed.",
                remedy="Name one, or set backup_folder in config/memory.yaml.",
            )
        return folder

    def _begin(
        self, work: Callable[[Progress], Coroutine[Any, Any, None]], *, is_verifying: bool = False
    ) -> asyncio.Task[None]:
        if self._task is not None and not self._task.done():
            raise OverloadedError
        self._progress, self._problem = Progress(), None
        self._is_verifying = is_verifying
        progress, event = self._progress, "backup_not_verified" if is_verifying else "backup_failed"

        async def keep_why_it_failed() -> None:
            try:
                await work(progress)
            except Local2Error as error:
                self._problem = str(error)
                log.warning(event, reason=error.logged)
            except Exception:
                self._problem = FAULT
                log.exception(event)

        self._task = asyncio.create_task(keep_why_it_failed())
        return self._task

    async def status(self) -> BackupStatus:
        """The progress of the current backup, and the outcome of the last one."""
        under_way = self._task is not None and not self._task.done()
        progress, scheduled = self._progress, self._folder
        return BackupStatus(
            under_way=under_way,
            verifying=under_way and self._is_verifying,
            done=progress.done if progress and under_way else 0,
            total=progress.total if progress and under_way else 0,
            last=self._last,
            verified=self._verified,
            problem=self._problem,
            scheduled=str(scheduled) if scheduled else None,
            newest=await asyncio.to_thread(_newest, scheduled) if scheduled else None,
        )

    async def _make_backup(self, request: BackupRequest, folder: Path, progress: Progress) -> None:
        recipient = request.recipient or self._settings.backup_recipient
        seal = await asyncio.to_thread(Seal.for_recipient, recipient)
        making = partial(
            make_backup,
            await asyncio.to_thread(self._ledgers),
            folder,
            data_dir=self._settings.data_dir,
            seal=seal,
            keep=request.keep or self._settings.backup_keep,
            turns_waiting=await self._wait_until_stored(),
            at=self._clock(),
            progress=progress,
        )
        self._last = made = await _run_in_thread(making, progress)
        log.info("backup_made", generation=made.generation, written=made.written)

    async def _verify(self, request: VerificationRequest, folder: Path, progress: Progress) -> None:
        identity = Path(request.identity) if request.identity else None
        verifying = partial(
            verify_backup,
            folder,
            request.generation,
            data_dir=self._settings.data_dir,
            opener=await asyncio.to_thread(Decrypter, identity),
            key_of=self._key_of,
            progress=progress,
        )
        self._verified = await _run_in_thread(verifying, progress)
        damaged = self._verified.damaged
        log.info("backup_verified", generation=self._verified.generation, damaged=damaged)


def _newest(folder: Path) -> datetime | None:
    """The time of a folder's newest backup, None without any."""
    try:
        generations = BackupFolder(folder).generations()
    except BackupError:
        return None
    return generations[-1].at if generations else None


async def _run_in_thread(work: Callable[[], T], progress: Progress) -> T:
    """Do the work in a separate thread: it takes minutes, and the loop's threads are shared."""
    executor = ThreadPoolExecutor(1, "backup")
    working = asyncio.get_running_loop().run_in_executor(executor, work)
    try:
        return await asyncio.shield(working)
    except asyncio.CancelledError:
        progress.stop()
        with suppress(Exception):  # its outcome no longer matters
            await working
        raise
    finally:
        executor.shutdown(wait=False)
