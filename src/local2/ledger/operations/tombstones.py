"""Keeps tombstones, so that what was erased does not return.

Tombstones are keyed hashes. An erased record is recognised by its ids, and by its text together
with the user who stated it. A message of a conversation is recognised by its ids alone, because
people write the same text again deliberately. Facts and documents that somebody adds explicitly are
never refused. Turns that arrive late, ratings, and notes, tool outputs and items of an export are
refused if they are older than the erasure of their owner or session. Items that were only deleted
leave tombstones, too, of their keys and namespaces, because no retired record stands for them.
"""

import hashlib
from collections.abc import Collection, Iterator, Sequence

import msgspec

from local2.keys import fold_topic
from local2.ledger.engines import Row
from local2.ledger.erasing import ErasureOptions, Selection
from local2.ledger.operations.transactions import Transaction, as_json
from local2.ledger.records import (
    EXTRACTED_FROM,
    TENANT_OWNED,
    NewRecord,
    principal_of,
    source_class_of,
    stamp,
)
from local2.protocol.items import path_text
from local2.protocol.portable import (
    FeedbackLine,
    ItemLine,
    NoteLine,
    OutputLine,
    ShowingLine,
)

MIN_CHARACTERS = 25
"""Minimum length of a text that identifies its record, unless it is a fact: shorter texts are
repeated by chance."""
EXPLICIT_CLASSES = frozenset({"asserted", "document"})
"""Source classes of records that somebody added explicitly, and may add again."""


def was_erased(tx: Transaction, record: NewRecord, *, copied: bool = False) -> bool:
    """Whether a record was erased, and must not be stored again.

    A record that somebody adds explicitly may be stored again, unless it is `copied` from an
    export.
    """
    if not _has_any(tx) or (source_class_of(record) in EXPLICIT_CLASSES and not copied):
        return False
    if _match(tx, list(_digests(tx, record))):
        return True
    # A turn may have waited for the bus, or with a hook, while its user forgot: no record of it was
    # there to leave a tombstone.
    since = stamp(record.event_time)
    return (
        is_live(record) and not copied and erased_since(tx, record.owner, record.session_id, since)
    )


def was_id_erased(tx: Transaction, id_: str) -> bool:
    """Whether the record with this id was erased."""
    return _has_any(tx) and _match(tx, [_digest(tx, "id", id_)])


def is_live(record: NewRecord) -> bool:
    """Whether a record is part of a turn, and not of a conversation or an import."""
    return record.turn is not None or record.pending is not None


def erased_since(
    tx: Transaction,
    owner: str,
    session_id: str | None,
    since: str,
    *names: tuple[str | None, ...],
) -> bool:
    """Whether an owner has erased everything, a session or one of these names since a time."""
    if not _has_any(tx):
        return False
    digests = [_selection_digest(tx, Selection(owner=owner))]
    if session_id:
        digests.append(_selection_digest(tx, Selection(owner=owner, session_id=session_id)))
    digests += [_digest(tx, *name) for name in names]
    return _match(tx, digests, since=since)


def was_line_erased(
    tx: Transaction, line: NoteLine | FeedbackLine | OutputLine | ItemLine | ShowingLine
) -> bool:
    """Whether a line of an export is older than its erasure, or that of its owner or session."""
    match line:
        case OutputLine():
            since = line.kept_at.replace(" ", "T")  # SQLite's own form of a time
            return erased_since(tx, line.owner, None, since, ("output", line.owner, line.key))
        case NoteLine() | FeedbackLine():
            return erased_since(tx, line.owner, line.session_id, line.event_time)
        case ItemLine():
            of = line.owner, line.collection
            names: list[tuple[str | None, ...]] = [
                ("item", *of, path_text(line.namespace[:labels]), None)
                for labels in range(len(line.namespace) + 1)
            ]
            names.append(("item", *of, path_text(line.namespace), line.key))
            return erased_since(tx, line.owner, line.session_id, line.updated_at, *names)
        case ShowingLine():
            return erased_since(tx, line.owner, line.session_id, line.shown_at)


def _match(tx: Transaction, digests: Sequence[str], *, since: str = "") -> bool:
    asked = {"digests": as_json(digests), "since": since}
    return bool(tx.execute("stands_for", **asked).fetchone()["stands"])


def add_tombstones(
    tx: Transaction,
    selection: Selection,
    rows: Sequence[Row],
    how: ErasureOptions,
) -> None:
    """Prevent these rows from being stored again."""
    _has_any(tx)
    digests: list[str] = []
    for row in rows:
        names: list[tuple[str, ...]] = [
            ("id", row["id"]),
            *([("id", row["alias"])] if row["alias"] else []),
        ]
        if row["kind"] == "fact" or len(row["content"].strip()) >= MIN_CHARACTERS:
            names.append(("text", selection.owner, row["content"].strip()))
        if row["key"]:
            names.append(("output", selection.owner, row["key"]))
        digests += [_digest(tx, *name) for name in names]
    _insert(tx, selection.owner, digests, _selection_digest(tx, selection), stamp(how.at))


def add_tombstone_of(tx: Transaction, selection: Selection, how: ErasureOptions) -> None:
    """Prevent older notes, ratings, tool outputs and items from being stored again."""
    _has_any(tx)
    chosen = _selection_digest(tx, selection)
    _insert(tx, selection.owner, [chosen], chosen, stamp(how.at))


def add_tombstone_of_items(
    tx: Transaction, *, owner: str, collection: str, namespace: str, key: str | None, at: str
) -> None:
    """Prevent a deleted item from being imported; without a key, all within the namespace."""
    _has_any(tx)
    digest = _digest(tx, "item", owner, collection, namespace, key)
    _insert(tx, owner, [digest], digest, at)


def _insert(
    tx: Transaction, owner: str, digests: Sequence[str], chosen: str, erased_at: str
) -> None:
    same = {"erased_at": erased_at, "whose": _digest(tx, "owner", owner), "chosen": chosen}
    tx.execute_each("add_tombstone", ({"digest": digest, **same} for digest in digests))
    tx.tombstones.any = True


def lift_tombstones(tx: Transaction, records: Sequence[NewRecord]) -> None:
    """Allow these records to be stored again."""
    if _has_any(tx):
        digests = [digest for record in records for digest in _digests(tx, record)]
        tx.execute("lift_tombstones", digests=as_json(digests))
        tx.tombstones.any = None


def lift_tombstones_of(tx: Transaction, selection: Selection) -> None:
    """Allow everything that this selection erased to be stored again.

    For a selection of everything, that is whatever the owner has ever erased.
    """
    if _has_any(tx):
        tx.execute(
            "lift_tombstones_of",
            whose=_digest(tx, "owner", selection.owner),
            chosen=None if selection.whole_owner else _selection_digest(tx, selection),
        )
        tx.tombstones.any = None


def chosen_among(tx: Transaction, digests: Collection[str]) -> list[tuple[Selection, str]]:
    """The possible selections of existing data that have one of these digests."""
    _has_any(tx)
    found = {
        digest: selection
        for row in tx.execute("could_be_chosen")
        for selection in _selections(row)
        if (digest := _selection_digest(tx, selection)) in digests
    }
    return [(selection, digest) for digest, selection in found.items()]


def _has_any(tx: Transaction) -> bool:
    state = tx.tombstones
    if state.any is None:
        row = tx.execute("has_tombstones").fetchone()
        state.any, state.key = bool(row["any"]), row["key"]
    return state.any


def _digests(tx: Transaction, record: NewRecord) -> Iterator[str]:
    for id_ in {record.id, record.alias, record.turn} - {None}:
        yield _digest(tx, "id", id_)
    stated_again = EXTRACTED_FROM in record.metadata  # its message was not erased
    text = record.content.strip()
    if not (is_live(record) or stated_again) and (
        record.kind == "fact" or len(text) >= MIN_CHARACTERS
    ):
        yield _digest(tx, "text", principal_of(record) or TENANT_OWNED, text)


def _selection_digest(tx: Transaction, selection: Selection) -> str:
    topic = fold_topic(selection.topic) if selection.topic else None
    return _digest(tx, "chosen", selection.owner, selection.session_id, topic, selection.id)


def _digest(tx: Transaction, *parts: str | None) -> str:
    data = msgspec.json.encode((tx.tenant, *parts))
    return hashlib.blake2b(data, key=tx.tombstones.key, digest_size=16).hexdigest()


def _selections(row: Row) -> Iterator[Selection]:
    """Yield the selections that could have erased a record, a note or an item."""
    owner = row["owner"]
    if owner is None:
        return
    yield Selection(owner=owner)
    if row["session_id"] is not None:
        yield Selection(owner=owner, session_id=row["session_id"])
    if row["folded_topic"] is not None:
        yield Selection(owner=owner, topic=row["folded_topic"])
    for id_ in {row["id"], row["alias"]} - {None}:
        yield Selection(owner=owner, id=id_)
