"""Loads the ledger's SQL: its schema and named statements."""

import re
from collections.abc import Iterable
from importlib.resources import files

from local2.ledger.sqlite.database.schema import Schema

_HERE = files(__name__)
_SCHEMA = "schema.sql"
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


SCHEMA = Schema(number=19, script=(_HERE / _SCHEMA).read_text(encoding="utf-8"))
"""Numbers 1 to 18 were migrations: ledgers of those may hold what only these cleaned up."""


def statements() -> dict[str, str]:
    """Return the named statements of all other SQL files."""
    return named(
        file.read_text(encoding="utf-8")
        for file in _HERE.iterdir()
        if file.name.endswith(".sql") and file.name != _SCHEMA
    )


def named(texts: Iterable[str]) -> dict[str, str]:
    """Return the statements in these texts, by name.

    Raises:
        ValueError: Two statements have the same name.
    """
    found: dict[str, str] = {}
    for text in texts:
        _, *parts = _NAME.split(text)
        for name, statement in zip(parts[::2], parts[1::2], strict=True):
            if name in found:
                raise ValueError(f"Two statements are named {name}.")
            found[name] = statement.strip()
    return found
