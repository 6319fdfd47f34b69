"""The memory's services besides its tools: items, export, status, outputs, dead letters, backups.

They are not tools, because a tool's result is published to everybody; a service answers only its
caller. Most services use the same admission control as tools. Dead letters are read through the
memory, because with accounts only the memory may use JetStream.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from msgspec import Raw

from local2.admission import Admission
from local2.agents.health import StatusReader, TurnsProblem
from local2.backup.schedule import Backups
from local2.bus.connection import HEADER_OVERHEAD, BusMessage, Connection
from local2.bus.participant import Participant
from local2.bus.stream_messages import drop_letter, letter_at, next_letter
from local2.bus.streams import shortened
from local2.errors import BadRequestError, Local2Error, TooLargeError
from local2.memory.service import MemoryService
from local2.memory.tenant import Memories, Memory
from local2.protocol import subjects
from local2.protocol.envelope import Caller, Envelope, decode, encode, seal
from local2.protocol.items import DeleteItems, GetItems, ListNamespaces, PutItems, SearchItems
from local2.protocol.maintenance import (
    BackupRequest,
    BackupStatus,
    ExportPage,
    ExportRequest,
    ImportReport,
    ImportRequest,
    LetterFound,
    LetterRequest,
    MemoryStatus,
    Reindex,
    StoredLetter,
)
from local2.protocol.payloads import OutputPart, ToolResult
from local2.protocol.portable import MAX_LINE_BYTES
from local2.protocol.vectors import WorkerReady

P = TypeVar("P")
MAX_TRANSFERS = 4
"""Maximum number of lines that are being received in pieces; beyond it, the least recently
continued one is dropped."""
OUTPUT_KEEPER = "output_keeper"
READ, WRITE = "read_items", "write_items"
"""The actions that the caller's role must permit."""


class MemoryServices(Participant):
    """Base of participants that answer requests from the caller's memory."""

    def __init__(
        self,
        bus: Connection,
        memories: Memories,
        admission: Admission | None,
        *,
        name: str,
        description: str,
    ) -> None:
        super().__init__(bus, name=name, description=description)
        self._memories = memories
        self._admission = admission or Admission()

    def answer_from_memory(
        self,
        subject: str,
        payload: type[P],
        function: Callable[[MemoryService, P], Awaitable[msgspec.Struct]],
        action: str,
    ) -> None:
        """Answer requests on a subject with `function`, if the caller's role permits the action."""

        async def handle(message: BusMessage) -> msgspec.Struct:
            envelope = decode(message.data, payload)
            caller = self.bus.identity.caller_of(message, envelope)
            with self._admission.admitted(caller.principal, message.data):
                async with self._admission.slot(caller.principal):
                    memory = await self._memories.admit(caller, action)
                    return await function(memory, envelope.payload)

        self.answer(subject, handle, limit=None)


class ItemKeeper(MemoryServices):
    """Serves `memory.items.*`."""

    def __init__(
        self, bus: Connection, memories: Memories, admission: Admission | None = None
    ) -> None:
        description = "Stores items of frameworks exactly."
        super().__init__(bus, memories, admission, name="item_keeper", description=description)
        serve = self.answer_from_memory
        serve(subjects.MEMORY_ITEMS_PUT, PutItems, lambda m, ask: m.items.put(ask), WRITE)
        serve(subjects.MEMORY_ITEMS_DELETE, DeleteItems, lambda m, ask: m.items.delete(ask), WRITE)
        serve(subjects.MEMORY_ITEMS_GET, GetItems, lambda m, ask: m.items.get(ask), READ)
        serve(subjects.MEMORY_ITEMS_SEARCH, SearchItems, lambda m, ask: m.items.search(ask), READ)
        listing = subjects.MEMORY_ITEMS_LIST
        serve(listing, ListNamespaces, lambda m, ask: m.items.namespaces(ask), READ)


class Porter(MemoryServices):
    """Serves `memory.export` and `memory.import`."""

    def __init__(
        self, bus: Connection, memories: Memories, admission: Admission | None = None
    ) -> None:
        description = "Exports memories, and imports them."
        super().__init__(bus, memories, admission, name="porter", description=description)
        self._partial_lines = PartialLines()
        self.answer_from_memory(subjects.MEMORY_EXPORT, ExportRequest, _export, "export")
        self.answer_from_memory(subjects.MEMORY_IMPORT, ImportRequest, self._import, "import")

    async def _import(self, memory: MemoryService, ask: ImportRequest) -> ImportReport:
        lines = [bytes(line) for line in ask.lines]
        if ask.transfer:
            line = self._partial_lines.add(ask, memory.caller)
            if line is None:
                return ImportReport()
            lines = [line]
        return await memory.portability.import_lines(lines, number=ask.number, dry_run=ask.dry_run)


async def _export(memory: MemoryService, ask: ExportRequest) -> ExportPage:
    return await memory.portability.export(ask)


class PartialLines:
    """Lines that are too long for one message, until their last piece has arrived."""

    def __init__(self) -> None:
        self._pieces_by_transfer: OrderedDict[tuple[object, str], list[bytes]] = OrderedDict()

    def add(self, ask: ImportRequest, caller: Caller) -> bytes | None:
        """Add the next piece of a line; return the line once it is whole.

        Raises:
            BadRequestError: An earlier piece is missing.
            TooLargeError: The line is too long.
        """
        transfer = caller.principal, ask.transfer
        pieces = self._pieces_by_transfer.pop(transfer, [])
        if len(pieces) != ask.part:
            raise BadRequestError(
                f"Line {ask.number}: piece {len(pieces)} is missing.",
                remedy="Import the file again: nothing is stored twice.",
            )
        pieces.append(ask.piece)
        if sum(map(len, pieces)) > MAX_LINE_BYTES:
            raise TooLargeError(f"Line {ask.number} has more than {MAX_LINE_BYTES:,} bytes.")
        if not ask.cut:
            return b"".join(pieces)
        self._pieces_by_transfer[transfer] = pieces
        if len(self._pieces_by_transfer) > MAX_TRANSFERS:
            self._pieces_by_transfer.popitem(last=False)
        return None


class Housekeeper(Participant):
    """Serves `memory.status` and `memory.reindex`; receives vector workers' announcements."""

    def __init__(
        self,
        bus: Connection,
        memories: Memories,
        turns_problem: TurnsProblem = lambda: None,
    ) -> None:
        super().__init__(
            bus, name="housekeeper", description="Keeps the vector index equal to the ledger."
        )
        self._memories = memories
        self._turns_problem = turns_problem
        self.answer(subjects.MEMORY_STATUS, self._answer_status, type="status")
        self.answer(subjects.MEMORY_REINDEX, self._reindex, type="status")
        self.serve(subjects.VECTOR_READY, self._worker_started, inner=True)

    async def _worker_started(self, message: BusMessage) -> None:
        self._memories.worker_started(decode(message.data, WorkerReady).payload.worker)

    async def _answer_status(self, message: BusMessage) -> MemoryStatus:
        return await self._status(await self._memory(message, "status"))

    async def _reindex(self, message: BusMessage) -> MemoryStatus:
        """Start a reindex; if that fails, the status contains the reason."""
        memory = await self._memory(message, "reindex")
        embedder = decode(message.data, Reindex).payload.embedder if message.data else None
        try:
            if embedder is None:
                await memory.indexer.rebuild()
            else:
                await memory.reembedding.begin(embedder)
        except Local2Error as error:
            return await self._status(memory, str(error))
        return await self._status(memory)

    async def _memory(self, message: BusMessage, action: str) -> Memory:
        envelope = decode(message.data, Raw) if message.data else Envelope(payload=Raw())
        caller = self.bus.identity.caller_of(message, envelope)
        await self._memories.admit(caller, action)
        return self._memories.tenant(caller.tenant)

    async def _status(self, memory: Memory, problem: str | None = None) -> MemoryStatus:
        return await StatusReader(self.bus, memory, self._turns_problem).read(problem)


class OutputKeeper(Participant):
    """Serves `memory.output.keep`; its acknowledgement means that the part is on disk."""

    def __init__(
        self, bus: Connection, memories: Memories, admission: Admission | None = None
    ) -> None:
        super().__init__(bus, name=OUTPUT_KEEPER, description="Keeps long tool outputs whole.")
        self._memories = memories
        self._admission = admission or Admission()
        self.serve(subjects.MEMORY_OUTPUT_KEEP, self._store_part, queue=OUTPUT_KEEPER, limit=None)

    async def _store_part(self, message: BusMessage) -> None:
        try:
            envelope = decode(message.data, OutputPart)
            caller = self.bus.identity.caller_of(message, envelope)
            owner = caller.principal
            with self._admission.admitted(owner, message.data):
                async with self._admission.slot(owner):
                    memory = await self._memories.admit(caller, "turn")
                    await memory.outputs.store_part(envelope.payload)
        except Local2Error as error:
            result = ToolResult.failed(error)
        else:
            result = ToolResult(ok=True, content="Stored.")
        await self.acknowledge(message, result)


class LetterKeeper(Participant):
    """Serves `memory.dead_letters`."""

    def __init__(self, bus: Connection, memories: Memories) -> None:
        super().__init__(bus, name="letter_keeper", description="Returns and drops dead letters.")
        self._memories = memories
        self.answer(subjects.MEMORY_DEAD_LETTERS, self._find_letter)

    async def _find_letter(self, message: BusMessage) -> LetterFound:
        return self._fit(LetterFound(found=await self._read_letter(message)))

    async def _read_letter(self, message: BusMessage) -> StoredLetter | None:
        envelope = decode(message.data, LetterRequest)
        caller = self.bus.identity.caller_of(message, envelope)
        await self._memories.admit(caller, "dead_letters")
        number, tenant = envelope.payload.number, caller.tenant
        if envelope.payload.action == "next":
            return await next_letter(self.bus, max(number, 1), tenant)
        stored = await letter_at(self.bus, number, tenant)
        if envelope.payload.action == "drop":
            await drop_letter(self.bus, number, tenant)
        return stored

    def _fit(self, answer: LetterFound) -> LetterFound:
        """Return the answer, with its letter shortened if it is too large for the bus."""
        limit = self.bus.client.max_payload - HEADER_OVERHEAD
        while answer.found is not None and (size := self._size(answer)) > limit:
            letter = shortened(answer.found.letter, limit / size)
            answer = LetterFound(found=msgspec.structs.replace(answer.found, letter=letter))
        return answer

    def _size(self, answer: LetterFound) -> int:
        return len(encode(seal(answer, type="answer", source=self.name)))


class Archivist(Participant):
    """Serves `memory.backup` for the operator; a backup covers every tenant's memories."""

    def __init__(self, bus: Connection, backups: Backups) -> None:
        super().__init__(bus, name="archivist", description="Makes backups of the whole memory.")
        self._backups = backups
        self.answer(subjects.MEMORY_BACKUP, self._status, type="status", tenant=None)

    async def _status(self, message: BusMessage) -> BackupStatus:
        request = decode(message.data, BackupRequest).payload if message.data else None
        if request is not None and request.folder is not None:
            self._backups.begin(request)
        return await self._backups.status()
