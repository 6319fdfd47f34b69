"""Exporting and importing memories over the bus, page by page."""

from local.bus.connection import Connection
from local.client.asking import ask
from local.protocol import subjects
from local.protocol.envelope import Sender
from local.protocol.portable import ExportPage, ExportRequest, ImportReport, ImportRequest

PATIENCE = 60.0
"""Seconds for a page, which may wait behind other work."""


async def export_page(bus: Connection, wanted: ExportRequest, caller: Sender) -> ExportPage:
    """The next page of an export.

    Raises:
        InvalidArgumentsError: The scope needs an identity that the caller lacks.
        BusError: Nobody answers, or not with a page.
    """
    return await ask(bus, subjects.MEMORY_EXPORT, wanted, ExportPage, caller, timeout=PATIENCE)


async def import_lines(bus: Connection, wanted: ImportRequest, caller: Sender) -> ImportReport:
    """Have lines stored, all or none.

    Raises:
        BadRequestError: A line was refused.
        BusError: Nobody answers, or nothing could be stored.
    """
    return await ask(bus, subjects.MEMORY_IMPORT, wanted, ImportReport, caller, timeout=PATIENCE)
