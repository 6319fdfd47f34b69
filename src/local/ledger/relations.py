"""Relations that are stated between memories, as the ledger stores and returns them."""

from collections.abc import Callable
from datetime import datetime

import msgspec

from local.ledger.records import Record
from local.protocol.memories import RelationType

MOST = 100
"""Relations of one record, in both directions: they are read whenever it is recalled."""


class Relation(msgspec.Struct, frozen=True, kw_only=True):
    """How one record bears on another, by their ids, and who says so or takes it back."""

    source: str
    type: RelationType
    target: str
    agent: str | None
    user: str
    at: datetime


class RelatedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record at the other end of a relation; `incoming`: it is the source."""

    type: RelationType
    incoming: bool
    record: Record


Permit = Callable[[Record | None, Record | None], None]
"""Raises unless these may be related, source and target; None: there is no such record."""
