"""Every SQL statement is filtered by tenant, in one place that nothing bypasses.

Every named statement requires `:tenant` of each table that it reads or writes, or is listed here
with the reason; `Transaction` always binds it; and no other module executes SQL.
"""

import ast
from pathlib import Path

import pytest

import local2
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.engines.sqlite.schema import STATEMENTS
from local2.ledger.ledger import Ledger
from local2.ledger.operations.transactions import TenantRows, Transaction
from statement_scopes import unfiltered

ROW_NUMBERS = "finds rows by words, and tells nothing of them: `visible` decides who sees them"
OF_ALL = "of the whole file, and tells numbers only"
UNFILTERED = {
    "search_text": ROW_NUMBERS,
    "search_phrase": ROW_NUMBERS,
    "rows_with_words": "finds rows by words, and tells nothing of them: `browse_rows` decides",
    "count_text": "how many rows have a word; the places of a tenant are words, too",
    "last_row": OF_ALL,
    "last_rows": "where an export ends: " + OF_ALL,
    "count_rows": "whether rows are missing: " + OF_ALL,
    "count_shells": "how many of these rows are records: " + OF_ALL,
    "vectors_of_others": "up to where another embedder's vectors are looked for: " + OF_ALL,
    "every_tombstone": "of two copies of a whole ledger, which are compared",
    "check_full_text": "whether the full-text index is whole",
    "merge_text": "overwrites what was deleted of the full-text index",
}

EXECUTING = {"execute", "executemany", "executescript"}
TRANSACTIONS = {"self._tx", "tx", "self"}
EXEMPT_MODULES = {
    "ledger/operations/transactions.py": "Transaction itself",
    "ledger/moving.py": "whole tables, of all tenants",
    "ledger/engines/postgres/tables.py": "the same",
    "ledger/engines/sqlite/tables.py": "the same",
    "ledger/engines/postgres/connections.py": "what a transaction executes",
    "ledger/engines/postgres/database.py": "the transaction around the work, and its lock",
    "ledger/engines/postgres/neighbours.py": "indexes of a tenant's large places",
    "ledger/engines/postgres/schema.py": "the tables of the whole database",
    "ledger/engines/sqlite/database.py": "a pragma; merge_text, check_full_text and count_rows",
    "ledger/engines/sqlite/connections.py": "the key, pragmas, one row of another's file",
    "ledger/engines/sqlite/lanes.py": "the transaction around the work",
    "ledger/engines/sqlite/soundness.py": "pragmas, the count of commits",
    "ledger/engines/sqlite/copies.py": "the whole file, and what a copy of it holds",
    "ledger/engines/sqlite/schema.py": "the tables of the whole file",
}
"""Modules that execute SQL on a connection, and which connection."""
SOURCE = Path(local2.__file__).parent


def test_each_statement_reads_and_writes_only_rows_of_the_bound_tenant() -> None:
    found = {name: unfiltered(statement) for name, statement in STATEMENTS.items()}

    tables = {name: names for name, names in found.items() if names}
    assert tables.keys() == UNFILTERED.keys(), tables


@pytest.mark.parametrize(
    ("statement", "tables"),
    [
        ("SELECT id FROM record WHERE id = :id", ["record"]),
        ("SELECT id FROM record WHERE tenant = :tenant OR id = :id", ["record"]),
        ("SELECT id FROM record WHERE (tenant = :tenant OR id = :id)", ["record"]),
        ("SELECT tenant = :tenant FROM record", ["record"]),
        ("UPDATE record SET tenant = :tenant", ["record"]),
        ("DELETE FROM note WHERE owner = :owner", ["note"]),
        ("DELETE FROM vector WHERE record IN (SELECT row FROM record)", ["vector", "record"]),
        ("INSERT INTO note (tenant, owner) VALUES (:owner, :tenant)", ["note"]),
        (
            "SELECT 1 FROM record WHERE tenant = :tenant UNION ALL SELECT 1 FROM record AS other",
            ["other"],
        ),
        (
            "SELECT 1 FROM record JOIN relation ON source = id WHERE record.tenant = :tenant",
            ["relation"],
        ),
        (
            "SELECT 1 FROM record WHERE tenant = :tenant AND id IN (SELECT source FROM relation)",
            ["relation"],
        ),
        ("SELECT data FROM vector WHERE record = :row", ["vector"]),
    ],
)
def test_a_statement_without_the_filter_is_detected(statement: str, tables: list[str]) -> None:
    assert unfiltered(statement) == tables


async def test_no_passed_value_overrides_the_bound_tenant(database: Database) -> None:
    ledgers = [Ledger(database, name) for name in ("acme", "other")]
    rows = [TenantRows(database, ledger.tenant) for ledger in ledgers]
    for each in rows:
        relation = {"source": each.tenant, "type": "supports", "target": "t", "tenant": "other"}
        await each.write(Transaction.execute_each, "relate", [relation])

    def targets(tx: Transaction, name: str) -> list[str]:
        asked = {"id": name, "type": "supports", "tenant": name}
        return [row["target"] for row in tx.execute("targets_of", **asked)]

    found = [await each.read(targets, name) for each in rows for name in ("acme", "other")]

    assert found == [["t"], [], [], ["t"]]


def test_sql_is_executed_only_through_a_transaction() -> None:
    executing: dict[str, set[str]] = {}
    for file in SOURCE.rglob("*.py"):
        text = file.read_text(encoding="utf-8")
        if "execute" not in text:  # parsing all modules takes seconds
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Attribute) and node.attr in EXECUTING:
                receiver = ast.unparse(node.value)
                if receiver not in TRANSACTIONS:
                    executing.setdefault(str(file.relative_to(SOURCE)), set()).add(receiver)

    assert {
        name: connection for name, connection in executing.items() if name not in EXEMPT_MODULES
    } == {}
    assert set(executing) == set(EXEMPT_MODULES)
