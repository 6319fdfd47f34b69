"""What crosses the ledger's door for extraction: messages to read, and facts found in them."""

from collections.abc import Sequence

import msgspec

from local.ledger.records import NewRecord, Record
from local.protocol.memories import RelationType


class MessageGroup(msgspec.Struct, frozen=True, kw_only=True):
    """Messages of one session to be read, and those said before the first of them."""

    messages: Sequence[Record]
    context: Sequence[Record]


class Bearing(msgspec.Struct, frozen=True, kw_only=True):
    """How a new fact bears on a known one."""

    type: RelationType
    target: str


class ExtractedFact(msgspec.Struct, frozen=True, kw_only=True):
    """A fact found in messages, and what is to become of it beside what is known.

    `sources` are the ids of the messages, `same_as` that of the fact that says it already.
    `replaces` are facts that it retires, `outdated_by` the one that was stated after it.
    """

    record: NewRecord
    sources: Sequence[str]
    same_as: str | None = None
    replaces: Sequence[str] = ()
    outdated_by: str | None = None
    bearings: Sequence[Bearing] = ()
