"""The services of the memory besides its tools: the subject, request and answer of each.

The stack serves them from here (`agents/` has the functions), and HTTP offers them.
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

    `request`: Raw if nothing of it is read; unknown fields are refused, since a misspelt condition
    would be none, and the request would cover everything. `action`: what the caller's role must
    permit; if it is empty, everybody may ask. `for_operator`: it concerns the memories of all
    tenants. `reads_only`: it changes nothing, so that clients repeat a request that is lost.
    `patience`: seconds that they wait for the answer, if longer than for others.
    """

    subject: str
    title: str
    request: type[P]
    answer: type[A]
    action: str = ""
    for_operator: bool = False
    reads_only: bool = False
    patience: float | None = None


QUEUED = 60.0
"""Seconds to wait for an answer that may queue after other work."""
REINDEXING = 60.0
"""Seconds to wait for the reply to a reindex, which is sent once the index has been emptied."""

STATUS = ServiceDeclaration(
    subject=subjects.MEMORY_STATUS,
    title="Compare the ledger and the vector index",
    request=Raw,
    answer=MemoryStatus,
    action="status",
    reads_only=True,
)
REINDEX = ServiceDeclaration(
    subject=subjects.MEMORY_REINDEX,
    title="Fill the vector index again, or with another embedder",
    request=Reindex,
    answer=MemoryStatus,
    action="reindex",
    patience=REINDEXING,
)
KEEP_OUTPUT = ServiceDeclaration(
    subject=subjects.MEMORY_OUTPUT_KEEP,
    title="Store a part of a tool's long output",
    request=OutputPart,
    answer=ToolResult,
    action="turn",
)
DEAD_LETTERS = ServiceDeclaration(
    subject=subjects.MEMORY_DEAD_LETTER_REQUEST,
    title="Read, publish again or drop a message that could not be stored",
    request=LetterRequest,
    answer=LetterFound,
    action="dead_letters",
)
TASKS = ServiceDeclaration(
    subject=subjects.MEMORY_TASKS,
    title="List the work on records, try again what failed, or discard it",
    request=TaskRequest,
    answer=TaskReport,
    action="tasks",
    patience=QUEUED,
)
EXPORT = ServiceDeclaration(
    subject=subjects.MEMORY_EXPORT,
    title="Read a page of an export",
    request=ExportRequest,
    answer=ExportPage,
    action="export",
    reads_only=True,
    patience=QUEUED,
)
IMPORT = ServiceDeclaration(
    subject=subjects.MEMORY_IMPORT,
    title="Store lines of an export",
    request=ImportRequest,
    answer=ImportReport,
    action="import",
    patience=QUEUED,
)
BROWSE = ServiceDeclaration(
    subject=subjects.MEMORY_BROWSE,
    title="Read a page of the memories that the caller may see",
    request=Browse,
    answer=BrowsedPage,
    action="browse",
    reads_only=True,
    patience=QUEUED,
)
BROWSE_ALL = ServiceDeclaration(
    subject=subjects.MEMORY_BROWSE_ALL,
    title="Read a page of all memories of the tenant",
    request=BrowseAll,
    answer=BrowsedPage,
    action="browse_all",
    reads_only=True,
    patience=QUEUED,
)
OVERVIEW = ServiceDeclaration(
    subject=subjects.MEMORY_OVERVIEW,
    title="Count what the caller may see",
    request=Empty,
    answer=Overview,
    action="browse",
    reads_only=True,
    patience=QUEUED,
)
OVERVIEW_ALL = ServiceDeclaration(
    subject=subjects.MEMORY_OVERVIEW_ALL,
    title="Count all memories of the tenant",
    request=Empty,
    answer=Overview,
    action="browse_all",
    reads_only=True,
    patience=QUEUED,
)
SESSIONS = ServiceDeclaration(
    subject=subjects.MEMORY_SESSIONS,
    title="Read a page of the caller's sessions",
    request=ListSessions,
    answer=SessionsPage,
    action="browse",
    reads_only=True,
)
SESSIONS_ALL = ServiceDeclaration(
    subject=subjects.MEMORY_SESSIONS_ALL,
    title="Read a page of all sessions of the tenant",
    request=ListSessions,
    answer=SessionsPage,
    action="browse_all",
    reads_only=True,
)
EXPLAIN = ServiceDeclaration(
    subject=subjects.MEMORY_EXPLAIN,
    title="Explain why a question finds some memories, and not another one",
    request=Explain,
    answer=Explained,
    action="explain",
    reads_only=True,
    patience=QUEUED,
)
SHOWN = ServiceDeclaration(
    subject=subjects.MEMORY_SHOWN,
    title="Read which memories were shown, by recalls and before answers",
    request=FindShowings,
    answer=ShowingsPage,
    action="explain",
    reads_only=True,
)
GROWTH = ServiceDeclaration(
    subject=subjects.MEMORY_GROWTH,
    title="Count what the caller may see by days and kinds",
    request=GrowthRequest,
    answer=Growth,
    action="browse",
    reads_only=True,
    patience=QUEUED,
)
GROWTH_ALL = ServiceDeclaration(
    subject=subjects.MEMORY_GROWTH_ALL,
    title="Count all memories of the tenant by days and kinds",
    request=GrowthRequest,
    answer=Growth,
    action="browse_all",
    reads_only=True,
    patience=QUEUED,
)
RETENTION = ServiceDeclaration(
    subject=subjects.MEMORY_RETENTION,
    title="List what retention anonymises next, or would if it were on",
    request=Empty,
    answer=RetentionReport,
    action="retention",
    reads_only=True,
)
FINDINGS = ServiceDeclaration(
    subject=subjects.MEMORY_FINDINGS,
    title="Say what works, what does not, and what to do",
    request=Empty,
    answer=Findings,
    action="status",
    reads_only=True,
)
GRAPH = ServiceDeclaration(
    subject=subjects.MEMORY_GRAPH,
    title="Read how things and memories are related, around one of them",
    request=ShowGraph,
    answer=Graph,
    action="browse",
    reads_only=True,
)
LIST_DOCUMENTS = ServiceDeclaration(
    subject=subjects.MEMORY_DOCUMENTS,
    title="List the documents that everybody may see",
    request=ListDocuments,
    answer=DocumentsPage,
    action="browse",
    reads_only=True,
)
LIST_CHUNKS = ServiceDeclaration(
    subject=subjects.MEMORY_CHUNKS,
    title="Read the chunks of a document",
    request=ListChunks,
    answer=ChunksPage,
    action="browse",
    reads_only=True,
)
RIGHTS = ServiceDeclaration(
    subject=subjects.MEMORY_RIGHTS,
    title="Say who the caller is, and what the caller may do",
    request=Empty,
    answer=Rights,
    action="status",
    reads_only=True,
)
TENANT = ServiceDeclaration(
    subject=subjects.MEMORY_TENANT,
    title="Say who has access to the tenant's memory, and how much it stores",
    request=Empty,
    answer=TenantReport,
    action="tenant",
    reads_only=True,
)
ROTATE_TOKEN_KEY = ServiceDeclaration(
    subject=subjects.MEMORY_TENANT_ROTATE,
    title="Let another key sign the tenant's tokens",
    request=Empty,
    answer=TenantReport,
    action="tenant",
)
PUT_ITEMS = ServiceDeclaration(
    subject=subjects.MEMORY_ITEMS_PUT,
    title="Store items",
    request=PutItems,
    answer=ItemsChanged,
    action="write_items",
)
DELETE_ITEMS = ServiceDeclaration(
    subject=subjects.MEMORY_ITEMS_DELETE,
    title="Delete items and namespaces",
    request=DeleteItems,
    answer=ItemsChanged,
    action="write_items",
)
GET_ITEMS = ServiceDeclaration(
    subject=subjects.MEMORY_ITEMS_GET,
    title="Read items by their keys",
    request=GetItems,
    answer=ItemsGot,
    action="read_items",
    reads_only=True,
)
SEARCH_ITEMS = ServiceDeclaration(
    subject=subjects.MEMORY_ITEMS_SEARCH,
    title="Search items",
    request=SearchItems,
    answer=ItemsFound,
    action="read_items",
    reads_only=True,
)
LIST_NAMESPACES = ServiceDeclaration(
    subject=subjects.MEMORY_ITEMS_LIST,
    title="List the namespaces that hold items",
    request=ListNamespaces,
    answer=NamespacesFound,
    action="read_items",
    reads_only=True,
)
BACKUP = ServiceDeclaration(
    subject=subjects.MEMORY_BACKUP,
    title="Begin a backup, or read the progress of backups",
    request=BackupRequest,
    answer=BackupStatus,
    for_operator=True,
)
LIST_BACKUPS = ServiceDeclaration(
    subject=subjects.MEMORY_BACKUP_LIST,
    title="List the backups in a folder",
    request=BackupList,
    answer=BackupsFound,
    for_operator=True,
)
VERIFY_BACKUP = ServiceDeclaration(
    subject=subjects.MEMORY_BACKUP_VERIFY,
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
    subject=subjects.MEMORY_HEALTH,
    title="Ask whether something is broken or delayed",
    request=Raw,
    answer=Health,
)

SERVICES: tuple[ServiceDeclaration[Any, Any], ...] = tuple(
    declared for declared in globals().values() if isinstance(declared, ServiceDeclaration)
)
"""All that are declared above; a test compares them with what the stack serves."""
