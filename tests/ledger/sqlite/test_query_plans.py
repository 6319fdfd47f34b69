"""Statements for questions, writes and batches find their rows in ledgers of any size.

Nothing here depends on data: without statistics SQLite plans by the schema alone.
"""

import re

from local2.ledger.engines.sqlite.connections import SqlConnection
from local2.ledger.engines.sqlite.database import Database
from local2.ledger.engines.sqlite.schema import STATEMENTS

WHOLE = {
    "counts": "status; from an index alone",
    "count_tasks": "status; from an index alone",
    "indexed_ids": "an index that is compared",
    "sample_indexed": "a start",
    "count_active": "an overview; from an index alone",
    "count_past": "an overview; from an index alone",
    "growth_active": "a chart of a tenant's growth; read apart, from an index alone",
    "growth_past": "a chart of a tenant's growth; read apart, from an index alone",
    "count_exported": "the beginning of an export",
    "count_rows": "a start",
    "count_shells": "a backup; from an index alone",
    "could_be_chosen": "a restore, after which something was forgotten",
}
"""Statements that read all of a tenant, and the occasion."""

ALL_OF_IT = re.compile(
    r"SCAN (?:record|task|note)\b|SCAN (?:feature|vector)$"
    r"|INDEX (?:record|task|note)_\w+ \(tenant=\?\)$"
    r"|SEARCH task .*INDEX (?!task_due)\w+ \(tenant=\? AND kind=\?\)$"
)


async def test_each_statement_finds_its_rows_without_reading_a_whole_tenant(
    database: Database,
) -> None:
    def plans(connection: SqlConnection) -> dict[str, list[str]]:
        connection.execute(STATEMENTS["staging"])
        return {name: plan(connection, statement) for name, statement in STATEMENTS.items()}

    steps = await database.read(plans)

    whole = {name: found for name, found in steps.items() if any(map(ALL_OF_IT.search, found))}
    assert whole.keys() == WHOLE.keys(), whole


def plan(connection: SqlConnection, statement: str) -> list[str]:
    parameters = dict.fromkeys(re.findall(r":(\w+)", statement))
    found = connection.execute(f"EXPLAIN QUERY PLAN {statement}", parameters)
    return [row["detail"] for row in found]
