"""The ledger's SQL: numbered migrations, and named statements."""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

_HERE = files(__name__)
_MIGRATION = re.compile(r"\d{4}_.*\.sql$")
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def migrations() -> list[Traversable]:
    """The migrations in their order; released ones never change."""
    return sorted(
        (file for file in _HERE.iterdir() if _MIGRATION.match(file.name)),
        key=lambda file: file.name,
    )


def statements() -> dict[str, str]:
    """The named statements of every file that is no migration."""
    named: dict[str, str] = {}
    for file in _HERE.iterdir():
        if file.name.endswith(".sql") and not _MIGRATION.match(file.name):
            _, *parts = _NAME.split(file.read_text(encoding="utf-8"))
            named |= zip(parts[::2], map(str.strip, parts[1::2]), strict=True)
    return named
