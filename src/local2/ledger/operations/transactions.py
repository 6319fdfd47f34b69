"""Executes named statements, and converts rows to records.

The tenant is bound to each statement, here and nowhere else. What is about a whole file, with all
its tenants, executes its statement itself, in `engines/`. Before a ledger is opened,
`stack/ledgers.py` asks whether a tenant has records.
`tests/ledger/sqlite/test_tenant_filter.py` lists these, and the statements that name no tenant.
"""

from collections.abc import Callable, Collection, Coroutine, Iterable, Mapping, Sequence
from copy import copy
from datetime import datetime
from functools import lru_cache, partial, wraps
from operator import itemgetter
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from local2.background import waiting_for
from local2.errors import QuotaError
from local2.ledger.engines import (
    Connection,
    Cursor,
    Database,
    NewVector,
    Row,
    TextIndex,
    Version,
)
from local2.ledger.records import LEDGER, UNLIMITED, NewRecord, Quota, Record, stamp
from local2.protocol.payloads import Json
from local2.protocol.tool import may_wait

_NO_COLUMNS = {"features", "tasks", "output", "parts"}
COLUMNS = tuple(name for name in Record.__struct_fields__ if name not in _NO_COLUMNS)
AFTER_ALL = 2**62
"""A row number higher than any other."""
LEAST_PATIENCE = 5.0
"""Seconds for which a write waits for others at least. Whoever waits less and tries again would
lose its place to turns of the same owner, which wait without limit. And some calls write many
times, and go on when nobody waits for them."""
P = ParamSpec("P")
S = TypeVar("S", bound="Part")
T = TypeVar("T")
Parameters = dict[str, Any]


class TombstoneState:
    """Whether a tenant has tombstones, None if that is unknown, and the key of their hashes."""

    def __init__(self) -> None:
        self.any: bool | None = None
        self.key = b""


class Transaction:
    """Executes one tenant's statements inside one read, or inside one write: all of it or nothing.

    An operation of the ledger is a function of a transaction and of what it is asked to do.
    """

    __slots__ = ("_connection", "_database", "_quota", "_statements", "tenant", "tombstones")

    def __init__(
        self,
        database: Database,
        connection: Connection,
        tenant: str,
        quota: Quota,
        tombstones: TombstoneState,
    ) -> None:
        self._database = database
        self._statements = database.statements
        self._connection = connection
        self._quota = quota
        self.tenant = tenant
        self.tombstones = tombstones

    @property
    def text(self) -> TextIndex:
        """The words of the records."""
        return self._database.text

    @property
    def is_shared(self) -> bool:
        """Whether other stacks write the ledger, too."""
        return self._database.is_shared

    def version(self) -> Version:
        """What this read sees of the changes."""
        return self._database.version(self)

    def add_rows(self, new: Mapping[str, NewRecord]) -> dict[str, int]:
        """Add records except those whose ids exist; return the new rows by their ids."""
        return self._database.add_rows(self, new)

    def keep_vectors(self, vectors: Sequence[NewVector]) -> None:
        """Store the vectors of records that are still there, in place of former ones."""
        self._database.keep_vectors(self, vectors)

    def execute(self, statement: str, **values: Any) -> Cursor:
        """Execute a named statement."""
        return self._connection.execute(self._statements[statement], self._bound(values))

    def execute_each(self, statement: str, many: Iterable[Parameters]) -> None:
        """Execute a named statement once for each set of values."""
        self._connection.executemany(self._statements[statement], map(self._bound, many))

    def refuse_excess(self) -> None:
        """Check the quota; called in a write after each addition.

        Raises:
            QuotaError: The tenant exceeds its quota; the transaction is rolled back.
        """
        quota = self._quota
        if quota == UNLIMITED:
            return
        used = self.execute("used").fetchone()
        for name, limit in (("records", quota.records), ("bytes", quota.bytes)):
            if limit and used is not None and used[name] > limit:
                raise QuotaError(
                    f"The tenant {self.tenant} may store {limit:,} {name}, and no more fit.",
                    remedy="Forget what is not needed, or raise "
                    f"tenant_{name} in config/limits.yaml.",
                )

    def _bound(self, values: Parameters) -> Parameters:
        return {**values, "tenant": self.tenant}


class TenantRows:
    """Runs the operations of one tenant. A write returns once it is on disk."""

    def __init__(self, database: Database, tenant: str, quota: Quota = UNLIMITED) -> None:
        self._database = database
        self._quota = quota
        self._tombstones = TombstoneState()
        self._rests_on: Collection[str] | None = None
        self.tenant = tenant
        self.is_shared = database.is_shared

    def resting_on(self, owners: Iterable[str]) -> "TenantRows":
        """The rows for writes that rest on what there is of these owners only.

        Several stacks may write a ledger: all other writes of the tenant wait for one that rests on
        everything, as an erasure does.
        """
        if not self.is_shared:
            return self  # one writer does one after the other
        rows = copy(self)
        rows._rests_on = frozenset(owners)  # noqa: SLF001 - its own copy
        return rows

    async def read(
        self, operation: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run an operation on the reader's connection; it must not write."""
        reading = self._database.read(
            lambda c: operation(self._transaction(c), *args, **kwargs), owner=self.tenant
        )
        return await waiting_for(LEDGER, reading)

    async def read_apart(
        self, operation: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run an operation that takes long and does not write; no other read waits for it."""
        return await self._database.read_apart(
            lambda c: operation(self._transaction(c), *args, **kwargs), owner=self.tenant
        )

    async def write(
        self, operation: Callable[Concatenate[Transaction, P], T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Run an operation in one transaction, which is rolled back if it raises.

        Raises:
            StorageError: It could not begin while the caller of the current call waits.
        """
        writing = self._database.write(
            lambda c: operation(self._transaction(c), *args, **kwargs),
            owner=self.tenant,
            rests_on=self._rests_on,
            within=max(may_wait(), LEAST_PATIENCE),
        )
        return await waiting_for(LEDGER, writing)

    async def one(self, statement: str, **values: Any) -> Row | None:
        """The first row, or None."""
        row: Row | None = await self.read(lambda tx: tx.execute(statement, **values).fetchone())
        return row

    async def change(self, statement: str, **values: Any) -> int:
        """Execute a named statement in a transaction; return the number of rows it changed."""
        return await self.write(lambda tx: tx.execute(statement, **values).rowcount)

    def _transaction(self, connection: Connection) -> Transaction:
        tombstones = TombstoneState() if self._database.is_shared else self._tombstones
        return Transaction(self._database, connection, self.tenant, self._quota, tombstones)


class Part:
    """A part of one tenant's ledger.

    Its operations are declared with `reads`, `reads_apart`, `writes` and `writes_of`.
    """

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows


def reads(
    operation: Callable[Concatenate[S, Transaction, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Run a part's operation as one read; its callers leave out the transaction."""
    return _run_by(TenantRows.read, operation)


def reads_apart(
    operation: Callable[Concatenate[S, Transaction, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Run a part's operation as a read that takes long, and that no other read waits for."""
    return _run_by(TenantRows.read_apart, operation)


def writes(
    operation: Callable[Concatenate[S, Transaction, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """Run a part's operation as one write; its callers leave out the transaction."""
    return _run_by(TenantRows.write, operation)


def _run_by(
    run: Callable[..., Coroutine[Any, Any, T]],
    operation: Callable[Concatenate[S, Transaction, P], T],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    @wraps(operation)
    async def call(part: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await run(part._rows, partial(operation, part), *args, **kwargs)  # noqa: SLF001 - a method

    return call


def writes_of(
    owners: Callable[..., Iterable[str]],
) -> Callable[
    [Callable[Concatenate[S, Transaction, P], T]],
    Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
]:
    """Run a part's operation as one write that rests on what there is of some owners only.

    `owners` returns them from what the operation is asked to do.
    """

    def declare(
        operation: Callable[Concatenate[S, Transaction, P], T],
    ) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
        @wraps(operation)
        async def write(part: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
            rows = part._rows.resting_on(owners(*args, **kwargs))  # noqa: SLF001 - a method
            return await rows.write(partial(operation, part), *args, **kwargs)

        return write

    return declare


def record_of(row: Row) -> Record:
    """Convert a row that has all columns to a record."""
    return records_of([row])[0]


def records_of(rows: Iterable[Row]) -> list[Record]:
    """Convert the rows of one statement, which have all columns, to records."""
    found = list(rows)
    if not found:
        return []
    in_order = _in_order(tuple(found[0].keys()))  # once: the names of a row are slow
    records = []
    for row in found:
        columns = dict(zip(COLUMNS, in_order(tuple(row)), strict=True))
        for name, read in _READERS.items():
            if (stored := columns[name]) is not None:
                columns[name] = read(stored)
        records.append(Record(**columns))
    return records


def records_at(tx: Transaction, rows: Iterable[int]) -> dict[int, Record]:
    """The records in these rows, active or not, by row and in the order of the rows."""
    found = records_of(tx.execute("records", rows=as_json(list(rows))))
    return {record.row: record for record in found}


@lru_cache
def _in_order(names: tuple[str, ...]) -> Callable[[tuple[Any, ...]], tuple[Any, ...]]:
    """What takes a record's columns from a row with these names, without looking them up."""
    return itemgetter(*map(names.index, COLUMNS))


def as_json(value: Any) -> str:
    """A value as JSON, for statements that take a list or store JSON."""
    return msgspec.json.encode(value).decode()


_READERS_BY_TYPE: dict[Any, Callable[[Any], Any]] = {
    datetime: datetime.fromisoformat,
    datetime | None: datetime.fromisoformat,
    bool | None: bool,
    Json: msgspec.json.decode,
    tuple[str, ...]: msgspec.json.Decoder(tuple[str, ...]).decode,
}
_WRITERS_BY_TYPE: dict[Any, Callable[[Any], Any]] = {
    datetime: stamp,
    datetime | None: stamp,
    Json: as_json,
    tuple[str, ...]: as_json,
}
_TYPES = {
    field.name: field.type for field in msgspec.structs.fields(Record) if field.name in COLUMNS
}
_READERS = {
    name: _READERS_BY_TYPE[type_] for name, type_ in _TYPES.items() if type_ in _READERS_BY_TYPE
}
"""What reads a column of `Record` that SQLite stores as something else, by the column's type."""
WRITERS = {
    name: _WRITERS_BY_TYPE[type_] for name, type_ in _TYPES.items() if type_ in _WRITERS_BY_TYPE
}
"""What converts such a column for SQLite."""
