"""What the operations of a ledger need of a database; each engine is a package here.

Operations, and most of their SQL, are the same for all databases. An engine has connections, the
tables, the statements that only it can read, and the full-text index.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeVar

from local2.errors import StorageError

if TYPE_CHECKING:  # these are operations themselves
    from local2.ledger.operations.candidates import Filter, Pool, PoolMatches
    from local2.ledger.operations.transactions import Transaction
    from local2.ledger.operations.working_sets import Budgets
    from local2.ledger.records import NewRecord
    from local2.ledger.search import Search, StemCounts
    from local2.protocol.maintenance import LiveStack

T = TypeVar("T")

OF_ALL = "*"
"""Stands for a tenant in the few reads and writes that are about all of them."""
NOBODY = ""
"""The tenant of the records that a file has for numbers of rows which a database has skipped."""
MOVED_ROWS = 1_000
"""Maximum number of rows that are moved to another database in one transaction."""
MOVED_BYTES = 4_000_000
"""Bytes of texts and data after which a transaction takes no more rows."""


class Row(Protocol):
    """A row of a result; its values have numbers and names."""

    def __getitem__(self, column: Any, /) -> Any: ...
    def __iter__(self) -> Iterator[Any]: ...
    def keys(self) -> list[str]: ...


class Cursor(Protocol):
    """The result of a statement."""

    @property
    def rowcount(self) -> int: ...
    def fetchone(self) -> Any: ...
    def fetchall(self) -> list[Any]: ...
    def __iter__(self) -> Iterator[Any]: ...
    def close(self) -> None: ...


class Connection(Protocol):
    """A connection, inside a read or a transaction; parameters have names (`:name`)."""

    def execute(self, statement: str, values: Mapping[str, Any], /) -> Cursor: ...
    def executemany(self, statement: str, many: Iterable[Mapping[str, Any]], /) -> Cursor: ...


class Version(NamedTuple):
    """What a read sees of the changes to a database."""

    number: object
    """Equal numbers: nothing was committed between."""
    settled: float = math.inf
    """Changes of lower revisions have all been seen; others may yet be committed."""
    departures: int = 0
    """How often records have left their places, which is no change of these places."""


Work = Callable[[Any], T]
"""A function of a connection, run off the event loop."""


class NewVector(NamedTuple):
    """A record's vector by an embedder, in the form in which it is stored (`packed`)."""

    row: int
    id: str
    embedder: str
    data: bytes


class TextIndex(Protocol):
    """The words of records; all methods are used inside a read, and places are place words."""

    def rows_of_phrase(
        self, tx: "Transaction", phrase: str, places: Sequence[str], limit: int
    ) -> list[int]:
        """The rows of the places that have the words of a phrase one after the other."""

    def rows_of_word(self, tx: "Transaction", word: str, place: str, limit: int) -> list[int]:
        """The active facts of a place that have a word."""

    def rows_of_words(
        self,
        tx: "Transaction",
        words: Sequence[str],
        places: Sequence[str] | None,
        *,
        before: int,
        limit: int,
    ) -> list[int]:
        """The last rows before one that have all the words, of all tenants or the places."""

    def rows_of_any(
        self, tx: "Transaction", words: Sequence[str], places: Sequence[str], limit: int
    ) -> list[int]:
        """The newest active rows of the places that have any of the words."""

    def facts_like(
        self, tx: "Transaction", words: Sequence[str], place: str, limit: int
    ) -> list[Row]:
        """The active facts of a place that have any of these words, the best first."""

    def count_traces(self, tx: "Transaction", words: Sequence[str], rows: str) -> int:
        """In how many of the rows (JSON) the beginning of an erased text is found."""


class FullText(Protocol):
    """The search by words of one tenant; it may hold counts of words. Used inside reads."""

    def pool(
        self, tx: "Transaction", search: "Search", filter_: "Filter", pool: "Pool"
    ) -> "PoolMatches":
        """The candidates by words and topics, and how many records have each word."""

    def counts(self, tx: "Transaction", search: "Search", filter_: "Filter") -> "StemCounts":
        """The numbers of records in the places, in total and with each of the stems."""


class Table(NamedTuple):
    """A table as another database takes it: the columns that are stored, and those of its key."""

    name: str
    columns: tuple[str, ...]
    key: tuple[str, ...]

    @property
    def rows(self) -> str:
        """What a statement reads of it: records that are nobody's are not part of a memory."""
        if self.name == "record":
            return f"(SELECT * FROM record WHERE tenant <> '{NOBODY}') AS record"  # noqa: S608
        return self.name


class Tables(Protocol):
    """The rows of all tenants, for a memory that is moved (`ledger/moving.py`).

    Used inside reads and writes whose owner is `OF_ALL`.
    """

    def described(self, connection: Any) -> list[Table]:
        """The tables in the order in which they were created, without generated columns."""

    def is_unfinished(self, connection: Any) -> bool:
        """Whether a memory is being moved into the database, and not all of it is there."""

    def begin(self, connection: Any, tombstone_key: bytes) -> None:
        """Mark the database as unfinished: no stack opens it. Tombstones get the source's key."""

    def finish(self, connection: Any) -> None:
        """Make what the database has besides the moved rows, and let stacks open it."""

    def page(
        self, connection: Any, table: Table, after: Sequence[Any] | None
    ) -> list[tuple[Any, ...]]:
        """Rows by their keys, from the beginning or after a key; none if there are none."""

    def add(self, connection: Any, table: Table, rows: Sequence[tuple[Any, ...]]) -> None:
        """Add rows; each has the values of the table's columns."""


def first_rows(rows: Iterable[Iterable[Any]]) -> list[tuple[Any, ...]]:
    """As many of the rows as are moved in one transaction."""
    taken: list[tuple[Any, ...]] = []
    size = 0
    for row in islice(rows, MOVED_ROWS):
        values = tuple(row)
        taken.append(values)
        size += sum(len(value) for value in values if isinstance(value, str | bytes))
        if size >= MOVED_BYTES:
            break
    return taken


def names_of(columns: Iterable[str]) -> str:
    """A list of columns for a statement; one of them is named `user`, which SQL reserves."""
    return ", ".join(f'"{column}"' for column in columns)


def held_up_error() -> StorageError:
    """Return the error for a write that did not begin while its caller waited."""
    return StorageError(
        "Other writes of the same memory, or another program that has locked the ledger, took too "
        "long; this was not written.",
        remedy="Try again in a few seconds.",
    )


def unfinished_error(name: str) -> StorageError:
    """The error for a ledger into which a memory is being moved."""
    return StorageError(
        f"{name} has only a part of a memory: `local2 move` has not ended.",
        remedy="Start the same `local2 move` again.",
    )


class Database(Protocol):
    """A database with the ledgers of one or more tenants."""

    @property
    def statements(self) -> Mapping[str, str]:
        """The named statements, as this database reads them."""

    @property
    def text(self) -> TextIndex: ...

    @property
    def tables(self) -> Tables: ...

    @property
    def is_shared(self) -> bool:
        """Whether others write it, too: what was read holds for that read only."""

    @property
    def searches_vectors(self) -> bool:
        """Whether it searches the vectors of records itself (`operations/vectors.py`)."""

    def version(self, tx: "Transaction") -> Version: ...

    async def read(self, work: Work[T], *, owner: str | None = None) -> T:
        """Run `work` off the event loop; it must not write. Owners take turns."""

    async def read_apart(self, work: Work[T], *, owner: str | None = None) -> T:
        """Run `work` that takes long and does not write; no other read waits for it."""

    async def write(
        self,
        work: Work[T],
        *,
        owner: str | None = None,
        rests_on: Collection[str] | None = None,
        within: float = math.inf,
    ) -> T:
        """Run `work` in a transaction; return once it is committed to disk. Owners take turns.

        `rests_on` names what no other write of the owner may change meanwhile; None means all.
        `within`: seconds for which it may wait until other writes are done.

        Raises:
            StorageError: The database refused, e.g. the disk is full; nothing was written.
            Local2Error: `work` raised it; nothing was written.
        """

    def full_text(self, budgets: "Budgets") -> FullText:
        """Make a search by words for one tenant; `budgets` limit what it holds in RAM."""

    def add_rows(self, tx: "Transaction", new: "Mapping[str, NewRecord]") -> dict[str, int]:
        """Add records, by id, except those whose ids exist; return the new rows by their ids."""

    def keep_vectors(self, tx: "Transaction", vectors: Sequence[NewVector]) -> None:
        """Store the vectors of records that are still there, in place of former ones."""

    async def index_vectors(self, tenant: str, embedder: str) -> bool:
        """Build what it needs to search a tenant's large places by this embedder's vectors.

        False: another stack is building at the moment; ask again later.
        """

    async def live_stacks(self) -> "list[LiveStack]":
        """The stacks that work on it, the oldest first; none if only one can."""

    async def server_bytes(self) -> int | None:
        """How much room it takes on its server; None if it is a file here."""

    async def scrub(self) -> None:
        """Remove deleted content from the files, as far as they can be reached.

        Raises:
            StorageError: Another program prevents it.
        """

    async def problems(self) -> list[str]:
        """Read all of the database; return its problems, an empty list if it is sound."""
