"""What the memory serves besides its tools: items, exports, status, outputs, letters, backups.

These are no tools, because the result of a tool goes to everybody: here only the caller is
answered. Callers are admitted like those of tools. Dead letters are read through the memory, since
JetStream is its own: on a server with accounts no tenant reads from it.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import TypeVar

import msgspec
from msgspec import Raw

from local.admission import Admission
from local.agents.health import StatusReader, TurnsProblem
from local.backup.schedule import Backups
from local.bus.connection import BusMessage, Connection
from local.bus.participant import Participant
from local.bus.stream_messages import drop_letter, letter_at, next_letter
from local.bus.streams import shortened
from local.errors import BadRequestError, Local2Error, TooLargeError
from local.memory.service import MemoryService
from local.memory.tenant import Memories, Memory
from local.protocol import subjects
from local.protocol.envelope import Caller, Envelope, decode, encode, seal
from local.protocol.items import DeleteItems, GetItems, ListNamespaces, PutItems, SearchItems
from local.protocol.maintenance import (
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
from local.protocol.payloads import OutputPart, ToolResult
from local.protocol.vectors import WorkerReady

P = TypeVar("P")
LONGEST_LINE = 32_000_000
"""Bytes of a line that comes in pieces."""
TRANSFERS = 4
"""Lines in pieces at the same time; beyond, the one that began longest ago is dropped."""
OUTPUT_KEEPER = "output_keeper"
READS, WRITES = "read_items", "write_items"
"""The actions that a role must permit."""


class MemoryServices(Participant):
    """Serves subjects from the caller's memory."""

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
        """Answer requests that carry such a payload, from callers whose role permits the action."""

        async def answered(message: BusMessage) -> msgspec.Struct:
            envelope = decode(message.data, payload)
            caller = self.bus.identity.caller_of(message, envelope)
            with self._admission.admitted(caller.principal, message.data):
                async with self._admission.slot(caller.principal):
                    memory = await self._memories.admitted(caller, action)
                    return await function(memory, envelope.payload)

        self.answer(subject, answered, limit=None)


class ItemKeeper(MemoryServices):
    """Serves `memory.items.*`."""

    def __init__(
        self, bus: Connection, memories: Memories, admission: Admission | None = None
    ) -> None:
        described = "Stores items of frameworks exactly."
        super().__init__(bus, memories, admission, name="item_keeper", description=described)
        serve = self.answer_from_memory
        serve(subjects.MEMORY_ITEMS_PUT, PutItems, lambda m, ask: m.items.put(ask), WRITES)
        serve(subjects.MEMORY_ITEMS_DELETE, DeleteItems, lambda m, ask: m.items.delete(ask), WRITES)
        serve(subjects.MEMORY_ITEMS_GET, GetItems, lambda m, ask: m.items.get(ask), READS)
        serve(subjects.MEMORY_ITEMS_SEARCH, SearchItems, lambda m, ask: m.items.search(ask), READS)
        listing = subjects.MEMORY_ITEMS_LIST
        serve(listing, ListNamespaces, lambda m, ask: m.items.namespaces(ask), READS)


class Porter(MemoryServices):
    """Serves `memory.export` and `memory.import`."""

    def __init__(
        self, bus: Connection, memories: Memories, admission: Admission | None = None
    ) -> None:
        described = "Exports memories, and imports them."
        super().__init__(bus, memories, admission, name="porter", description=described)
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
        """Add the next piece of a line; return the line once it is whole.

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


class Housekeeper(Participant):
    """Serves `memory.status` and `memory.reindex`; learns when a vector worker has started."""

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
        self.answer(subjects.MEMORY_STATUS, self._report, type="status")
        self.answer(subjects.MEMORY_REINDEX, self._reindex, type="status")
        self.serve(subjects.VECTOR_READY, self._worker_started, inner=True)

    async def _worker_started(self, message: BusMessage) -> None:
        self._memories.worker_started(decode(message.data, WorkerReady).payload.worker)

    async def _report(self, message: BusMessage) -> MemoryStatus:
        return await self._status(await self._memory(message, "status"))

    async def _reindex(self, message: BusMessage) -> MemoryStatus:
        """Start a reindex; the status has the reason if it was not started."""
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
        await self._memories.admitted(caller, action)
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
                    memory = await self._memories.admitted(caller, "turn")
                    await memory.outputs.store_part(envelope.payload)
        except Local2Error as error:
            result = ToolResult.failed(error)
        else:
            result = ToolResult(ok=True, content="Kept.")
        await self.acknowledge(message, result)


class LetterKeeper(Participant):
    """Serves `memory.dead_letters`."""

    def __init__(self, bus: Connection, memories: Memories) -> None:
        super().__init__(bus, name="letter_keeper", description="Shows what nobody could read.")
        self._memories = memories
        self.answer(subjects.MEMORY_DEAD_LETTERS, self._found)

    async def _found(self, message: BusMessage) -> LetterFound:
        return self._fitting(LetterFound(found=await self._letter(message)))

    async def _letter(self, message: BusMessage) -> StoredLetter | None:
        envelope = decode(message.data, LetterRequest)
        caller = self.bus.identity.caller_of(message, envelope)
        await self._memories.admitted(caller, "dead_letters")
        number, tenant = envelope.payload.number, caller.tenant
        if envelope.payload.action == "next":
            return await next_letter(self.bus, max(number, 1), tenant)
        stored = await letter_at(self.bus, number, tenant)
        if envelope.payload.action == "drop":
            await drop_letter(self.bus, number, tenant)
        return stored

    def _fitting(self, answer: LetterFound) -> LetterFound:
        """Return the letter with its number, or its beginning if the bus does not carry it."""
        most = self.bus.client.max_payload
        while answer.found is not None and (size := self._size(answer)) > most:
            letter = shortened(answer.found.letter, most / size)
            answer = LetterFound(found=msgspec.structs.replace(answer.found, letter=letter))
        return answer

    def _size(self, answer: LetterFound) -> int:
        return len(encode(seal(answer, type="answer", source=self.name)))


class Archivist(Participant):
    """Serves `memory.backup` for the operator: a backup has every tenant's memories."""

    def __init__(self, bus: Connection, backups: Backups) -> None:
        super().__init__(bus, name="archivist", description="Makes backups of the whole memory.")
        self._backups = backups
        self.answer(subjects.MEMORY_BACKUP, self._status, type="status", tenant=None)

    async def _status(self, message: BusMessage) -> BackupStatus:
        request = decode(message.data, BackupRequest).payload if message.data else None
        if request is not None and request.folder is not None:
            self._backups.begin(request)
        return await self._backups.status()
