"""What crosses the ledger's door with items."""

from collections.abc import Callable
from datetime import datetime
from typing import Any

import msgspec

from local.ledger.records import NewRecord, Written
from local.protocol.items import ItemKey, ItemPut, StoredItem

Wanted = Callable[[Any], bool]
"""Whether an item of this value is wanted; called off the event loop."""


class ItemsOf(msgspec.Struct, frozen=True, kw_only=True):
    """One owner's items in a collection."""

    owner: str
    collection: str


class NewItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item to be stored or deleted, with the record by which it is found."""

    put: ItemPut
    record: NewRecord | None = None


class Storing(msgspec.Struct, frozen=True, kw_only=True):
    """Who stores items, when, and in which session."""

    at: datetime
    agent: str | None = None
    user: str | None = None
    session_id: str | None = None


class ItemsWritten(msgspec.Struct, kw_only=True):
    """What a write came to: with `records` that are new, and the ids of those retired for good."""

    stored: int = 0
    deleted: int = 0
    records: list[NewRecord] = []
    written: list[Written] = []
    retired: list[str] = []


class Within(msgspec.Struct, frozen=True, kw_only=True):
    """Which items are wanted: of a namespace and within it, or `exact` of it alone."""

    namespace: tuple[str, ...] = ()
    exact: bool = False
    before: str | None = None
    wanted: Wanted | None = None
    limit: int = 10
    offset: int = 0


class FoundKey(ItemKey, frozen=True, kw_only=True):
    """Where an item is, and the id of its record."""

    record: str | None = None


class ItemPage(msgspec.Struct, frozen=True, kw_only=True):
    """Items, as many as an answer holds; `cut`: it holds no more of them."""

    items: list[StoredItem]
    cut: bool
