"""The subjects of the bus, except those of the services, which are declared in `services.py`.

No other module builds subjects from strings, so that a name from outside never becomes a wildcard.

With accounts, the server puts the tenant before the subject of messages from its agents, and
removes it from messages to them. Each direction has its own prefix, because the server refuses
imports that could form a cycle.
"""

import re
from typing import NamedTuple

from local2.errors import BadRequestError, quoted

TOOL_SCHEMA = "tool.schema"
TOOL_SCHEMA_REQUEST = "tool.schema.request"
TOOL_REQUESTS = "tool.request.>"
TOOL_RESULTS = "tool.result.*"
TOOL_CANCELS = "tool.cancel.*"
TOOL_RUNNING = "tool.running.*"
QUERY_RECEIVED = "query.received"
QUERY_CANCEL = "query.cancel"
QUERY_RUNNING = "query.running"
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
MEMORY_ANSWERED = "memory.answered"
MEMORY_DEAD_LETTER = "memory.dead_letter"
MEMORY_TURN = "memory.turn"
MEMORY_PROBE = "memory.probe"
MEMORY_RUNNING = "memory.running"
MEMORY_READY = "memory.ready"
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
VECTOR_RERANK = "vector.rerank"
VECTOR_READY = "vector.ready"
VECTOR_RUNNING = "vector.running"

MULTI_ANSWER_REQUESTS = (
    TOOL_SCHEMA_REQUEST,
    TOOL_RUNNING,
    MEMORY_RUNNING,
    "$SRV.PING",
    "$SRV.PING.>",
    "$SRV.INFO",
    "$SRV.INFO.>",
)
"""Requests to all participants with many answers; not `$SRV.STATS`, which covers all tenants."""
FANOUT_REQUESTS = (TOOL_SCHEMA_REQUEST, "$SRV.PING", "$SRV.INFO", "$SRV.STATS")
"""Requests that every participant receives."""
RECEIVED_ONCE = (*FANOUT_REQUESTS, TOOL_SCHEMA)
"""Messages to many participants, which a connection receives once for all of them (`Fanout`)."""
STORED = (RESPONSE_GENERATION, RESPONSE_FEEDBACK, MEMORY_TURN)
"""Messages to the memory that a stream stores and acknowledges."""
OBSERVED = (TOOL_RESULTS, TOOL_CANCELS, TOOL_SCHEMA, QUERY_RECEIVED)
"""Messages between agents that the memory also receives."""
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
SENT_TO_ONE = (TOOL_SCHEMA, TOOL_SCHEMA_REQUEST, *EVENTS)
"""Messages that the memory sends to one tenant."""
SENT_TO_ALL = (TOOL_SCHEMA,)
"""Messages that the memory sends to all tenants."""
RECEIVABLE = ("tool.>", "response.>", "session.>", "memory.>", "agents.>", "$SRV.>")
"""Subjects that every agent of a tenant may subscribe to, apart from explicit exceptions."""
MEMORY_ONLY = (MEMORY_RUNNING, MEMORY_TURN, RESPONSE_FEEDBACK)
"""Messages with tokens or content, which only the memory may receive, as requests to services."""
ANSWERING_ONLY = (QUERY_RECEIVED, QUERY_CANCEL, QUERY_RUNNING, SESSION_CLEAR)
"""Messages with tokens, which only agents that answer queries may receive."""

INBOXES = ("_INBOX.", "_INBOX_", "_R_.")
"""Beginnings of the subjects of answers: the clients' default, an agent's own inbox (`inbox_of`),
and what the server puts in place of the reply subject of a request from another account."""
FOREIGN_INBOX = INBOXES[-1]
REFUSED = "refused"
"""With accounts, a message that nobody in the tenant may send goes to a subject below this one."""

FROM_TENANT = "tenant"
TO_TENANT = "out"
ANY_TENANT = "*"

TENANT_NAME = r"[a-z0-9][a-z0-9_-]{0,31}"
"""Pattern of a tenant's name: it is one token of a subject, and part of the names of folders,
streams and collections."""
_TENANT_NAME = re.compile(TENANT_NAME)

TOOL_NAME = r"[A-Za-z0-9_-]{1,64}"
"""Pattern of a tool's name: model APIs accept it as a function name; it is one subject token."""
_TOOL_NAME = re.compile(TOOL_NAME)


def tool_request(tool: str) -> str:
    return f"tool.request.{checked_tool_name(tool)}"


def tool_result(tool: str) -> str:
    return f"tool.result.{checked_tool_name(tool)}"


def tool_cancel(tool: str) -> str:
    return f"tool.cancel.{checked_tool_name(tool)}"


def tool_running(tool: str) -> str:
    return f"tool.running.{checked_tool_name(tool)}"


def tool_progress(tool: str) -> str:
    return f"tool.progress.{checked_tool_name(tool)}"


def discovery(verb: str, *address: str) -> str:
    """A subject of `PING`, `INFO` or `STATS`; `address` is empty, a name, or name and id."""
    return ".".join(("$SRV", verb, *address))


def is_inbox(subject: str) -> bool:
    """Whether answers may be sent to this subject."""
    return subject.startswith(INBOXES)


def refused(subject: str) -> str:
    return f"{REFUSED}.{subject}"


class Address(NamedTuple):
    """The tenant of a message, and its subject without the tenant."""

    tenant: str
    subject: str


def from_tenant(tenant: str, subject: str) -> str:
    """Where the memory receives a tenant's messages, or ANY_TENANT's."""
    return f"{FROM_TENANT}.{tenant}.{subject}"


def to_tenant(tenant: str, subject: str) -> str:
    """Where the memory sends messages to a tenant."""
    return f"{TO_TENANT}.{tenant}.{subject}"


def dead_letters_of(tenant: str) -> str:
    """Where a tenant's dead letters are; no tenant's account imports it."""
    return f"letters.{checked_tenant_name(tenant)}"


def address_of(subject: str) -> Address | None:
    """Split a subject made by `from_tenant` or `to_tenant`; return None for any other."""
    direction, _, rest = subject.partition(".")
    if direction not in {FROM_TENANT, TO_TENANT}:
        return None
    return Address(*rest.split(".", 1))


def checked_tenant_name(tenant: str) -> str:
    """Raise BadRequestError if it is not a valid tenant name."""
    if not _TENANT_NAME.fullmatch(tenant):
        raise BadRequestError(
            f"{quoted(tenant)} is not a tenant name.",
            remedy="Tenant names consist of at most 32 lower-case letters a to z, digits, `_` and "
            "`-`, and start with a letter or digit.",
        )
    return tenant


def checked_tool_name(tool: str) -> str:
    """Raise BadRequestError if it is not a valid tool name."""
    if not _TOOL_NAME.fullmatch(tool):
        raise BadRequestError(
            f"{quoted(tool)} is not a tool name.",
            logged="Its name is not a tool name.",
            remedy="Tool names consist of at most 64 letters a to z, digits, `_` and `-`.",
        )
    return tool
