"""Loads named statements, those of the ledger's operations and of an engine, and its tables."""

import re
from collections.abc import Iterable
from importlib.resources import files

SCHEMA_FILE = "schema.sql"
"""The file of an engine with its tables."""
_NAME = re.compile(r"^-- (name|part): (\w+)$", re.MULTILINE)
_COMMENT = re.compile(r"^--.*\n?", re.MULTILINE)
"""A line of its own: it says something of the statement that follows it."""
_NUMBER = re.compile(r"^-- number: (\d+)$", re.MULTILINE)


def statements(package: str = __name__) -> dict[str, str]:
    """The named statements in the SQL files of a package, by default the shared ones."""
    return named(
        file.read_text(encoding="utf-8")
        for file in files(package).iterdir()
        if file.name.endswith(".sql") and file.name != SCHEMA_FILE
    )


def schema(package: str) -> tuple[int, str]:
    """The statements that create an engine's tables, after the number of this state of them."""
    script = (files(package) / SCHEMA_FILE).read_text(encoding="utf-8")
    (number,) = _NUMBER.findall(script)
    return int(number), script


def named(texts: Iterable[str]) -> dict[str, str]:
    """The statements in these texts, by name.

    A part of a text stands in what follows it, wherever that has its name in braces.

    Raises:
        ValueError: Two statements have the same name.
    """
    found: dict[str, str] = {}
    for text in texts:
        parts: dict[str, str] = {}
        _, *pieces = _NAME.split(text)
        for what, name, written in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
            piece = _COMMENT.sub("", written).strip()
            if name in found or name in parts:
                raise ValueError(f"Two statements are named {name}.")
            for part, included in parts.items():
                piece = piece.replace(f"{{{part}}}", included)
            (parts if what == "part" else found)[name] = piece
    return found
