"""Opens connections to PostgreSQL, and executes statements on them.

Text of PostgreSQL cannot hold NUL: it is escaped, also in JSON, and comes back as it came.
"""

import math
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.rows import RowMaker

from local2.errors import StorageError
from local2.ledger.engines import held_up_error

NETWORK: Mapping[str, str | int] = {
    "target_session_attrs": "read-write",
    "connect_timeout": 4,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""How soon a server that has gone silent counts as lost, and which of several servers in a URL is
used: the one that can be written. What the URL says goes first."""
BIND = "SELECT set_config('local2.tenant', %(tenant)s, true), set_config('jit', 'off', true)"
"""Lets a transaction see the rows of one tenant (`of_tenant`, schema.sql). To compile a statement
would take longer than to carry it out: the server overestimates those with lists."""
LIMIT_WAITS = "set_config('lock_timeout', %(lock_timeout)s, true)"
"""Limits how long a transaction waits for each lock."""
LIMIT_SILENCE = "set_config('idle_in_transaction_session_timeout', %(longest_silence)s, true)"
"""Ends a transaction, with its locks, whose client hangs or is gone without a word: PostgreSQL
would keep it as long as the process is there, or for hours after its machine has lost its power."""
LONGEST_SILENCE = 10.0
"""Seconds between two statements of a transaction: as long as a silent stack keeps its claims."""
LONGEST_WAIT = 24 * 3600.0
"""Seconds from which a wait is not limited: PostgreSQL knows no limit above 24 days."""
_REMEDIES: Mapping[type[psycopg.Error], str] = {
    psycopg.errors.DiskFull: "The disk of PostgreSQL is full: make room.",
    psycopg.errors.InsufficientPrivilege: "As an administrator of the server, let the user of "
    "`ledger` own the database, and execute there GRANT USAGE ON SCHEMA pgvector TO that user.",
    psycopg.errors.DuplicateTable: "The database has another program's tables: name another one "
    "in `ledger`.",
}
_ESCAPES = {
    "\x00": "\x1az",
    "\x1a": "\x1as",
    "\\u0000": "\\u001az",
    "\\u001a": "\\u001as",
}
"""What stands for NUL, and for what begins it; both as they are, and as they are in JSON. Only a
letter is added, which is the same in JSON: a text in JSON is escaped as it is alone, even one that
has the six characters of an escape."""
_TEXTS = {escape: text for text, escape in _ESCAPES.items()}
_SPECIAL = re.compile("|".join(map(re.escape, _ESCAPES)))
_ESCAPED = re.compile("|".join(map(re.escape, _TEXTS)))


def escaped(text: str) -> str:
    """A text without NUL; in JSON, without its escape."""
    return _SPECIAL.sub(lambda found: _ESCAPES[found[0]], text)


def unescaped(text: str) -> str:
    """The text that was escaped."""
    return _ESCAPED.sub(lambda found: _TEXTS[found[0]], text)


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        text = str(data, "utf-8")
        if "\x1a" in text or "\\u001a" in text:  # not asked by a call, for thousands of texts
            return unescaped(text)
        return text


class Row(tuple[Any, ...]):
    """A row whose values have numbers and names."""

    __slots__ = ()
    positions: ClassVar[dict[str, int]]

    def __getitem__(self, column: Any) -> Any:
        if column.__class__ is str:
            return tuple.__getitem__(self, self.positions[column])
        return tuple.__getitem__(self, column)

    def keys(self) -> list[str]:
        return list(self.positions)


@lru_cache(maxsize=1_000)
def _row_class(names: tuple[str, ...]) -> type[Row]:
    positions: dict[str, int] = {}
    for position, name in enumerate(names):
        positions.setdefault(name, position)
    return type("Row", (Row,), {"__slots__": (), "positions": positions})


def _row_factory(cursor: "psycopg.Cursor[Any]") -> RowMaker[Row]:
    described = cursor.description
    return _row_class(tuple(column.name for column in described or ()))


class UnknownOutcomeError(Exception):
    """The connection was lost before a commit was answered: `transaction` may be committed."""

    def __init__(self, transaction: str, error: psycopg.Error) -> None:
        super().__init__(transaction)
        self.transaction = transaction
        self.error = error


class PostgresConnection:
    """A connection whose statements have named parameters, and are planned for their values.

    The server's own parameters would be typed and planned once for all values: a general plan reads
    the wrong index where one owner has a hundred times as many rows as another. Only `prepared`
    statements, which search nothing, are planned once.

    Statements see the rows of one tenant only, whatever they ask for (row-level security), and none
    outside of `reading` and `writing`. What says so, and what else goes before them, is sent with
    them. Nothing is set for longer than a transaction, since pgbouncer may give the connection to
    another client then.
    """

    def __init__(
        self,
        connection: "psycopg.Connection[Row]",
        stack: str = "",
        prepared: Collection[str] = (),
    ) -> None:
        """`stack`: the id of the stack that executes the statements, which they name as :stack."""
        self.raw = connection
        self._stack = stack
        self._prepared = prepared
        self._before = ""
        self._bound: Mapping[str, Any] = {}
        self._is_beginning = False
        self._transaction = ""

    @contextmanager
    def reading(self, tenant: str) -> Iterator[None]:
        """Read a tenant's rows; each statement sees what is committed when it begins."""
        self._before, self._bound, self._is_beginning = f"{BIND};\n", {"tenant": tenant}, False
        try:
            yield
        finally:
            self._before = ""

    @contextmanager
    def writing(
        self, tenant: str, *, within: float = math.inf, locks: str = "", **values: Any
    ) -> Iterator[None]:
        """Write a tenant's rows in a transaction, which begins with the first statement.

        `locks`: statements that wait for other transactions, with their values. Each wait may last
        `within` seconds.

        Raises:
            UnknownOutcomeError: The connection was lost while the transaction was committed.
        """
        begun = [BIND, "pg_current_xact_id()::text AS number", LIMIT_SILENCE]
        values["longest_silence"] = str(round(LONGEST_SILENCE * 1000))
        if within < LONGEST_WAIT:
            begun.append(LIMIT_WAITS)
            values["lock_timeout"] = str(max(round(within * 1000), 1))  # 0 would be no limit
        self._before = f"BEGIN;\n{', '.join(begun)};\n{locks}"
        self._bound, self._is_beginning = {"tenant": tenant, **values}, True
        try:
            yield
        except BaseException:
            if not self._before and not self.raw.closed:
                self.raw.execute("ROLLBACK")
            self._before = ""
            raise
        if self._before:
            self._before = ""
            return
        try:
            self.raw.execute("COMMIT")
        except psycopg.Error as error:
            if is_away(error):
                raise UnknownOutcomeError(self._transaction, error) from error
            raise

    def execute(self, statement: str, values: Mapping[str, Any], /) -> "psycopg.Cursor[Row]":
        before, is_beginning = self._before, self._is_beginning
        if statement in self._prepared:
            if before and is_beginning:  # the server takes one prepared statement at a time
                self._before = ""
                self._note_transaction(self.raw.execute(before, _stored(self._bound)))
            prepared = psycopg.Cursor(self.raw)
            if not before or is_beginning:
                return prepared.execute(statement, _stored(values), prepare=True)
            with self.raw.pipeline():  # one round trip, and one transaction
                psycopg.Cursor(self.raw).execute(BIND, _stored(self._bound), prepare=False)
                return prepared.execute(statement, _stored(values), prepare=True)
        if not before:
            return self.raw.execute(statement, {**_stored(values), "stack": self._stack})
        if is_beginning:
            self._before = ""
        bound = _stored({**self._bound, **values, "stack": self._stack})
        cursor = self.raw.execute(before + statement, bound)
        if is_beginning:
            self._note_transaction(cursor)
        while cursor.nextset():  # to the result of the statement itself, which is the last one
            pass
        return cursor

    def _note_transaction(self, begun: "psycopg.Cursor[Row]") -> None:
        """Note the number of a transaction, which its second statement returned."""
        begun.nextset()
        row = begun.fetchone()
        self._transaction = row["number"] if row else ""

    def executemany(
        self, statement: str, many: Iterable[Mapping[str, Any]], /
    ) -> "psycopg.Cursor[Row]":
        cursor = self.raw.cursor()
        for values in many:
            cursor = self.execute(statement, values)
        return cursor


def _stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as PostgreSQL stores them: texts escaped, flags as numbers."""
    return {
        name: escaped(value)
        if value.__class__ is str
        else int(value)
        if value.__class__ is bool
        else value
        for name, value in values.items()
    }


def is_away(error: psycopg.Error) -> bool:
    """Whether the server cannot be reached or cannot write; another one may soon."""
    gone = (
        psycopg.errors.AdminShutdown,
        psycopg.errors.CrashShutdown,
        psycopg.errors.CannotConnectNow,
        psycopg.errors.IdleInTransactionSessionTimeout,
        psycopg.errors.ReadOnlySqlTransaction,
    )
    # Class 08 is pgbouncer's: it answers for a server that it cannot reach.
    lost = error.sqlstate is None or error.sqlstate.startswith("08")
    return (isinstance(error, psycopg.OperationalError) and lost) or isinstance(error, gone)


def as_storage_error(error: psycopg.Error) -> StorageError:
    """Convert PostgreSQL's error to a readable StorageError."""
    reason = " ".join(str(error).split()).rstrip(".?")
    if is_away(error):
        return StorageError(
            f"The database of the ledger cannot be reached: {reason}.",
            remedy="Check that the server of `ledger` in config/memory.yaml runs (it ends when the "
            "disk of its write-ahead log is full), that it can be reached and written to, that it "
            "has the database, that it allows so many connections, and that it accepts the user "
            "and the password (~/.pgpass).",
        )
    if isinstance(error, psycopg.errors.LockNotAvailable):
        return held_up_error()
    for kind, remedy in _REMEDIES.items():
        if isinstance(error, kind):
            return StorageError(f"The ledger refused: {error.diag.message_primary}.", remedy=remedy)
    return StorageError(f"The ledger refused: {reason}.")


def connect(url: str, stack: str = "", prepared: Collection[str] = ()) -> PostgresConnection:
    """Connect to a database, for a stack; its server keeps these statements prepared.

    Raises:
        psycopg.Error: It cannot be reached, or it refuses.
    """
    raw = psycopg.connect(
        make_conninfo(
            url, **{name: NETWORK[name] for name in NETWORK.keys() - conninfo_to_dict(url).keys()}
        ),
        autocommit=True,
        row_factory=_row_factory,
        cursor_factory=psycopg.ClientCursor,
    )
    raw.adapters.register_loader("text", _TextLoader)
    return PostgresConnection(raw, stack, prepared)
