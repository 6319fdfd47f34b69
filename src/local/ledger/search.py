"""What a search asks of the ledger."""

from datetime import datetime
from typing import NamedTuple

import msgspec

from local.ledger.records import TENANT_OWNED
from local.protocol.memories import Kind, Owning


class Place(NamedTuple):
    """Whose records, and of which kind."""

    scope: Owning
    owner: str
    kind: Kind


class Search(msgspec.Struct, frozen=True, kw_only=True):
    """What to look for, and which records may be found.

    Of what belongs to sessions, `only_session` is the one to search, and `but_session` the one not
    to. `since` and `until` are in UTC. `asking` is the query id of the turn in which `owner` asks:
    its own question is no memory yet.
    """

    text: str
    places: tuple[Place, ...]
    terms: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    only_session: str | None = None
    but_session: str | None = None
    since: datetime | None = None
    until: datetime | None = None
    owner: str = TENANT_OWNED
    asking: str | None = None
