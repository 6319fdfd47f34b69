"""Show a caller a record: one answer's fields, without telling who else stated it."""

from collections.abc import Callable
from typing import Any, TypeVar

import msgspec

from local2.ledger.records import Record, source_class_of, sources_of
from local2.memory.scopes import stated_by
from local2.protocol.envelope import Caller

S = TypeVar("S", bound=msgspec.Struct)

_DERIVED: dict[str, Callable[[Record, Caller], Any]] = {
    "active": lambda record, _: record.superseded_by is None,
    "by": stated_by,
    "source_class": lambda record, _: source_class_of(record),
    "source_kind": lambda record, _: record.kind,
    "sources": lambda record, _: sources_of(record),
    "superseded_by": lambda record, _: record.superseded_by or None,
}
"""Fields of answers that are no columns of the record, or show less than these."""
_COLUMNS = frozenset(Record.__struct_fields__)


def view(record: Record, caller: Caller, into: type[S], **other: Any) -> S:
    """Return what the caller is shown of a record: the fields of `into`, some of them given."""
    fields = {
        name: _DERIVED[name](record, caller) if name in _DERIVED else getattr(record, name)
        for name in into.__struct_fields__
        if name not in other and (name in _DERIVED or name in _COLUMNS)
    }
    return into(**fields, **other)
