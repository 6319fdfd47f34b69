"""Stores items: exact values of frameworks, some with a record that makes them searchable."""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any, TypeVar

import msgspec

from local2.ledger.engines import Row
from local2.ledger.operations.records import Cause, store_record, supersede
from local2.ledger.operations.tombstones import add_tombstone_of_items
from local2.ledger.operations.transactions import Part, Transaction, as_json, reads, writes_of
from local2.ledger.records import NewRecord, Written
from local2.protocol.items import (
    NOTHING,
    ItemKey,
    ItemPut,
    ItemsFound,
    Namespace,
    StoredItem,
    fit_into_answer,
    path_of,
    path_text,
)

DELETED = "the item was deleted"
NO_TEXT = "the item has no text to be found by"

T = TypeVar("T")
ItemPredicate = Callable[[Any], bool]
"""Returns whether an item with this value matches; called off the event loop."""


class ItemCollection(msgspec.Struct, frozen=True, kw_only=True):
    """One owner's items in a collection."""

    owner: str
    collection: str


class NewItem(msgspec.Struct, frozen=True, kw_only=True):
    """An item to store or delete, with the record that makes it searchable."""

    put: ItemPut
    record: NewRecord | None = None


class ItemWriter(msgspec.Struct, frozen=True, kw_only=True):
    """Who stores items, when, and in which session."""

    at: datetime
    agent: str | None = None
    user: str | None = None
    session_id: str | None = None


class ItemsWritten(msgspec.Struct, kw_only=True):
    """The result of writing items.

    `records` are the new records, `written` their results; `retired` are the ids of records that
    were retired without a replacement.
    """

    stored: int = 0
    deleted: int = 0
    records: list[NewRecord] = []
    written: list[Written] = []
    retired: list[str] = []


class ItemSelection(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of items: all below a namespace or, with `exact`, only directly in it."""

    namespace: Namespace = ()
    exact: bool = False
    before: str | None = None
    wanted: ItemPredicate | None = None
    limit: int = 10
    offset: int = 0


class FoundKey(ItemKey, frozen=True, kw_only=True):
    """An item's namespace and key, and the id of its record."""

    record: str | None = None


class LedgerItems(Part):
    """One tenant's items."""

    @writes_of(lambda of, *_: [of.owner])
    def put(
        self, tx: Transaction, of: ItemCollection, items: Sequence[NewItem], by: ItemWriter
    ) -> ItemsWritten:
        """Store items, and delete those without a value, all or none.

        An item whose text is unchanged keeps its record.

        Raises:
            QuotaError: The tenant would exceed its quota.
        """
        writer = _Writer(tx, of, by)
        for item in items:
            writer.put(item)
        return writer.result

    @writes_of(lambda of, *_: [of.owner])
    def delete(
        self,
        tx: Transaction,
        of: ItemCollection,
        keys: Sequence[ItemKey],
        namespaces: Sequence[Namespace],
        by: ItemWriter,
    ) -> ItemsWritten:
        """Delete items by key, and all items in or below some namespaces, in one transaction."""
        writer = _Writer(tx, of, by)
        for key in keys:
            writer.delete(key)
        for namespace in namespaces:
            writer.delete_within(namespace)
        return writer.result

    @reads
    def get(
        self, tx: Transaction, of: ItemCollection, keys: Sequence[ItemKey]
    ) -> list[StoredItem | None]:
        """The items of these keys, as many as fit an answer; None for missing ones."""
        found = (tx.execute("item_at", **_asked(of), **_place(key)).fetchone() for key in keys)
        read = (None if row is None else _item(row) for row in found)
        return [item for item, fits in fit_into_answer(read) if fits]

    @reads
    def within(self, tx: Transaction, of: ItemCollection, within: ItemSelection) -> ItemsFound:
        """The selected items, the newest first, as many as fit into an answer."""
        read = list(fit_into_answer(map(_item, self._chosen(tx, of, within))))
        items = [item for item, fits in read if fits]
        return ItemsFound(items=items, cut=len(items) < len(read))

    @reads
    def keys(self, tx: Transaction, of: ItemCollection, within: ItemSelection) -> list[FoundKey]:
        """The keys of the selected items."""
        return [_key(row) for row in self._chosen(tx, of, within)]

    @reads
    def of_records(
        self, tx: Transaction, of: ItemCollection, ids: Sequence[str], within: ItemSelection
    ) -> list[FoundKey]:
        """The keys of the items that belong to these records and match the selection."""
        found = tx.execute("items_of_records", **_asked(of), ids=as_json(ids))
        return [_key(row) for row in found if _is_wanted(row, within)]

    @reads
    def namespaces(
        self,
        tx: Transaction,
        of: ItemCollection,
        prefix: Namespace,
        choose: Callable[[Sequence[Namespace]], T],
    ) -> T:
        """What `choose`, called off the event loop, selects from the namespaces with items.

        Only namespaces that begin with `prefix` are considered.
        """
        found = tx.execute("item_namespaces", **_asked(of), **_bounds(prefix))
        return choose([path_of(row["namespace"]) for row in found])

    def _chosen(self, tx: Transaction, of: ItemCollection, within: ItemSelection) -> Iterator[Row]:
        """Yield the rows of the selected items lazily."""
        name = "items_in" if within.exact else "items_within"
        bounds = _bounds(within.namespace)
        found = tx.execute(name, **_asked(of), **bounds, before=within.before)
        matching = (row for row in found if _is_wanted(row, within))
        return islice(matching, within.offset, within.offset + within.limit)


class _Writer:
    """Writes items inside one transaction."""

    def __init__(
        self,
        tx: Transaction,
        of: ItemCollection,
        by: ItemWriter,
    ) -> None:
        self._tx = tx
        self._of = _asked(of)
        self._by = by
        self._at = by.at.isoformat(timespec="microseconds")
        self.result = ItemsWritten()

    def put(self, new: NewItem) -> None:
        if new.put.deletes:
            self.delete(new.put)
            return
        known = self._current(new.put)
        if known is not None and new.put.keep:
            return
        value = bytes(new.put.value)
        self._execute(
            "put_item",
            **_place(new.put),
            value=None if value == bytes(NOTHING) else value,
            data=new.put.data,
            record=self._store_record(known, new.record),
            session_id=self._by.session_id,
            created_at=self._at,
            updated_at=self._at,
        )
        self._tx.refuse_excess()
        self.result.stored += 1

    def delete(self, key: ItemKey) -> None:
        known = self._current(key)
        if known is None:
            return
        self._execute("drop_item", **_place(key))
        add_tombstone_of_items(self._tx, **self._of, **_place(key), at=self._at)
        self._retire(known["record"], DELETED)
        self.result.deleted += 1

    def delete_within(self, namespace: Namespace) -> None:
        dropped = self._execute("drop_items_within", **_bounds(namespace)).fetchall()
        if dropped:
            within = path_text(namespace)
            add_tombstone_of_items(self._tx, **self._of, namespace=within, key=None, at=self._at)
        self.result.deleted += len(dropped)
        for row in dropped:
            self._retire(row["record"], DELETED)

    def _store_record(self, known: Row | None, record: NewRecord | None) -> str | None:
        """Store, keep or retire the record of an item; return its id, None without a record."""
        former = known["record"] if known is not None else None
        if record is None:
            self._retire(former, NO_TEXT)
            return None
        text = record.content, record.session_id  # erasing a session erases its records
        if known is not None and (known["text"], known["session_id"]) == text:
            return str(former)
        replaced = former is not None and supersede(self._tx, former, Cause.of(record))
        written = store_record(self._tx, record)
        self.result.records.append(record)
        self.result.written.append(
            msgspec.structs.replace(written, replaced=(former,) if replaced else ())
        )
        return record.id

    def _retire(self, record_id: str | None, reason: str) -> None:
        if record_id is None:
            return
        by = self._by
        cause = Cause(agent=by.agent, at=by.at, user=by.user, why="archived", reason=reason)
        if supersede(self._tx, record_id, cause):
            self.result.retired.append(record_id)

    def _current(self, key: ItemKey) -> Row | None:
        row: Row | None = self._execute("item_state", **_place(key)).fetchone()
        return row

    def _execute(self, statement: str, **values: Any) -> Any:
        return self._tx.execute(statement, **self._of, **values)


def _asked(of: ItemCollection) -> dict[str, Any]:
    return msgspec.structs.asdict(of)


def _place(key: ItemKey) -> dict[str, str]:
    return {"namespace": path_text(key.namespace), "key": key.key}


def _bounds(namespace: Namespace) -> dict[str, str]:
    """The bounds of the namespaces that begin with this one, as stored texts."""
    text = path_text(namespace)
    return {"namespace": text, "beyond": f"{text[:-1]}-" if text else "#"}


def _is_wanted(row: Row, within: ItemSelection) -> bool:
    if within.wanted is None:
        return True
    return within.wanted(msgspec.json.decode(row["value"] or bytes(NOTHING)))


def _key(row: Row) -> FoundKey:
    return FoundKey(namespace=path_of(row["namespace"]), key=row["key"], record=row["record"])


def _item(row: Row) -> StoredItem:
    return StoredItem(
        namespace=path_of(row["namespace"]),
        key=row["key"],
        value=msgspec.Raw(row["value"] or bytes(NOTHING)),
        data=row["data"],
        created_at=datetime.fromisoformat(row["created_at"]),
        updated_at=datetime.fromisoformat(row["updated_at"]),
    )
