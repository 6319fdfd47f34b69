"""Serves backups: who asks begins one, and then asks how far it is."""

from local.backup.schedule import Backups
from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant
from local.protocol import subjects
from local.protocol.envelope import decode
from local.protocol.maintenance import BackupRequest, BackupStatus

NAME = "archivist"


class Archivist(Participant):
    """Serves `memory.backup`, which is an operator's: a backup has every tenant's memories."""

    def __init__(self, bus: Connection, backups: Backups) -> None:
        super().__init__(bus, name=NAME, description="Makes backups of the whole memory.")
        self._backups = backups
        self.answer(subjects.MEMORY_BACKUP, self._status, type="status", tenant=None)

    async def _status(self, message: BusMessage) -> BackupStatus:
        request = decode(message.data, BackupRequest).payload if message.data else None
        if request is not None and request.folder is not None:
            self._backups.begin(request)
        return await self._backups.status()
