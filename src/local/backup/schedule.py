"""Makes backups one after the other: those that are requested, and those that are due."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

import structlog

from local.backup.files import LedgerFile
from local.backup.generations import BackupFolder
from local.backup.sealing import Seal
from local.backup.taking import Ask, Progress, Taken, take
from local.errors import BackupError, InvalidArgumentsError, Local2Error, OverloadedError
from local.protocol.envelope import Clock
from local.protocol.maintenance import BackupReport, BackupRequest, BackupStatus
from local.settings import MemorySettings

FAULT = "It failed; the server's log says where."
SETTLING = 60.0
"""Seconds after a start that are left to those who wait for it."""
LOOK_AGAIN = 600.0
"""Seconds between two looks at the clock: a machine may sleep."""

log = structlog.get_logger()


class Backups:
    """The backups of all ledgers in a data folder, of all tenants."""

    def __init__(
        self,
        settings: MemorySettings,
        ledgers: Callable[[], dict[str, LedgerFile]],
        settled: Callable[[], Awaitable[int]],
        clock: Clock,
    ) -> None:
        """`settled` waits until the published turns are stored, and returns how many are not."""
        self._settings = settings
        self._folder = settings.backup_folder.absolute() if settings.backup_folder else None
        self._ledgers = ledgers
        self._settled = settled
        self._clock = clock
        self._progress: Progress | None = None
        self._task: asyncio.Task[None] | None = None
        self._last: BackupReport | None = None
        self._problem: str | None = None

    async def run(self) -> None:
        """Make a backup every so many hours, until cancelled; then stop the one in progress."""
        folder = self._folder
        try:
            await asyncio.sleep(SETTLING)
            while True:
                if folder is not None and await self._is_due(folder):
                    await self._scheduled(folder)
                await asyncio.sleep(LOOK_AGAIN)
        finally:
            await self._stop()

    def begin(self, request: BackupRequest) -> None:
        """Start one; `status` reports how far it is.

        Raises:
            InvalidArgumentsError: No folder is named, or the number to keep is below 1.
            OverloadedError: Another one is in progress.
        """
        if self._task is not None and not self._task.done():
            raise OverloadedError
        if not request.folder or not Path(request.folder).is_absolute():
            raise InvalidArgumentsError("folder: the full path of a folder is needed.")
        if request.keep is not None and request.keep < 1:
            raise InvalidArgumentsError("keep: at least 1.")
        self._progress, self._problem = Progress(), None
        self._task = asyncio.create_task(self._make(request, Path(request.folder), self._progress))

    async def status(self) -> BackupStatus:
        """Return how far the one in progress is, and how the one before ended."""
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

    async def _make(self, request: BackupRequest, folder: Path, progress: Progress) -> None:
        recipient = request.recipient or self._settings.backup_recipient
        try:
            ask = Ask(
                data_dir=self._settings.data_dir,
                ledgers=await asyncio.to_thread(self._ledgers),
                folder=folder,
                seal=await asyncio.to_thread(Seal.of, recipient),
                keep=request.keep or self._settings.backup_keep,
                turns_waiting=await self._settled(),
                at=self._clock(),
            )
            taken = await _in_a_thread(ask, progress)
        except Local2Error as error:
            self._problem = str(error)
            log.warning("backup_failed", reason=error.logged)
        except Exception:
            self._problem = FAULT
            log.exception("backup_failed")
        else:
            self._last = _report(ask, taken)
            log.info("backup_made", generation=taken.generation, written=taken.written)

    async def _scheduled(self, folder: Path) -> None:
        try:
            self.begin(BackupRequest(folder=str(folder)))
        except OverloadedError:
            log.info("backup_delayed", reason="another one is under way")
        else:
            await asyncio.wait([task for task in (self._task,) if task])

    async def _is_due(self, folder: Path) -> bool:
        """Return whether a backup is due; a date in the future, of a wrong clock, is ignored."""
        newest = await asyncio.to_thread(_newest, folder)
        age = self._clock() - newest if newest else None
        return age is None or not timedelta() <= age < timedelta(hours=self._settings.backup_hours)

    async def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait((self._task,))


def _newest(folder: Path) -> datetime | None:
    """Return when the newest backup of a folder was made, by its name."""
    try:
        generations = BackupFolder(folder).generations()
    except BackupError:
        return None
    return generations[-1].at if generations else None


def _report(ask: Ask, taken: Taken) -> BackupReport:
    manifest = taken.manifest
    return BackupReport(
        folder=str(ask.folder),
        generation=taken.generation,
        at=manifest.at,
        ledgers=len(manifest.ledgers),
        records=manifest.records,
        size=manifest.size,
        written=taken.written,
        removed=taken.removed,
        encrypted=ask.seal.encrypts,
        turns_waiting=manifest.turns_waiting,
    )


async def _in_a_thread(ask: Ask, progress: Progress) -> Taken:
    """Run in a thread of its own: it takes minutes, and others wait for the loop's threads."""
    executor = ThreadPoolExecutor(1, "backup")
    taking = asyncio.get_running_loop().run_in_executor(executor, take, ask, progress)
    try:
        return await asyncio.shield(taking)
    except asyncio.CancelledError:
        progress.stop()
        with suppress(Exception):  # its outcome no longer matters
            await taking
        raise
    finally:
        executor.shutdown(wait=False)
