"""The public Python API of local2, a memory for agents. Start with `local2.connect()`.

Errors are imported at once. Every other name is imported on first use, which keeps `import local2`
cheap.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from local2._version import __version__
from local2.errors import (
    BadRequestError,
    BusError,
    BusTimeoutError,
    CancelledCallError,
    ConfigError,
    DamagedError,
    DeadlineError,
    EmbedderMismatchError,
    FolderLockedError,
    ForbiddenError,
    IndexDamagedError,
    InvalidArgumentsError,
    LedgerKeyError,
    Local2Error,
    ModelError,
    NoRespondersError,
    OverloadedError,
    QuotaError,
    RequestError,
    StackNotRunningError,
    StorageError,
    TooLargeError,
    ToolFailedError,
    UnavailableError,
    UnknownToolError,
    UnwritableError,
    VectorError,
)

if TYPE_CHECKING:
    from local2.client.calls import Topic, Topics
    from local2.client.memory import Memory, SyncMemory, connect
    from local2.memory.search_results import SearchResult
    from local2.memory.service import MemoryService
    from local2.memory.tenant import Memories
    from local2.protocol.browsing import Browse, BrowseAll, BrowsedMemory, BrowsedPage
    from local2.protocol.conversation import IngestReport
    from local2.protocol.envelope import Caller
    from local2.protocol.explaining import Explain, Explained, ExplainedMemory
    from local2.protocol.memory_tools import (
        FoundMemories,
        Hit,
        Note,
        Recall,
        RecalledItem,
        RecalledItems,
        Receipt,
        RememberedFact,
        SavedMemory,
        SavedTopic,
        SessionContent,
        SessionMessage,
        SessionNotes,
        TopMemory,
        Version,
    )
    from local2.protocol.payloads import ToolResult
    from local2.protocol.showings import FindShowings, ShowingFound, ShowingsPage, ShownMemory
    from local2.stack.app import open_memory

__all__ = [
    "BadRequestError",
    "Browse",
    "BrowseAll",
    "BrowsedMemory",
    "BrowsedPage",
    "BusError",
    "BusTimeoutError",
    "Caller",
    "CancelledCallError",
    "ConfigError",
    "DamagedError",
    "DeadlineError",
    "EmbedderMismatchError",
    "Explain",
    "Explained",
    "ExplainedMemory",
    "FindShowings",
    "FolderLockedError",
    "ForbiddenError",
    "FoundMemories",
    "Hit",
    "IndexDamagedError",
    "IngestReport",
    "InvalidArgumentsError",
    "LedgerKeyError",
    "Local2Error",
    "Memories",
    "Memory",
    "MemoryService",
    "ModelError",
    "NoRespondersError",
    "Note",
    "OverloadedError",
    "QuotaError",
    "Recall",
    "RecalledItem",
    "RecalledItems",
    "Receipt",
    "RememberedFact",
    "RequestError",
    "SavedMemory",
    "SavedTopic",
    "SearchResult",
    "SessionContent",
    "SessionMessage",
    "SessionNotes",
    "ShowingFound",
    "ShowingsPage",
    "ShownMemory",
    "StackNotRunningError",
    "StorageError",
    "SyncMemory",
    "TooLargeError",
    "ToolFailedError",
    "ToolResult",
    "TopMemory",
    "Topic",
    "Topics",
    "UnavailableError",
    "UnknownToolError",
    "UnwritableError",
    "VectorError",
    "Version",
    "__version__",
    "connect",
    "open_memory",
]

_LAZY = {
    "local2.client.memory": ("Memory", "SyncMemory", "connect"),
    "local2.client.calls": ("Topic", "Topics"),
    "local2.stack.app": ("open_memory",),
    "local2.memory.search_results": ("SearchResult",),
    "local2.memory.service": ("MemoryService",),
    "local2.memory.tenant": ("Memories",),
    "local2.protocol.browsing": ("Browse", "BrowseAll", "BrowsedMemory", "BrowsedPage"),
    "local2.protocol.explaining": ("Explain", "Explained", "ExplainedMemory"),
    "local2.protocol.conversation": ("IngestReport",),
    "local2.protocol.envelope": ("Caller",),
    "local2.protocol.memory_tools": (
        "FoundMemories",
        "Hit",
        "Note",
        "Recall",
        "RecalledItem",
        "RecalledItems",
        "Receipt",
        "RememberedFact",
        "SavedMemory",
        "SavedTopic",
        "SessionContent",
        "SessionMessage",
        "SessionNotes",
        "TopMemory",
        "Version",
    ),
    "local2.protocol.payloads": ("ToolResult",),
    "local2.protocol.showings": (
        "FindShowings",
        "ShowingFound",
        "ShowingsPage",
        "ShownMemory",
    ),
}
_MODULES = {name: module for module, names in _LAZY.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULES[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted(globals().keys() | _MODULES.keys())
