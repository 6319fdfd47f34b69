"""Converts records to rows and back."""

from datetime import datetime
from typing import Any

import msgspec

from local.ledger.records import NewRecord, Record, principal_of, source_class_of, stamp
from local.ledger.sqlite.database import Row
from local.protocol.envelope import utc_now
from local.text.features import Features, pairs_of
from local.text.names import fold_topic

NO_STATE = dict.fromkeys(Record.__struct_fields__)
"""The columns of a new record's state, all empty."""
COLUMNS = tuple(name for name in Record.__struct_fields__ if name not in {"features", "tasks"})


def record_of(row: Row) -> Record:
    """Convert a row that has all columns to a record."""
    columns = {name: row[name] for name in COLUMNS}
    columns["event_time"] = datetime.fromisoformat(row["event_time"])
    columns["metadata"] = msgspec.json.decode(row["metadata"])
    columns["pending"] = None if row["pending"] is None else bool(row["pending"])
    columns["keywords"] = msgspec.json.decode(row["keywords"], type=tuple[str, ...])
    columns["queries"] = msgspec.json.decode(row["queries"], type=tuple[str, ...])
    for name in ("retired_at", "stored_at"):
        columns[name] = datetime.fromisoformat(row[name]) if row[name] else None
    return Record(**columns)


def columns_of(record: NewRecord, features: Features) -> dict[str, Any]:
    """Return the columns of a new or stored record."""
    values = {**NO_STATE, **msgspec.structs.asdict(record)}
    values["metadata"] = as_json(record.metadata)
    values["event_time"] = stamp(record.event_time)
    values["folded_topic"] = fold_topic(record.topic) if record.topic else None
    values["source_class"] = source_class_of(record)
    if isinstance(record, Record):
        values["retired_at"] = stamp(record.retired_at) if record.retired_at else None
    else:
        values["stated_by"] = principal_of(record)
    now = utc_now()
    stored_at = values["stored_at"] or (now if record.event_time > now else None)
    values["stored_at"] = stored_at and stamp(stored_at)
    values["pairs"] = pairs_of(features.stems)
    values["keywords"], values["queries"] = as_json(record.keywords), as_json(record.queries)
    return values


def as_json(value: Any) -> str:
    """Return a value as JSON, for statements that take a list or store JSON."""
    return msgspec.json.encode(value).decode()
