"""The stack's backups, one at a time: on request (`agents/services.py`), and when they are due."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from local2.background import stop
from local2.backup.files import LedgerFile
from local2.backup.generations import BackupFolder
from local2.backup.sealing import Seal
from local2.backup.taking import BackupPlan, FinishedBackup, Progress, make_backup
from local2.errors import (
    BackupError,
    ConfigError,
    InvalidArgumentsError,
    Local2Error,
    OverloadedError,
)
from local2.protocol.envelope import Clock
from local2.protocol.maintenance import BackupReport, BackupRequest, BackupStatus
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


class Backups:
    """Backups of all ledgers in a data folder, of all tenants."""

    def __init__(
        self,
        settings: MemorySettings,
        ledgers: Callable[[], dict[str, LedgerFile]],
        wait_until_stored: Callable[[], Awaitable[int]],
        clock: Clock,
    ) -> None:
        """`wait_until_stored` waits for published turns, and returns how many still are not."""
        self._settings = settings
        self._folder = settings.backup_folder.absolute() if settings.backup_folder else None
        self._ledgers = ledgers
        self._wait_until_stored = wait_until_stored
        self._clock = clock
        self._progress: Progress | None = None
        self._task: asyncio.Task[None] | None = None
        self._last: BackupReport | None = None
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
                            self.begin(BackupRequest(folder=str(folder)))
                        except OverloadedError:
                            log.info("backup_delayed", reason="another one is in progress")
                        else:
                            await asyncio.wait([task for task in (self._task,) if task])
                await asyncio.sleep(CHECK_INTERVAL)
        finally:
            if self._task is not None:
                await stop(self._task)

    def begin(self, request: BackupRequest) -> None:
        """Start a backup; `status` reports its progress.

        Raises:
            InvalidArgumentsError: No absolute folder is named, or the number to keep is below 1.
            OverloadedError: Another backup is in progress.
            ConfigError: The memory is in a PostgreSQL database.
        """
        if self._settings.ledger is not None:
            raise BY_POSTGRESQL
        if self._task is not None and not self._task.done():
            raise OverloadedError
        if not request.folder or not Path(request.folder).is_absolute():
            raise InvalidArgumentsError("folder: the full path of a folder is needed.")
        if request.keep is not None and request.keep < 1:
            raise InvalidArgumentsError("keep: at least 1.")
        self._progress, self._problem = Progress(), None
        self._task = asyncio.create_task(
            self._make_backup(request, Path(request.folder), self._progress)
        )

    async def status(self) -> BackupStatus:
        """The progress of the current backup, and the outcome of the last one."""
        under_way = self._task is not None and not self._task.done()
        progress, scheduled = self._progress, self._folder
        return BackupStatus(
            under_way=under_way,
            done=progress.done if progress and under_way else 0,
            total=progress.total if progress and under_way else 0,
            last=self._last,
            problem=self._problem,
            scheduled=str(scheduled) if scheduled else None,
            newest=await asyncio.to_thread(_newest, scheduled) if scheduled else None,
        )

    async def _make_backup(self, request: BackupRequest, folder: Path, progress: Progress) -> None:
        recipient = request.recipient or self._settings.backup_recipient
        try:
            plan = BackupPlan(
                data_dir=self._settings.data_dir,
                ledgers=await asyncio.to_thread(self._ledgers),
                folder=folder,
                seal=await asyncio.to_thread(Seal.for_recipient, recipient),
                keep=request.keep or self._settings.backup_keep,
                turns_waiting=await self._wait_until_stored(),
                at=self._clock(),
            )
            taken = await _make_in_thread(plan, progress)
        except Local2Error as error:
            self._problem = str(error)
            log.warning("backup_failed", reason=error.logged)
        except Exception:
            self._problem = FAULT
            log.exception("backup_failed")
        else:
            manifest = taken.manifest
            self._last = BackupReport(
                folder=str(plan.folder),
                generation=taken.generation,
                at=manifest.at,
                ledgers=len(manifest.ledgers),
                records=manifest.records,
                size=manifest.size,
                written=taken.written,
                removed=taken.removed,
                encrypted=plan.seal.encrypts,
                turns_waiting=manifest.turns_waiting,
            )
            log.info("backup_made", generation=taken.generation, written=taken.written)


def _newest(folder: Path) -> datetime | None:
    """The time of a folder's newest backup, None without any."""
    try:
        generations = BackupFolder(folder).generations()
    except BackupError:
        return None
    return generations[-1].at if generations else None


async def _make_in_thread(plan: BackupPlan, progress: Progress) -> FinishedBackup:
    """Make a backup in a separate thread: it takes minutes, and the loop's threads are shared."""
    executor = ThreadPoolExecutor(1, "backup")
    taking = asyncio.get_running_loop().run_in_executor(executor, make_backup, plan, progress)
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        progress.stop()
        with suppress(Exception):  # its outcome no longer matters
            await taking
        raise
    finally:
        executor.shutdown(wait=False)
