"""Every subject on the bus.

No other module joins strings into subjects, so that no name from outside becomes a wildcard.
"""

import re

from local.errors import BadRequestError, quoted

TOOL_SCHEMA = "tool.schema"
TOOL_SCHEMA_REQUEST = "tool.schema.request"
TOOL_RESULTS = "tool.result.*"
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
MEMORY_TURN = "memory.turn"
MEMORY_PROBE = "memory.probe"
MEMORY_STATUS = "memory.status"
MEMORY_REINDEX = "memory.reindex"
MEMORY_HEALTH = "memory.health"
MEMORY_READY = "memory.ready"
MEMORY_EXPORT = "memory.export"
MEMORY_IMPORT = "memory.import"
MEMORY_OUTPUT_KEEP = "memory.output.keep"
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


TOOL_NAME = r"[A-Za-z0-9_-]{1,64}"
"""What the APIs of models accept as the name of a function; it is also one token of a subject."""
_TOOL_NAME = re.compile(TOOL_NAME)


def tool_request(tool: str) -> str:
    return f"tool.request.{checked_tool_name(tool)}"


def tool_result(tool: str) -> str:
    return f"tool.result.{checked_tool_name(tool)}"


def discovery(verb: str, *address: str) -> str:
    """The subject of `PING`, `INFO` or `STATS`: of all services, of a name, or of a name and id."""
    return ".".join(("$SRV", verb, *address))


def checked_tool_name(tool: str) -> str:
    """Return the name, or raise if it is not one token of a subject without wildcards."""
    if not _TOOL_NAME.fullmatch(tool):
        raise BadRequestError(
            f"{quoted(tool)} is not a tool name.",
            logged="Its name is not a tool name.",
            remedy="Tool names are letters of a to z, digits, `_` and `-`, 64 at most.",
        )
    return tool
