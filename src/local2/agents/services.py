"""The memory's services besides its tools: items, export, status, outputs, dead letters, backups.

They are not tools, because a tool's result is published to everybody; a service answers only its
caller. `SERVICES`, at the end, lists the function that answers each declared service
(`protocol/services.py`). `ServiceHost` serves the services of one name on the bus.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, suppress
from functools import partial
from typing import Any, Generic, Literal, TypeVar, cast

import msgspec
import structlog
from msgspec import Raw

from local2.admission import Admission
from local2.agents.findings import (
    LOOKED_AT,
    LanguagesSeen,
    check_backups,
    check_disk,
    check_languages,
    findings_of,
)
from local2.agents.health import TurnsProblem, status_of
from local2.backup.service import Backups
from local2.bounded_dict import BoundedDict
from local2.bus.connection import (
    CONCURRENT_MESSAGES,
    HEADER_OVERHEAD,
    BusMessage,
    Connection,
)
from local2.bus.dead_letters import (
    delete_letter,
    next_letter,
    publish_again,
    read_letter,
    shortened,
)
from local2.bus.participant import Participant
from local2.bus.running_calls import RunningCalls
from local2.errors import (
    BadRequestError,
    ConfigError,
    ForbiddenError,
    Local2Error,
    StorageError,
    TooLargeError,
)
from local2.memory.service import MemoryService
from local2.memory.tenant import Memories, Memory
from local2.protocol import services as declared
from local2.protocol import subjects
from local2.protocol.browsing import Rights
from local2.protocol.envelope import Caller, Envelope, decode, encode, seal, utc_now
from local2.protocol.maintenance import (
    BackupRequest,
    BackupStatus,
    Findings,
    ImportReport,
    ImportRequest,
    LetterFound,
    LetterRequest,
    MemoryStatus,
    Reindex,
    TenantAgent,
    TenantReport,
    VerificationRequest,
)
from local2.protocol.payloads import Empty, OutputPart, ToolResult
from local2.protocol.portable import MAX_LINE_BYTES
from local2.protocol.services import ServiceDeclaration
from local2.protocol.tool import with_suggestion
from local2.protocol.vectors import WorkerReady
from local2.settings import LimitSettings
from local2.tenants.credentials import rotate_token_key
from local2.tenants.directory import Directory, Entries

P = TypeVar("P")
A = TypeVar("A", bound=msgspec.Struct)
log = structlog.get_logger()

MAX_TRANSFERS = 4
"""Maximum number of lines that are being received in pieces; beyond it, the least recently
continued one is dropped."""
LETTER_KEEPER = "letter_keeper"


class PartialLines:
    """Lines that are too long for one message, until their last piece has arrived."""

    def __init__(self) -> None:
        self._pieces_by_transfer = BoundedDict[tuple[object, str], list[bytes]](MAX_TRANSFERS)

    def add_piece(self, ask: ImportRequest, caller: Caller) -> bytes | None:
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
        return None


class ServiceParts(msgspec.Struct, frozen=True, kw_only=True):
    """What services use besides the caller's memory; `directory`: None without accounts."""

    bus: Connection
    memories: Memories
    backups: Backups
    admission: Admission = msgspec.field(default_factory=Admission)
    turns_problem: TurnsProblem = lambda: None
    limits: LimitSettings = LimitSettings()
    directory: Directory | None = None
    partial_lines: PartialLines = msgspec.field(default_factory=PartialLines)
    languages: dict[str, LanguagesSeen] = msgspec.field(default_factory=dict)
    """What was last found about the languages of each tenant."""


class Request(msgspec.Struct, Generic[P], frozen=True, kw_only=True):
    """A request to a service; `memory` is the memory as seen by its caller."""

    payload: P
    memory: MemoryService
    parts: ServiceParts

    @property
    def tenant(self) -> str:
        return self.memory.caller.tenant

    @property
    def tenant_memory(self) -> Memory:
        """The whole memory of the caller's tenant."""
        return self.parts.memories.of_tenant(self.tenant)


class Service(msgspec.Struct, Generic[P, A], frozen=True):
    """Answers requests with `function`, if the caller's role permits the action."""

    declared: ServiceDeclaration[P, A]
    function: Callable[[Request[P]], Awaitable[A]]


class OperatorService(msgspec.Struct, Generic[P, A], frozen=True):
    """Answers the operator's requests with `function`; they concern the memories of all tenants."""

    declared: ServiceDeclaration[P, A]
    function: Callable[[P, ServiceParts], Awaitable[A]]


class Announcement(msgspec.Struct, Generic[P], frozen=True):
    """Gives `function` what the stack's own processes announce; nobody else may."""

    subject: str
    payload: type[P]
    function: Callable[[P, ServiceParts], None]


class ServiceGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Services with one name on the bus, which is also their queue group.

    `type`: the type of the answers. A "status" may be requested without data. A "result" is a
    ToolResult, even after an error, and is sent only if the caller waits for it.
    `slots`: whether requests wait for slots of their users, as those to tools do; otherwise only
    the number that is served at once is limited.
    """

    name: str
    description: str
    services: Sequence[Service[Any, Any] | OperatorService[Any, Any] | Announcement[Any]]
    type: Literal["answer", "status", "result"] = "answer"
    slots: bool = True


class ServiceHost(Participant):
    """Serves the services of one group."""

    def __init__(self, group: ServiceGroup, parts: ServiceParts) -> None:
        super().__init__(parts.bus, name=group.name, description=group.description)
        self._group = group
        self._parts = parts
        self._running = RunningCalls(self)
        self._running.tell_on(subjects.MEMORY_RUNNING)
        limit = None if group.slots else CONCURRENT_MESSAGES
        for service in group.services:
            match service:
                case Announcement(subject=subject):
                    self.serve(subject, partial(self._receive, service), inner=True)
                case OperatorService(declared=ServiceDeclaration(subject=subject)):
                    answer = partial(self._answer_operator, service)
                    self.answer(subject, answer, type=group.type, tenant=None)
                case Service(declared=ServiceDeclaration(subject=subject)):
                    if group.type == "result":
                        acknowledge = partial(self._acknowledge, service)
                        self.serve(subject, acknowledge, queue=group.name, limit=limit)
                    else:
                        answer = partial(self._answer, service)
                        self.answer(subject, answer, type=group.type, limit=limit)

    async def _answer(self, service: Service[P, A], message: BusMessage) -> A:
        parts = self._parts
        # Only who may make the request learns what is wrong with its payload.
        envelope = self._decode(message, Raw)
        caller = self.bus.identity.caller_of(message, envelope)
        async with AsyncExitStack() as admitted:
            admitted.enter_context(self._running.cancellable(caller, envelope.id))
            if self._group.slots:
                admission = parts.admission
                admitted.enter_context(admission.admitted(caller.principal, message.data))
                await admitted.enter_async_context(admission.slot(caller.principal))
            memory = await parts.memories.admit(caller, service.declared.action)
            payload = self._decode(message, service.declared.request).payload
            request = Request(payload=payload, memory=memory, parts=parts)
            return await service.function(request)

    async def _acknowledge(self, service: Service[P, ToolResult], message: BusMessage) -> None:
        try:
            result = await self._answer(service, message)
        except Local2Error as error:
            result = ToolResult.failed(error)
        except Exception:
            log.exception("request_failed", subject=message.subject)
            fault = Local2Error(f"The {self.name} failed; its log says where.")
            result = ToolResult.failed(fault)
        await self.acknowledge(message, result)

    async def _answer_operator(self, service: OperatorService[P, A], message: BusMessage) -> A:
        return await service.function(
            self._decode(message, service.declared.request).payload, self._parts
        )

    async def _receive(self, announcement: Announcement[P], message: BusMessage) -> None:
        announcement.function(decode(message.data, announcement.payload).payload, self._parts)

    def _decode(self, message: BusMessage, payload: type[P]) -> Envelope[P]:
        if self._group.type == "status" and not message.data:
            return Envelope(payload=payload())
        try:
            return decode(message.data, payload)
        except BadRequestError as error:
            raise with_suggestion(error, cast("type[msgspec.Struct]", payload)) from error


async def import_lines(request: Request[ImportRequest]) -> ImportReport:
    ask, memory = request.payload, request.memory
    lines = [bytes(line) for line in ask.lines]
    if ask.transfer:
        line = request.parts.partial_lines.add_piece(ask, memory.caller)
        if line is None:
            return ImportReport()
        lines = [line]
    return await memory.portability.import_lines(lines, number=ask.number, dry_run=ask.dry_run)


async def say_rights(request: Request[Empty]) -> Rights:
    caller = request.memory.caller
    actions = request.parts.memories.permitted_actions(caller)
    return Rights(
        tenant=caller.tenant,
        user=caller.user,
        role=caller.role,
        actions=None if actions is None else sorted(actions),
    )


async def start_reindex(request: Request[Reindex]) -> MemoryStatus:
    """Start a reindex; if that fails, the status contains the reason."""
    memory = request.tenant_memory
    embedder = request.payload.embedder
    try:
        if embedder is None:
            await memory.indexer.rebuild()
        elif len(list(request.parts.memories)) > 1:
            raise ConfigError(
                "One embedder serves all tenants: none of them changes it for the others.",
                remedy="Name it as `embedder` in config/memory.yaml, and rebuild the index of each "
                "tenant.",
            )
        else:
            await memory.reembedding.begin(embedder)
    except Local2Error as error:
        return await read_status(request, str(error))
    return await read_status(request)


async def read_status(request: Request[Any], problem: str | None = None) -> MemoryStatus:
    parts = request.parts
    return await status_of(parts.bus, request.tenant_memory, parts.turns_problem, problem)


def compare_indexes(started: WorkerReady, parts: ServiceParts) -> None:
    """Let every memory compare its index with the ledger: a vector worker has started.

    If it could not open the index, the memories report why.
    """
    if started.problem is None:
        parts.memories.worker_started(started.worker)
        return
    for memory in parts.memories:
        memory.indexer.worker_failed(started.problem)


async def store_output_part(request: Request[OutputPart]) -> ToolResult:
    """Store a part of a long output; the result means that it is on disk."""
    await request.memory.outputs.store_part(request.payload)
    return ToolResult(ok=True, content="Stored.")


async def find_letter(request: Request[LetterRequest]) -> LetterFound:
    """Find a dead letter, and publish it again or drop it, if that is asked for.

    With accounts, only the memory may use JetStream for that.
    """
    bus, ask, tenant = request.parts.bus, request.payload, request.tenant
    if ask.action == "next":
        answer = LetterFound(found=await next_letter(bus, ask.number, tenant))
    else:
        stored = await read_letter(bus, ask.number, tenant)
        if ask.action == "retry":
            await publish_again(bus, stored, tenant, request.memory.caller.token)
        if ask.action in {"retry", "drop"}:
            await delete_letter(bus, ask.number, tenant)
        answer = LetterFound(found=stored)
    limit = bus.client.max_payload - HEADER_OVERHEAD
    # How much a shorter letter takes in JSON depends on its characters.
    while answer.found is not None:
        size = len(encode(seal(answer, type="answer", source=LETTER_KEEPER)))
        if size <= limit:
            break
        letter = shortened(answer.found.letter, limit / size)
        answer = LetterFound(found=msgspec.structs.replace(answer.found, letter=letter))
    return answer


async def find_problems(request: Request[Empty]) -> Findings:
    parts = request.parts
    memory = request.tenant_memory
    settings = memory.settings
    status = await read_status(request)
    found = [*findings_of(status, settings)]
    with suppress(StorageError):  # the status reports it
        seen = parts.languages.get(request.tenant)
        known = seen.version if seen is not None and seen.embedder == status.embedder else None
        said = await memory.ledger.records.some_said(LOOKED_AT, known)
        if said is not None:
            checked = await asyncio.to_thread(check_languages, said.texts, status.embedder)
            seen = LanguagesSeen(said.version, status.embedder, checked)
            parts.languages[request.tenant] = seen
        if seen is not None:
            found += seen.found
    on_server: int | None = None
    with suppress(StorageError):
        on_server = await memory.ledger.server_bytes()
    found.append(await asyncio.to_thread(check_disk, settings, on_server))
    if not parts.bus.by_tenant:  # they are of all tenants
        found.append(check_backups(await parts.backups.status(), settings))
    return Findings(status=status, findings=found)


async def report_tenant(request: Request[Empty]) -> TenantReport:
    parts = request.parts
    usage = await request.tenant_memory.ledger.records.usage()
    report = TenantReport(
        tenant=request.tenant,
        records=usage.records,
        bytes=usage.bytes,
        max_records=parts.limits.tenant_records,
        max_bytes=parts.limits.tenant_bytes,
    )
    if parts.directory is None:
        return report
    entries = await asyncio.to_thread(Entries.read, parts.directory.folder)
    entry = entries.tenants.get(request.tenant) if entries is not None else None
    if entry is None:
        raise ForbiddenError(f"The tenant {request.tenant} was removed.")
    return msgspec.structs.replace(
        report,
        agents=[
            TenantAgent(name=name, role=agent.role, answers=agent.answers)
            for name, agent in entry.agents.items()
        ],
        token_keys=[key.id for key in entry.tokens],
        shares=entry.shares,
    )


async def rotate_tokens(request: Request[Empty]) -> TenantReport:
    """Make another key for tokens; its private part stays on the stack's machine."""
    directory = request.parts.directory
    if directory is None:
        raise BadRequestError(
            "The memory has no accounts.", remedy="`local2 tenants init` creates them."
        )
    if len(await request.tenant_memory.ledger.live_stacks()) > 1:
        # The others would refuse what is signed with a key that they do not have.
        raise BadRequestError(
            "Several stacks serve this memory, each with its own copy of the accounts.",
            remedy=f"Run `local2 tenants rotate {request.tenant}` on one machine, and copy "
            "config/nats/ to the others.",
        )
    await asyncio.to_thread(rotate_token_key, directory.folder, request.tenant)
    return await report_tenant(request)


async def answer_backup(ask: BackupRequest, parts: ServiceParts) -> BackupStatus:
    """Report the progress of backups; a request that names a folder begins one first."""
    if ask.folder is not None:
        parts.backups.begin(ask)
    return await parts.backups.status()


async def verify_backup(ask: VerificationRequest, parts: ServiceParts) -> BackupStatus:
    """Begin to read a backup; `answer_backup` reports the progress, and what was found."""
    parts.backups.begin_verification(ask)
    return await parts.backups.status()


SERVICES: Sequence[ServiceGroup] = (
    ServiceGroup(
        name="housekeeper",
        description="Keeps the vector index equal to the ledger, and reports what waits.",
        type="status",
        slots=False,
        services=(
            Service(declared.STATUS, read_status),
            Service(declared.REINDEX, start_reindex),
            Service(
                declared.TASKS,
                lambda request: request.tenant_memory.backlog.report(request.payload),
            ),
            Service(declared.RETENTION, lambda request: request.tenant_memory.retention.report()),
            Service(declared.FINDINGS, find_problems),
            Service(declared.TENANT, report_tenant),
            Service(declared.ROTATE_TOKEN_KEY, rotate_tokens),
            Announcement(subjects.VECTOR_READY, WorkerReady, compare_indexes),
        ),
    ),
    ServiceGroup(
        name="output_keeper",
        description="Keeps long tool outputs whole.",
        type="result",
        services=(Service(declared.KEEP_OUTPUT, store_output_part),),
    ),
    ServiceGroup(
        name=LETTER_KEEPER,
        description="Returns dead letters, publishes them again, and drops them.",
        slots=False,
        services=(Service(declared.DEAD_LETTERS, find_letter),),
    ),
    ServiceGroup(
        name="porter",
        description="Exports memories, and imports them.",
        services=(
            Service(
                declared.EXPORT, lambda request: request.memory.portability.export(request.payload)
            ),
            Service(declared.IMPORT, import_lines),
        ),
    ),
    ServiceGroup(
        name="browser",
        description="Shows memories page by page, and explains what is recalled.",
        services=(
            Service(declared.BROWSE, lambda request: request.memory.browsing.page(request.payload)),
            Service(
                declared.BROWSE_ALL,
                lambda request: request.memory.browsing_of_all.page(request.payload),
            ),
            Service(declared.OVERVIEW, lambda request: request.memory.browsing.overview()),
            Service(
                declared.OVERVIEW_ALL, lambda request: request.memory.browsing_of_all.overview()
            ),
            Service(
                declared.SESSIONS, lambda request: request.memory.browsing.sessions(request.payload)
            ),
            Service(
                declared.SESSIONS_ALL,
                lambda request: request.memory.browsing_of_all.sessions(request.payload),
            ),
            Service(declared.EXPLAIN, lambda request: request.memory.explain(request.payload)),
            Service(declared.SHOWN, lambda request: request.memory.shown(request.payload)),
            Service(
                declared.GROWTH,
                lambda request: request.memory.browsing.growth(request.payload, utc_now()),
            ),
            Service(
                declared.GROWTH_ALL,
                lambda request: request.memory.browsing_of_all.growth(request.payload, utc_now()),
            ),
            Service(declared.GRAPH, lambda request: request.memory.graph(request.payload)),
            Service(
                declared.LIST_DOCUMENTS,
                lambda request: request.memory.documents.listed(request.payload),
            ),
            Service(
                declared.LIST_CHUNKS,
                lambda request: request.memory.documents.chunks(request.payload),
            ),
            Service(declared.RIGHTS, say_rights),
        ),
    ),
    ServiceGroup(
        name="item_keeper",
        description="Stores items of frameworks exactly.",
        services=(
            Service(declared.PUT_ITEMS, lambda request: request.memory.items.put(request.payload)),
            Service(
                declared.DELETE_ITEMS, lambda request: request.memory.items.delete(request.payload)
            ),
            Service(declared.GET_ITEMS, lambda request: request.memory.items.get(request.payload)),
            Service(
                declared.SEARCH_ITEMS, lambda request: request.memory.items.search(request.payload)
            ),
            Service(
                declared.LIST_NAMESPACES,
                lambda request: request.memory.items.namespaces(request.payload),
            ),
        ),
    ),
    ServiceGroup(
        name="archivist",
        description="Makes backups of the whole memory, and reads them.",
        type="status",
        services=(
            OperatorService(declared.BACKUP, answer_backup),
            OperatorService(declared.LIST_BACKUPS, lambda ask, parts: parts.backups.find(ask)),
            OperatorService(declared.VERIFY_BACKUP, verify_backup),
        ),
    ),
)
"""All services, one line each, by their names on the bus."""
