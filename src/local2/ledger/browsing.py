"""The ledger's types for browsing: which records are shown, and where a page ends."""

from collections.abc import Sequence
from datetime import datetime

import msgspec

from local2.errors import BadRequestError
from local2.ledger.records import Record
from local2.ledger.search import Place
from local2.protocol.browsing import RecordState
from local2.protocol.memories import Kind, MemoryType, OwnerScope, SourceClass


class BrowseFilter(msgspec.Struct, frozen=True, kw_only=True):
    """The records to show; None stands for no condition.

    `places`: whose they are; without them, all of the tenant. `agent`: who stored them. `topic`:
    how their keys begin. `terms`: words that they contain, all of them.
    """

    states: frozenset[RecordState]
    places: Sequence[Place] | None = None
    kinds: Sequence[Kind] | None = None
    scopes: Sequence[OwnerScope] | None = None
    types: Sequence[MemoryType] | None = None
    sources: Sequence[SourceClass] | None = None
    agent: str | None = None
    session_id: str | None = None
    topic: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    terms: Sequence[str] = ()


class BrowseCursor(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The record after which a page continues: its time as it is stored, and its row.

    The time is empty while words are looked for: these records come in the order of their rows.
    """

    event_time: str
    row: int

    @classmethod
    def of(cls, text: str | None) -> "BrowseCursor | None":
        """Decode the `next` of a page; None means the beginning.

        Raises:
            BadRequestError: The text is not the `next` of a page.
        """
        if text is None:
            return None
        try:
            return msgspec.json.decode(text, type=cls)
        except msgspec.DecodeError as error:
            raise BadRequestError(
                f"after: {text!r} is not valid.", remedy="Pass `next` of the page before."
            ) from error

    def text(self) -> str:
        return msgspec.json.encode(self).decode()


class BrowsedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A record, with its state, and how often and when it was recalled."""

    record: Record
    state: RecordState
    recalls: int = 0
    recalled_at: datetime | None = None


class BrowsedRecords(msgspec.Struct, frozen=True, kw_only=True):
    """A page of records; `next` is where to continue, None at the end."""

    records: list[BrowsedRecord]
    next: BrowseCursor | None


class PlaceCount(msgspec.Struct, frozen=True, kw_only=True):
    """How many records of a place stand, how many no longer do, and the time of the newest."""

    place: Place
    active: int
    past: int
    last: datetime


class SessionUse(msgspec.Struct, frozen=True, kw_only=True):
    """A session, how many messages it has, and the times of the first and the last."""

    owner: str
    session_id: str
    messages: int
    first: datetime
    last: datetime


class SessionUses(msgspec.Struct, frozen=True, kw_only=True):
    """A page of sessions; `next` is where to continue, None at the end."""

    sessions: list[SessionUse]
    next: BrowseCursor | None
