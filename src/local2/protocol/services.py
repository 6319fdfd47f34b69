"""The services of the memory besides its tools: the subject, request and answer of each.

The stack serves them from here (`agents/services.py` has the functions), tenants may send what is
declared here, and HTTP offers it.
"""

from typing import Any, Generic, TypeVar

import msgspec
from msgspec import Raw

from local2.protocol import subjects
from local2.protocol.browsing import (
    Browse,
    BrowseAll,
    BrowsedPage,
    Growth,
    GrowthRequest,
    ListSessions,
    Overview,
    Rights,
    SessionsPage,
)
from local2.protocol.documents import ChunksPage, DocumentsPage, ListChunks, ListDocuments
from local2.protocol.envelope import Role
from local2.protocol.explaining import Explain, Explained
from local2.protocol.graph import Graph, ShowGraph
from local2.protocol.items import (
    DeleteItems,
    GetItems,
    ItemsChanged,
    ItemsFound,
    ItemsGot,
    ListNamespaces,
    NamespacesFound,
    PutItems,
    SearchItems,
)
from local2.protocol.maintenance import (
    BackupList,
    BackupRequest,
    BackupsFound,
    BackupStatus,
    ExportPage,
    ExportRequest,
    Findings,
    Health,
    ImportReport,
    ImportRequest,
    LetterFound,
    LetterRequest,
    MemoryStatus,
    Readiness,
    Reindex,
    RetentionReport,
    TaskReport,
    TaskRequest,
    TenantReport,
    VerificationRequest,
)
from local2.protocol.payloads import Empty, OutputPart, ToolResult
from local2.protocol.showings import FindShowings, ShowingsPage

P = TypeVar("P")
A = TypeVar("A", bound=msgspec.Struct)


class ServiceDeclaration(msgspec.Struct, Generic[P, A], frozen=True, kw_only=True):
    """What is said of a service: the types of its request and its answer, and who may ask.

    `request`: Raw if nothing of it is read. `action`: what the caller's role must permit (ACTIONS);
    if it is empty, everybody may ask. `for_operator`: it concerns the memories of all tenants.
    `reads_only`: it changes nothing, so that clients repeat a request that is lost. `patience`:
    seconds that they wait for the answer, if longer than for others.
    """

    subject: str
    title: str
    request: type[P]
    answer: type[A]
    action: str = ""
    for_operator: bool = False
    reads_only: bool = False
    patience: float | None = None


ACTIONS: dict[str, Role] = {
    "browse": "reader",
    "explain": "reader",
    "read_items": "reader",
    "status": "reader",
    "write_items": "writer",
    "turn": "writer",
    "browse_all": "admin",
    "export": "admin",
    "import": "admin",
    "reindex": "admin",
    "dead_letters": "admin",
    "tasks": "admin",
    "tenant": "admin",
    "retention": "admin",
}
"""The least role that may do each action, by default; `turn` is also to store a turn."""

QUEUED = 60.0
"""Seconds to wait for an answer that may queue after other work, or do some before it."""

STATUS = ServiceDeclaration(
    subject="memory.status",
    title="Compare the ledger and the vector index",
    request=Empty,
    answer=MemoryStatus,
    action="status",
    reads_only=True,
)
REINDEX = ServiceDeclaration(
    subject="memory.reindex",
    title="Fill the vector index again, or with another embedder",
    request=Reindex,
    answer=MemoryStatus,
    action="reindex",
    patience=QUEUED,
)
KEEP_OUTPUT = ServiceDeclaration(
    subject="memory.output.keep",
    title="Store a part of a tool's long output",
    request=OutputPart,
    answer=ToolResult,
    action="turn",
)
DEAD_LETTERS = ServiceDeclaration(
    subject="memory.dead_letters",
    title="Read, publish again or drop a message that could not be stored",
    request=LetterRequest,
    answer=LetterFound,
    action="dead_letters",
)
TASKS = ServiceDeclaration(
    subject="memory.tasks",
    title="List the work on records, try again what failed, or discard it",
    request=TaskRequest,
    answer=TaskReport,
    action="tasks",
    patience=QUEUED,
)
EXPORT = ServiceDeclaration(
    subject="memory.export",
    title="Read a page of an export",
    request=ExportRequest,
    answer=ExportPage,
    action="export",
    reads_only=True,
    patience=QUEUED,
)
IMPORT = ServiceDeclaration(
    subject="memory.import",
    title="Store lines of an export",
    request=ImportRequest,
    answer=ImportReport,
    action="import",
    patience=QUEUED,
)
BROWSE = ServiceDeclaration(
    subject="memory.browse",
    title="Read a page of the memories that the caller may see",
    request=Browse,
    answer=BrowsedPage,
    action="browse",
    reads_only=True,
    patience=QUEUED,
)
BROWSE_ALL = ServiceDeclaration(
    subject="memory.browse.all",
    title="Read a page of all memories of the tenant",
    request=BrowseAll,
    answer=BrowsedPage,
    action="browse_all",
    reads_only=True,
    patience=QUEUED,
)
OVERVIEW = ServiceDeclaration(
    subject="memory.overview",
    title="Count what the caller may see",
    request=Empty,
    answer=Overview,
    action="browse",
    reads_only=True,
    patience=QUEUED,
)
OVERVIEW_ALL = ServiceDeclaration(
    subject="memory.overview.all",
    title="Count all memories of the tenant",
    request=Empty,
    answer=Overview,
    action="browse_all",
    reads_only=True,
    patience=QUEUED,
)
SESSIONS = ServiceDeclaration(
    subject="memory.sessions",
    title="Read a page of the caller's sessions",
    request=ListSessions,
    answer=SessionsPage,
    action="browse",
    reads_only=True,
)
SESSIONS_ALL = ServiceDeclaration(
    subject="memory.sessions.all",
    title="Read a page of all sessions of the tenant",
    request=ListSessions,
    answer=SessionsPage,
    action="browse_all",
    reads_only=True,
)
EXPLAIN = ServiceDeclaration(
    subject="memory.explain",
    title="Explain why a question finds some memories, and not another one",
    request=Explain,
    answer=Explained,
    action="explain",
    reads_only=True,
    patience=QUEUED,
)
SHOWN = ServiceDeclaration(
    subject="memory.shown",
    title="Read which memories were shown, by recalls and before answers",
    request=FindShowings,
    answer=ShowingsPage,
    action="explain",
    reads_only=True,
)
GROWTH = ServiceDeclaration(
    subject="memory.growth",
    title="Count what the caller may see by days and kinds",
    request=GrowthRequest,
    answer=Growth,
    action="browse",
    reads_only=True,
    patience=QUEUED,
)
GROWTH_ALL = ServiceDeclaration(
    subject="memory.growth.all",
    title="Count all memories of the tenant by days and kinds",
    request=GrowthRequest,
    answer=Growth,
    action="browse_all",
    reads_only=True,
    patience=QUEUED,
)
RETENTION = ServiceDeclaration(
    subject="memory.retention",
    title="List what retention anonymises next, or would if it were on",
    request=Empty,
    answer=RetentionReport,
    action="retention",
    reads_only=True,
)
FINDINGS = ServiceDeclaration(
    subject="memory.findings",
    title="Say what works, what does not, and what to do",
    request=Empty,
    answer=Findings,
    action="status",
    reads_only=True,
)
GRAPH = ServiceDeclaration(
    subject="memory.graph",
    title="Read how things and memories are related, around one of them",
    request=ShowGraph,
    answer=Graph,
    action="browse",
    reads_only=True,
)
LIST_DOCUMENTS = ServiceDeclaration(
    subject="memory.documents",
    title="List the documents that everybody may see",
    request=ListDocuments,
    answer=DocumentsPage,
    action="browse",
    reads_only=True,
)
LIST_CHUNKS = ServiceDeclaration(
    subject="memory.documents.chunks",
    title="Read the chunks of a document",
    request=ListChunks,
    answer=ChunksPage,
    action="browse",
    reads_only=True,
)
RIGHTS = ServiceDeclaration(
    subject="memory.rights",
    title="Say who the caller is, and what the caller may do",
    request=Empty,
    answer=Rights,
    action="status",
    reads_only=True,
)
TENANT = ServiceDeclaration(
    subject="memory.tenant",
    title="Say who has access to the tenant's memory, and how much it stores",
    request=Empty,
    answer=TenantReport,
    action="tenant",
    reads_only=True,
)
ROTATE_TOKEN_KEY = ServiceDeclaration(
    subject="memory.tenant.rotate",
    title="Let another key sign the tenant's tokens",
    request=Empty,
    answer=TenantReport,
    action="tenant",
)
PUT_ITEMS = ServiceDeclaration(
    subject="memory.items.put",
    title="Store items",
    request=PutItems,
    answer=ItemsChanged,
    action="write_items",
)
DELETE_ITEMS = ServiceDeclaration(
    subject="memory.items.delete",
    title="Delete items and namespaces",
    request=DeleteItems,
    answer=ItemsChanged,
    action="write_items",
)
GET_ITEMS = ServiceDeclaration(
    subject="memory.items.get",
    title="Read items by their keys",
    request=GetItems,
    answer=ItemsGot,
    action="read_items",
    reads_only=True,
)
SEARCH_ITEMS = ServiceDeclaration(
    subject="memory.items.search",
    title="Search items",
    request=SearchItems,
    answer=ItemsFound,
    action="read_items",
    reads_only=True,
)
LIST_NAMESPACES = ServiceDeclaration(
    subject="memory.items.list",
    title="List the namespaces that hold items",
    request=ListNamespaces,
    answer=NamespacesFound,
    action="read_items",
    reads_only=True,
)
BACKUP = ServiceDeclaration(
    subject="memory.backup",
    title="Begin a backup, or read the progress of backups",
    request=BackupRequest,
    answer=BackupStatus,
    for_operator=True,
)
LIST_BACKUPS = ServiceDeclaration(
    subject="memory.backup.list",
    title="List the backups in a folder",
    request=BackupList,
    answer=BackupsFound,
    for_operator=True,
)
VERIFY_BACKUP = ServiceDeclaration(
    subject="memory.backup.verify",
    title="Begin to read a backup whole; `memory.backup` says what was found",
    request=VerificationRequest,
    answer=BackupStatus,
    for_operator=True,
)
READY = ServiceDeclaration(
    subject=subjects.MEMORY_READY,
    title="Ask whether tools are served",
    request=Raw,
    answer=Readiness,
)
HEALTH = ServiceDeclaration(
    subject="memory.health",
    title="Ask whether something is broken or delayed",
    request=Raw,
    answer=Health,
)

SERVICES: tuple[ServiceDeclaration[Any, Any], ...] = tuple(
    declared for declared in globals().values() if isinstance(declared, ServiceDeclaration)
)
"""All that are declared above; a test compares them with what the stack serves."""
REQUESTS = (
    subjects.TOOL_REQUESTS,
    *(service.subject for service in SERVICES if not service.for_operator),
)
"""The requests of a tenant to the memory with one answer each; the server adds the sender."""
