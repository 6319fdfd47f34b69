"""Who stated a record, and what class of source it comes from.

What belongs to a user was stated by its owner. What belongs to an agent or to everybody says in its
metadata which user stated it; nobody but that user learns who that was.
"""

from local.ledger.records import TENANT_OWNED, Record
from local.protocol.envelope import Caller
from local.protocol.memories import By, SourceClass
from local.protocol.payloads import Json

STATED_BY = "stated_by"

_OF_ROLES: dict[str | None, SourceClass] = {"user": "user", "tool": "tool", "system": "system"}


def stated_by(caller: Caller) -> Json:
    """Metadata of a record that does not belong to the user who states it."""
    return {STATED_BY: caller.user or TENANT_OWNED}


def by(record: Record, caller: Caller) -> By:
    """Whether it was stated by the user who asks; by somebody else where that is not known."""
    shared = record.scope in {"agent", "tenant"}
    user = record.metadata.get(STATED_BY) if shared else record.owner
    return "self" if user == (caller.user or TENANT_OWNED) else "other"


def source_class(record: Record) -> SourceClass:
    """Facts are a user's but for those of an agent; who has a role of his own is no user."""
    if record.kind == "fact":
        return "assistant" if record.scope == "agent" else "user"
    if record.kind == "document_chunk":
        return "document"
    return "tool" if record.kind == "tool_output" else _OF_ROLES.get(record.role, "assistant")
