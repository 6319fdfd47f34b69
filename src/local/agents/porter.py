"""Serves exports and imports: page by page, to whoever asked and nobody else.

They are no tools, whose results go to everybody.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec

from local.admission import Admission
from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant
from local.errors import BadRequestError, TooLargeError
from local.memory.service import MemoryService
from local.memory.tenant import Memories
from local.protocol import subjects
from local.protocol.envelope import Caller, decode
from local.protocol.portable import ExportPage, ExportRequest, ImportReport, ImportRequest

NAME = "porter"
LONGEST_LINE = 32_000_000
"""Bytes of a line that comes in pieces."""
TRANSFERS = 4
"""Lines that come in pieces at once; beyond, the one that began longest ago is given up."""

P = TypeVar("P")


class Porter(Participant):
    """Serves `memory.export` and `memory.import`."""

    def __init__(
        self, bus: Connection, memories: Memories, admission: Admission | None = None
    ) -> None:
        super().__init__(bus, name=NAME, description="Exports memories, and imports them.")
        self._memories = memories
        self._admission = admission or Admission()
        self._pieces = Pieces()
        self._answer_with(subjects.MEMORY_EXPORT, ExportRequest, _export, "export")
        self._answer_with(subjects.MEMORY_IMPORT, ImportRequest, self._import, "import")

    def _answer_with(
        self,
        subject: str,
        payload: type[P],
        function: Callable[[MemoryService, P], Awaitable[msgspec.Struct]],
        action: str,
    ) -> None:
        async def answered(message: BusMessage) -> msgspec.Struct:
            envelope = decode(message.data, payload)
            caller = self.bus.identity.caller_of(message, envelope)
            with self._admission.admitted(caller.principal, message.data):
                async with self._admission.slot(caller.principal):
                    memory = await self._memories.admitted(caller, action)
                    return await function(memory, envelope.payload)

        self.answer(subject, answered, limit=None)

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
