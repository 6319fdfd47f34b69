"""Show a caller a record: one answer's fields, without telling who else stated it."""

from collections.abc import Callable
from functools import cache
from operator import attrgetter
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
    """What the caller is shown of a record: the fields of `into`, some of them given."""
    columns, values_of, derived = _fields_of(into)
    fields = dict(zip(columns, values_of(record), strict=True))
    for name in derived:
        fields[name] = _DERIVED[name](record, caller)
    return into(**(fields | other))


@cache
def _fields_of(
    into: type[msgspec.Struct],
) -> tuple[tuple[str, ...], Callable[[Record], tuple[Any, ...]], tuple[str, ...]]:
    """The names of an answer's fields: those that are columns, and those that are not.

    Between them: what takes the values of those columns from a record.
    """
    names = into.__struct_fields__
    derived = tuple(name for name in names if name in _DERIVED)
    columns = tuple(name for name in names if name in _COLUMNS and name not in _DERIVED)
    return columns, attrgetter(*columns), derived
