"""Serves exports and imports, page by page."""

from collections import OrderedDict

from local.admission import Admission
from local.agents.services import MemoryServices
from local.bus.connection import Connection
from local.errors import BadRequestError, TooLargeError
from local.memory.service import MemoryService
from local.memory.tenant import Memories
from local.protocol import subjects
from local.protocol.envelope import Caller
from local.protocol.maintenance import ExportPage, ExportRequest, ImportReport, ImportRequest

NAME = "porter"
LONGEST_LINE = 32_000_000
"""Bytes of a line that comes in pieces."""
TRANSFERS = 4
"""Lines that come in pieces at once; beyond, the one that began longest ago is given up."""


class Porter(MemoryServices):
    """Serves `memory.export` and `memory.import`."""

    def __init__(
        self, bus: Connection, memories: Memories, admission: Admission | None = None
    ) -> None:
        described = "Exports memories, and imports them."
        super().__init__(bus, memories, admission, name=NAME, description=described)
        self._pieces = Pieces()
        self.answer_from_memory(subjects.MEMORY_EXPORT, ExportRequest, _export, "export")
        self.answer_from_memory(subjects.MEMORY_IMPORT, ImportRequest, self._import, "import")

    async def _import(self, memory: MemoryService, ask: ImportRequest) -> ImportReport:
        lines = [bytes(line) for line in ask.lines]
        if ask.transfer:
            line = self._pieces.add(ask, memory.caller)
            if line is None:
                return ImportReport()
            lines = [line]
        return await memory.portability.import_lines(lines, number=ask.number, dry_run=ask.dry_run)


async def _export(memory: MemoryService, ask: ExportRequest) -> ExportPage:
    return await memory.portability.export(ask)


class Pieces:
    """Lines too long for a message, until their last piece has come."""

    def __init__(self) -> None:
        self._begun: OrderedDict[tuple[object, str], list[bytes]] = OrderedDict()

    def add(self, ask: ImportRequest, caller: Caller) -> bytes | None:
        """Take the next piece of a line; the line, once it is whole.

        Raises:
            BadRequestError: A piece before it is missing.
            TooLargeError: The line is too long.
        """
        transfer = caller.principal, ask.transfer
        pieces = self._begun.pop(transfer, [])
        if len(pieces) != ask.part:
            raise BadRequestError(
                f"Line {ask.number}: its piece {len(pieces)} is missing.",
                remedy="Import the file again: nothing is stored twice.",
            )
        pieces.append(ask.piece)
        if sum(map(len, pieces)) > LONGEST_LINE:
            raise TooLargeError(f"Line {ask.number} has more than {LONGEST_LINE:,} bytes.")
        if not ask.cut:
            return b"".join(pieces)
        self._begun[transfer] = pieces
        if len(self._begun) > TRANSFERS:
            self._begun.popitem(last=False)
        return None
