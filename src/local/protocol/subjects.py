"""Every subject on the bus.

No other module joins strings into subjects, so that a foreign name never becomes a wildcard.

With accounts the server puts the tenant before the subject of messages from its agents, and removes
it from messages to them. Each direction has its own prefix, because the server refuses imports that
could form a circle.
"""

import re
from typing import NamedTuple

from local.errors import BadRequestError, quoted

TOOL_SCHEMA = "tool.schema"
TOOL_SCHEMA_REQUEST = "tool.schema.request"
TOOL_RESULTS = "tool.result.*"
TOOL_CANCELS = "tool.cancel.*"
QUERY_RECEIVED = "query.received"
RESPONSE_DELTA = "response.delta"
RESPONSE_GENERATION = "response.generation"
RESPONSE_FEEDBACK = "response.feedback"
RESPONSES = "response.*"
MEMORY_SAVED = "memory.saved"
MEMORY_SUPERSEDED = "memory.superseded"
MEMORY_RETIRED = "memory.retired"
MEMORY_RESTORED = "memory.restored"
MEMORY_ANONYMIZED = "memory.anonymized"
MEMORY_FORGOTTEN = "memory.forgotten"
MEMORY_DEAD_LETTER = "memory.dead_letter"
MEMORY_DEAD_LETTERS = "memory.dead_letters"
MEMORY_TURN = "memory.turn"
MEMORY_PROBE = "memory.probe"
MEMORY_STATUS = "memory.status"
MEMORY_REINDEX = "memory.reindex"
MEMORY_HEALTH = "memory.health"
MEMORY_READY = "memory.ready"
MEMORY_EXPORT = "memory.export"
MEMORY_IMPORT = "memory.import"
MEMORY_BACKUP = "memory.backup"
MEMORY_OUTPUT_KEEP = "memory.output.keep"
MEMORY_ITEMS_PUT = "memory.items.put"
MEMORY_ITEMS_GET = "memory.items.get"
MEMORY_ITEMS_SEARCH = "memory.items.search"
MEMORY_ITEMS_LIST = "memory.items.list"
MEMORY_ITEMS_DELETE = "memory.items.delete"
SESSION_COMPACTION = "session.compaction"
SESSION_CLEAR = "session.clear"
SESSION_RESET = "session.reset"
VECTOR_SEARCH = "vector.search"
VECTOR_UPSERT = "vector.upsert"
VECTOR_DELETE = "vector.delete"
VECTOR_STATUS = "vector.status"
VECTOR_IDS = "vector.ids"
VECTOR_LOST = "vector.lost"
VECTOR_RESET = "vector.reset"
VECTOR_NEXT = "vector.next"
VECTOR_READY = "vector.ready"


ASKED = (
    "tool.request.>",
    MEMORY_STATUS,
    MEMORY_READY,
    MEMORY_HEALTH,
    MEMORY_REINDEX,
    MEMORY_EXPORT,
    MEMORY_IMPORT,
    MEMORY_DEAD_LETTERS,
    MEMORY_OUTPUT_KEEP,
    MEMORY_ITEMS_PUT,
    MEMORY_ITEMS_GET,
    MEMORY_ITEMS_SEARCH,
    MEMORY_ITEMS_LIST,
    MEMORY_ITEMS_DELETE,
)
"""A tenant's requests to the memory, with one answer each. The server adds the caller."""
ASKED_OF_MANY = (TOOL_SCHEMA_REQUEST, "$SRV.PING", "$SRV.PING.>", "$SRV.INFO", "$SRV.INFO.>")
"""Requests to everybody, with many answers; not `$SRV.STATS`, which counts for all tenants."""
ASKED_OF_EACH = (TOOL_SCHEMA_REQUEST, "$SRV.PING", "$SRV.INFO", "$SRV.STATS")
"""Requests that each participant receives."""
STORED = (RESPONSE_GENERATION, RESPONSE_FEEDBACK, MEMORY_TURN)
"""Messages that a stream stores for the memory, and acknowledges."""
LISTENED_TO = (TOOL_RESULTS, TOOL_CANCELS, TOOL_SCHEMA, QUERY_RECEIVED)
"""Messages between agents that the memory receives, too."""
EVENTS = (
    MEMORY_SAVED,
    MEMORY_SUPERSEDED,
    MEMORY_RETIRED,
    MEMORY_RESTORED,
    MEMORY_ANONYMIZED,
    MEMORY_FORGOTTEN,
    MEMORY_DEAD_LETTER,
)
"""Events that only the memory publishes."""
SENT = (TOOL_SCHEMA, TOOL_SCHEMA_REQUEST, *EVENTS)
"""What the memory sends to one tenant."""
SENT_TO_ALL = (TOOL_SCHEMA,)
OPEN = ("tool.>", "response.>", "session.>", "memory.>", "agents.>", "$SRV.>")
"""What every agent of a tenant may receive, except for what is denied to it by name."""
WITHHELD = (
    *(subject for subject in ASKED if not subject.endswith(">")),
    MEMORY_TURN,
    RESPONSE_FEEDBACK,
)
"""Messages with tokens and contents, which only the memory receives."""
TO_ANSWER = (QUERY_RECEIVED, SESSION_CLEAR)
"""Messages with tokens, which only the agents that answer queries receive."""

FROM_TENANT = "tenant"
TO_TENANT = "out"
ANY = "*"

TENANT_NAME = r"[a-z0-9][a-z0-9_-]{0,31}"
"""One token of a subject, and part of the name of a folder, a stream and a collection."""
_TENANT_NAME = re.compile(TENANT_NAME)

TOOL_NAME = r"[A-Za-z0-9_-]{1,64}"
"""What the APIs of models accept as the name of a function; it is also one token of a subject."""
_TOOL_NAME = re.compile(TOOL_NAME)


def tool_request(tool: str) -> str:
    return f"tool.request.{checked_tool_name(tool)}"


def tool_result(tool: str) -> str:
    return f"tool.result.{checked_tool_name(tool)}"


def tool_cancel(tool: str) -> str:
    return f"tool.cancel.{checked_tool_name(tool)}"


def tool_progress(tool: str) -> str:
    return f"tool.progress.{checked_tool_name(tool)}"


def discovery(verb: str, *address: str) -> str:
    """Return the subject of `PING`, `INFO` or `STATS`: for all, a name, or a name and id."""
    return ".".join(("$SRV", verb, *address))


def names_sender(subject: str) -> bool:
    """Return whether the server adds the sender; on other subjects anybody could forge one."""
    asked = ("tool.request.", "tool.result.", "tool.cancel.")
    return subject.startswith(asked) or subject in {*ASKED, *LISTENED_TO}


class Address(NamedTuple):
    """The tenant of a message, and its subject without the tenant."""

    tenant: str
    subject: str


def from_tenant(tenant: str, subject: str) -> str:
    """Return where the memory receives what a tenant sends; `ANY` for all of them."""
    return f"{FROM_TENANT}.{tenant}.{subject}"


def to_tenant(tenant: str, subject: str) -> str:
    """Return where the memory sends what a tenant receives."""
    return f"{TO_TENANT}.{tenant}.{subject}"


def dead_letters_of(tenant: str) -> str:
    """Return where the memory stores a tenant's unreadable messages; no tenant imports it."""
    return f"letters.{checked_tenant_name(tenant)}"


def address_of(subject: str) -> Address | None:
    """Return the parts of `from_tenant` or `to_tenant`; None for a subject without a tenant."""
    direction, _, rest = subject.partition(".")
    if direction not in {FROM_TENANT, TO_TENANT}:
        return None
    return Address(*rest.split(".", 1))


def checked_tenant_name(tenant: str) -> str:
    """Return the name, or raise if it cannot be a tenant's."""
    if not _TENANT_NAME.fullmatch(tenant):
        raise BadRequestError(
            f"{quoted(tenant)} is not a tenant's name.",
            remedy="Names are small letters, digits, `_` and `-`, 32 at most.",
        )
    return tenant


def checked_tool_name(tool: str) -> str:
    """Return the name, or raise if it is not one token of a subject without wildcards."""
    if not _TOOL_NAME.fullmatch(tool):
        raise BadRequestError(
            f"{quoted(tool)} is not a tool name.",
            logged="Its name is not a tool name.",
            remedy="Tool names are letters of a to z, digits, `_` and `-`, 64 at most.",
        )
    return tool
