"""Exporting and importing memories over the bus, page by page."""

from typing import TypeVar

import msgspec

from local.bus.connection import Connection
from local.bus.participant import ERROR_CODE
from local.errors import BadRequestError, BusError, InvalidArgumentsError, Local2Error, StorageError
from local.protocol import subjects
from local.protocol.envelope import Sender, decode, encode, seal
from local.protocol.payloads import ErrorReply
from local.protocol.portable import ExportPage, ExportRequest, ImportReport, ImportRequest

PATIENCE = 60.0
"""Seconds for a page, which may wait behind other work."""

T = TypeVar("T")


async def export_page(bus: Connection, ask: ExportRequest, caller: Sender) -> ExportPage:
    """The next page of an export.

    Raises:
        InvalidArgumentsError: The scope needs an identity that the caller lacks.
        BusError: Nobody answers, or not with a page.
    """
    return await _ask(bus, subjects.MEMORY_EXPORT, ask, ExportPage, caller)


async def import_lines(bus: Connection, ask: ImportRequest, caller: Sender) -> ImportReport:
    """Have lines stored, all or none.

    Raises:
        BadRequestError: A line was refused.
        BusError: Nobody answers, or nothing could be stored.
    """
    return await _ask(bus, subjects.MEMORY_IMPORT, ask, ImportReport, caller)


async def _ask(
    bus: Connection, subject: str, payload: msgspec.Struct, into: type[T], caller: Sender
) -> T:
    request = seal(
        payload,
        type="request",
        source=caller.agent or "client",
        user=caller.user,
        session_id=caller.session_id,
    )
    answer = await bus.request(subject, encode(request), timeout=PATIENCE)
    code = (answer.headers or {}).get(ERROR_CODE)
    if code is None:
        return decode(answer.data, into).payload
    problem = decode(answer.data, ErrorReply).payload.message
    raise _ERRORS.get(code, BusError)(problem)


_ERRORS: dict[str, type[Local2Error]] = {
    error.code: error for error in (BadRequestError, InvalidArgumentsError, StorageError)
}
