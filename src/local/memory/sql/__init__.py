"""The ledger's SQL: numbered migrations, and named statements."""

import re
from importlib.resources import files
from importlib.resources.abc import Traversable

_HERE = files(__name__)
_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


def migrations() -> list[Traversable]:
    """The migrations in their order; released ones never change."""
    return sorted(
        (file for file in _HERE.iterdir() if re.match(r"\d{4}_.*\.sql$", file.name)),
        key=lambda file: file.name,
    )


def statements() -> dict[str, str]:
    """The statements by name."""
    _, *parts = _NAME.split((_HERE / "statements.sql").read_text(encoding="utf-8"))
    return {name: sql.strip() for name, sql in zip(parts[::2], parts[1::2], strict=True)}
