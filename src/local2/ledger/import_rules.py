"""The rules of a write, for the lines of an import: what no caller could store is refused.

Rules that depend on what is stored already are checked where the lines are stored.
"""

from typing import Final

from local2.errors import quoted
from local2.keys import TOPIC_RULE, is_topic, is_user_topic
from local2.ledger.records import (
    ALSO_NAMES,
    DERIVED_FROM,
    NAMES,
    RELATION_TYPES,
    SHARES_ENTITY,
    STATES,
)
from local2.protocol.conversation import is_blank
from local2.protocol.lenient.values import MAX_NAME
from local2.protocol.memories import OwnerScope
from local2.protocol.portable import Line, RecordLine, RelationLine

BETWEEN_RECORDS: Final = frozenset({*RELATION_TYPES, DERIVED_FROM, SHARES_ENTITY})
"""Relations whose target is a record; that of the others is a name or a statement."""
KNOWN_RELATIONS: Final = BETWEEN_RECORDS | {STATES, NAMES, ALSO_NAMES}
NAME_FIELDS: Final = (
    "id", "owner", "session_id", "query_id", "turn", "alias", "role", "agent", "user", "stated_by",
    "superseded_by", "record", "record_id", "at", "source", "target", "answer", "key", "run",
)  # fmt: skip
"""Fields that hold a name or an id, in lines of any type."""
OWN_SCOPES: Final[tuple[OwnerScope, ...]] = ("user", "session")
"""Scopes whose facts may have a key that begins with `user.`."""


def broken_rule(line: Line) -> str | None:
    """Return which rule of a write a line breaks, for its reader; None if it breaks none."""
    for field in NAME_FIELDS:
        name = getattr(line, field, None)
        if isinstance(name, str) and len(name) > MAX_NAME:
            return f"{field}: expected at most {MAX_NAME} characters, got {len(name):,}."
        if isinstance(name, str) and "\0" in name:
            return f"{field}: {quoted(name)} contains the character NUL."
    match line:
        case RecordLine():
            return _broken_rule_of_records(line)
        case RelationLine():
            return _broken_rule_of_relations(line)
    return None


def _broken_rule_of_records(line: RecordLine) -> str | None:
    if line.superseded_by == line.id:
        return "superseded_by: a record cannot replace itself."
    if line.kind == "fact" and line.retired_why is None and is_blank(line.content):
        return "content: the text is blank."
    if line.topic is None:
        return None
    if not is_topic(line.topic):
        return f"topic: {quoted(line.topic)} is not a topic key. {TOPIC_RULE}"
    if is_user_topic(line.topic) and line.scope not in OWN_SCOPES:
        return (
            f"topic: {quoted(line.topic)} is a key for a user's own facts, not for scope "
            f"{quoted(line.scope)}."
        )
    return None


def _broken_rule_of_relations(line: RelationLine) -> str | None:
    if line.relation not in KNOWN_RELATIONS:
        expected = ", ".join(sorted(KNOWN_RELATIONS))
        return f"relation: expected one of {expected}, got {quoted(line.relation)}."
    if line.source == line.target:
        return "target: it is the same record as source."
    return None
