"""Opens connections to PostgreSQL, and executes statements on them.

Text of PostgreSQL cannot hold NUL: it is escaped, also in JSON, and comes back as it came.
"""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, ClassVar

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Loader
from psycopg.rows import RowMaker

from local2.errors import StorageError

BIND = "SELECT set_config('local2.tenant', %(tenant)s, true);\n"
"""Lets a transaction see the rows of one tenant (`of_tenant`, schema.sql)."""
OF_ALL = "*"
"""Stands for a tenant in the few statements that are about all of them."""
ESCAPE = "\x1a"
"""Begins what stands for NUL; as it is, it stands twice. In JSON, both are \\u00…"""
_SPECIAL = re.compile("\x00|\x1a|\\\\u0000|\\\\u001a")
_ESCAPED = re.compile("(\x1a|\\\\u001a)(z|\x1a|\\\\u001a)")


def escaped(text: str) -> str:
    """Return a text without NUL; in JSON, without its escape."""
    return _SPECIAL.sub(_escape, text) if _SPECIAL.search(text) else text


def unescaped(text: str) -> str:
    """Return the text that was escaped."""
    if ESCAPE not in text and "\\u001a" not in text:
        return text
    return _ESCAPED.sub(_unescape, text)


def _escape(found: re.Match[str]) -> str:
    match found[0]:
        case "\x00":
            return f"{ESCAPE}z"
        case "\\u0000":
            return "\\u001az"
        case escape:
            return escape * 2


def _unescape(found: re.Match[str]) -> str:
    escape, what = found[1], found[2]
    if what != "z":
        return escape
    return "\x00" if escape == ESCAPE else "\\u0000"


class _TextLoader(Loader):
    def load(self, data: Buffer) -> str:
        return unescaped(str(data, "utf-8"))


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
        self, connection: "psycopg.Connection[Row]", prepared: Collection[str] = ()
    ) -> None:
        self.raw = connection
        self._prepared = prepared
        self._before = ""
        self._bound: Mapping[str, Any] = {}
        self._only_once = False

    @contextmanager
    def reading(self, tenant: str) -> Iterator[None]:
        """Read a tenant's rows; each statement sees what is committed when it begins."""
        self._before, self._bound, self._only_once = BIND, {"tenant": tenant}, False
        try:
            yield
        finally:
            self._before = ""

    @contextmanager
    def writing(self, tenant: str, *, locks: str = "", **values: Any) -> Iterator[None]:
        """Write a tenant's rows in a transaction, which begins with the first statement.

        `locks`: statements that wait for other transactions, with their values.
        """
        self._before = f"BEGIN;\n{BIND}{locks}"
        self._bound, self._only_once = {"tenant": tenant, **values}, True
        try:
            yield
            if not self._before:
                self.raw.execute("COMMIT")
        except BaseException:
            if not self._before and not self.raw.closed:
                self.raw.execute("ROLLBACK")
            raise
        finally:
            self._before = ""

    def execute(self, statement: str, values: Mapping[str, Any], /) -> "psycopg.Cursor[Row]":
        if statement in self._prepared:
            return self._execute_prepared(statement, values)
        before = self._before
        if not before:
            return self.raw.execute(statement, _stored(values))
        if self._only_once:
            self._before = ""
        cursor = self.raw.execute(before + statement, _stored({**self._bound, **values}))
        while cursor.nextset():  # to the result of the statement itself, which is the last one
            pass
        return cursor

    def _execute_prepared(self, statement: str, values: Mapping[str, Any]) -> "psycopg.Cursor[Row]":
        """Execute a statement of a transaction, which the server keeps prepared."""
        if self._before:  # the server takes one prepared statement at a time
            self.raw.execute(self._before, _stored(self._bound))
            self._before = ""
        cursor = psycopg.Cursor(self.raw)
        return cursor.execute(statement, _stored(values), prepare=True)

    def executemany(
        self, statement: str, many: Iterable[Mapping[str, Any]], /
    ) -> "psycopg.Cursor[Row]":
        cursor = self.raw.cursor()
        for values in many:
            cursor = self.execute(statement, values)
        return cursor


def _stored(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values as PostgreSQL stores them: texts escaped, flags as numbers."""
    return {
        name: escaped(value)
        if value.__class__ is str
        else int(value)
        if value.__class__ is bool
        else value
        for name, value in values.items()
    }


def as_storage_error(error: psycopg.Error) -> StorageError:
    """Convert PostgreSQL's error to a readable StorageError."""
    remedy = None
    if isinstance(error, psycopg.OperationalError):
        remedy = "Check that the server of `ledger` runs, and that it can be reached."
    return StorageError(f"The ledger refused: {' '.join(str(error).split())}.", remedy=remedy)


def connect(url: str, prepared: Collection[str] = ()) -> PostgresConnection:
    """Connect to a database, whose server keeps these statements prepared.

    Raises:
        StorageError: It cannot be reached, or it refuses.
    """
    try:
        raw = psycopg.connect(
            url, autocommit=True, row_factory=_row_factory, cursor_factory=psycopg.ClientCursor
        )
    except psycopg.Error as error:
        raise as_storage_error(error) from error
    raw.adapters.register_loader("text", _TextLoader)
    return PostgresConnection(raw, prepared)
