"""Asking the running stack for a backup, over the bus."""

from local.bus.connection import Connection
from local.bus.participant import ERROR_CODE
from local.errors import BackupError
from local.protocol import subjects
from local.protocol.backups import BackupRequest, BackupStatus
from local.protocol.envelope import decode, encode, seal
from local.protocol.payloads import ErrorReply


async def begin_backup(bus: Connection, request: BackupRequest) -> BackupStatus:
    """Begin one; without a folder, only ask how far it is.

    Raises:
        BackupError: It was refused.
        BusError: Nobody answers.
    """
    ask = encode(seal(request, type="request", source="client"))
    answer = await bus.request(subjects.MEMORY_BACKUP, ask)
    if ERROR_CODE in (answer.headers or {}):
        raise BackupError(decode(answer.data, ErrorReply).payload.message)
    return decode(answer.data, BackupStatus).payload


async def backup_status(bus: Connection) -> BackupStatus:
    """How far the one under way is, and what became of the one before.

    Raises:
        BackupError: That cannot be said.
        BusError: Nobody answers.
    """
    return await begin_backup(bus, BackupRequest())
