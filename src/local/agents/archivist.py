"""Serves backups: who asks begins one, and then asks how far it is."""

import structlog

from local.backup.schedule import Backups
from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant, error_answer
from local.errors import Local2Error
from local.protocol import subjects
from local.protocol.backups import BackupRequest
from local.protocol.envelope import decode, encode, seal

NAME = "archivist"
FAULT = "It failed; the server's log says where."

log = structlog.get_logger()


class Archivist(Participant):
    """Serves `memory.backup`, which is an operator's: a backup has every tenant's memories."""

    def __init__(self, bus: Connection, backups: Backups) -> None:
        super().__init__(bus, name=NAME, description="Makes backups of the whole memory.")
        self._backups = backups
        self.serve(subjects.MEMORY_BACKUP, self._receive, queue=NAME, tenant=None)

    async def _receive(self, message: BusMessage) -> None:
        headers: dict[str, str] | None = None
        try:
            request = decode(message.data, BackupRequest).payload if message.data else None
            if request is not None and request.folder is not None:
                self._backups.begin(request)
            data = encode(seal(await self._backups.status(), type="status", source=NAME))
        except Local2Error as error:
            data, headers = error_answer(error, source=NAME)
        except Exception:
            log.exception("backup_not_begun")
            data, headers = error_answer(Local2Error(FAULT), source=NAME)
        if message.reply:
            await self.bus.publish(message.reply, data, headers=headers)
