"""Translates the ledger's statements from SQLite's SQL to PostgreSQL's, once, when they are loaded.

What SQLite's planner is told (INDEXED BY, a plus before a column, CROSS JOIN for an order) is left
out. Statements that differ in more than a few words stand in `differing.sql`.
"""

import re
from collections.abc import Callable

from local2.ledger.sql import statements

NUMBERS = {"rows", "exclude"}
"""Parameters that are lists of row numbers; all other lists have texts."""
_COMMENT = re.compile(r"--[^\n]*")
_RULES: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r" INDEXED BY \w+| NOT INDEXED", ""),
    (r"\+(?=[a-z])", ""),
    (r"\bCROSS JOIN (\w+(?:\(:\w+\))?(?: AS \w+)?\s+ON)\b", r"JOIN \1"),
    # What another stack does is left out like what this one does.
    (
        r"record NOT IN \(SELECT value FROM json_each\(:exclude\)\)",
        r"\g<0> AND is_free(claimed_by, :stack)",
    ),
    (r"\bjson_each\(:(\w+)\)(?: AS (\w+))?", lambda found: _elements(found[1], found[2])),
    (r"\bifnull\(", "coalesce("),
    # A column, because the sum of two types cannot be searched under row-level security.
    (r"\bcoalesce\((\w+\.)?stands_at, (?:\w+\.)?row\)", r"\1stands"),
    (r"\binstr\(", "strpos("),
    (r"\browid\b", "row"),
    (r"\bIS NOT (?!NULL\b|DISTINCT\b)", "IS DISTINCT FROM "),
    (r"\bIS (?!NOT\b|NULL\b|DISTINCT\b)", "IS NOT DISTINCT FROM "),
    # Prepared statements need the type of a parameter that may be missing.
    (r":(\w+) IS NULL\b", r"CAST(:\1 AS text) IS NULL"),
    (r"\bLIMIT :limit\b", "LIMIT nullif(:limit, -1)"),  # -1: no limit
    (r"\bmax\((\w[\w.]*, [^()]*)\)", r"greatest(\1)"),
    (r"\bmin\((\w[\w.]*, [^()]*)\)", r"least(\1)"),
    (r"\bsubstr\(([\w.]+), -(\d+)\)", r"right(\1, \2)"),
    # Looked up for each record: tasks come and go, so that PostgreSQL takes thousands of them for
    # one, and would read them all for each record. OFFSET keeps it from making this a join.
    (r"(?<=AND task\.record = record\.row)\)", " OFFSET 0)"),
    (r"^INSERT OR IGNORE (.*?);?\s*$", r"INSERT \1\nON CONFLICT DO NOTHING;"),
)


def translated(statement: str) -> str:
    """A statement of SQLite as PostgreSQL reads it."""
    statement = _COMMENT.sub("", statement)
    for pattern, replacement in _RULES:
        statement = re.sub(pattern, replacement, statement, flags=re.DOTALL)
    return with_parameters(statement)


def with_parameters(statement: str) -> str:
    """A statement with the parameters as psycopg marks them: %(name)s for :name."""
    statement = _COMMENT.sub("", statement).replace("%", "%%")
    return re.sub(r"(?<![:\w]):(\w+)", r"%(\1)s", statement).strip()


def _elements(name: str, alias: str | None) -> str:
    """The elements of a list as a table with the columns `value` and `key`."""
    if name in NUMBERS:
        elements = f"unnest(CAST(translate(:{name}, '[]', '{{}}') AS bigint[]))"
    else:
        elements = f"jsonb_array_elements_text(CAST(:{name} AS jsonb))"
    return f"{elements} WITH ORDINALITY AS {alias or 'listed'} (value, key)"


_ORDERS = {
    "records": "wanted.key",
    "visible": "wanted.key",
    "topic_rows": "wanted.key, record.row",
    "items_of_records": "wanted.key",
    "told_in_turn": "row",
    "known_result": "id",
    "shown": "row",
    "rows_of_owner": "row",
    "rows_of_topic": "row",
    "rows_of_id": "row",
    "rows_of_turns": "other.row",
    "rows_of_documents": "other.row",
    "rows_derived": "row",
    "ids_of": "wanted.key",
    "targets_of": "target",
    "stated_aliases": "wanted.key",
    "relations_of": "incoming, row, relation_type",
    "related": "1, 2",
    "item_relations": "1, 2, 3",
    "replaced": "1, 2, 3",
    "facts_that_stand": "1, 2",
    "own_rows": "row",
    "rows_of_place": "row",
}
"""The orders of rows that are SQLite's without being asked for."""


def _in_order(name: str, statement: str) -> str:
    """A statement whose rows come in SQLite's order; a limit takes the first of them."""
    if name not in _ORDERS:
        return statement
    whole = _COMMENT.sub("", statement).strip().rstrip(";")
    query, limit, rest = whole.rpartition("\nLIMIT")
    if not query:
        query, limit, rest = rest, "", ""
    return f"{query}\nORDER BY {_ORDERS[name]}{limit}{rest};"


STATEMENTS = {
    name: translated(_in_order(name, statement)) for name, statement in statements().items()
} | {name: with_parameters(statement) for name, statement in statements(__package__).items()}
