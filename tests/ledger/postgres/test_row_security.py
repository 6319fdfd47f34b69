"""Row-level security is the backstop: a statement without its tenant reads and writes nothing."""

from functools import partial

import pytest

from ledgers import DAY, ITEMS, fact, index, item, record
from local2.errors import StorageError
from local2.ledger.engines.postgres.connections import PostgresConnection, connect
from local2.ledger.engines.postgres.database import Database
from local2.ledger.engines.postgres.schema import bypasses_policies
from local2.ledger.ledger import Ledger
from local2.ledger.operations.items import ItemWriter
from local2.ledger.operations.sessions import SessionKey

WITHOUT_TENANT = {"record_words", "schema_number", "erasure", "stack"}
"""Tables with numbers and hashes only, of words and of erased ids, and the stacks."""
TABLES = """
SELECT relname, relrowsecurity AND relforcerowsecurity AS is_secured FROM pg_class
WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace
"""


@pytest.fixture
async def tables(here: Database) -> list[str]:
    """The tables with rows of tenants; two tenants have stored in the same ones."""
    for tenant in ("acme", "beta"):
        ledger = Ledger(here, tenant)
        await ledger.records.store([record("Gold.")])
        await index(ledger, {"Gold.": 0})
        await ledger.facts.store(fact("Lead.", topic="user.metal"))
        await ledger.items.put(ITEMS, [item("gold", 1)], ItemWriter(at=DAY))
        session = SessionKey("richard", "s1")
        await ledger.notes.store(session, "user", "Tin.", DAY, merge=lambda _: None)
        if ledger.vectors is not None:
            await ledger.vectors.serve("plane")
    found = await here.read(lambda c: c.raw.execute(TABLES).fetchall())
    assert {name for name, secured in found if not secured} == WITHOUT_TENANT
    return [name for name, secured in found if secured]


def count(table: str, connection: PostgresConnection) -> int:
    """Count a table's rows of acme, or of whomever is seen."""
    statement = f"SELECT count(*) FROM {table} WHERE tenant = 'acme'"  # noqa: S608
    row = connection.execute(statement, {}).fetchone()
    assert row is not None
    return int(row[0])


def change_all(table: str, connection: PostgresConnection) -> int:
    return connection.execute(f"UPDATE {table} SET tenant = tenant", {}).rowcount  # noqa: S608


async def test_no_statement_reads_or_changes_rows_of_another_tenant(
    here: Database, tables: list[str]
) -> None:
    compared = set()
    for table in tables:
        own = await here.read(partial(count, table), owner="acme")
        if own:
            compared.add(table)
        assert await here.read(partial(count, table), owner="beta") == 0, table
        assert await here.read(partial(count, table)) == 0, "of no tenant"
        assert await here.write(partial(change_all, table), owner="acme") == own, table
    assert compared >= {"record", "feature", "vector", "item", "note", "task", "embedder"}


async def test_no_row_is_written_for_another_tenant(here: Database) -> None:
    def give_away(connection: PostgresConnection) -> None:
        connection.execute("INSERT INTO departure (tenant) VALUES ('beta')", {})

    with pytest.raises(StorageError, match="row-level security"):
        await here.write(give_away, owner="acme")


def test_an_administrator_is_noticed(url: str) -> None:
    own = connect(url)
    administrator = connect(url.replace("//local2:", "//postgres:"))

    assert [bypasses_policies(one) for one in (own, administrator)] == [False, True]

    for one in (own, administrator):
        one.raw.close()
