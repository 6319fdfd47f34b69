"""Loads the ledger's SQL: numbered migrations and named statements."""

import re
from collections.abc import Iterable
from importlib.resources import files
from importlib.resources.abc import Traversable

_HERE = files(__name__)
_MIGRATION = re.compile(r"\d{4}_.*\.sql$")
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def migrations() -> list[Traversable]:
    """Return the migrations, ordered by number; released ones never change."""
    return sorted(
        (file for file in _HERE.iterdir() if _MIGRATION.match(file.name)),
        key=lambda file: file.name,
    )


def statements() -> dict[str, str]:
    """Return the named statements of all other SQL files."""
    return named(
        file.read_text(encoding="utf-8")
        for file in _HERE.iterdir()
        if file.name.endswith(".sql") and not _MIGRATION.match(file.name)
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
