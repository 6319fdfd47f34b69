"""The ledger's statements, as PostgreSQL reads them."""

import re

import pytest

from local2.ledger.engines.postgres.dialect import STATEMENTS, translated
from local2.ledger.engines.sqlite.schema import STATEMENTS as OF_SQLITE
from local2.ledger.sql import statements
from statement_scopes import unfiltered

ONLY_SQLITE = re.compile(r"INDEXED BY|json_each|ifnull|rowid|OR IGNORE|\+[a-z]|(?<![:\w]):\w")
OWN = statements("local2.ledger.engines.postgres")


def test_nothing_is_left_that_only_sqlite_understands() -> None:
    found = {name: ONLY_SQLITE.findall(statement) for name, statement in STATEMENTS.items()}

    assert {name: words for name, words in found.items() if words} == {}


OF_ALL = {
    "add_up_usage": "of all tenants, each for itself",
    "unclaimed": "whose tasks wait, for the stack itself",
}


def test_its_own_statements_read_and_write_only_rows_of_the_bound_tenant() -> None:
    found = {name: unfiltered(statement) for name, statement in OWN.items()}

    tables = {name: names for name, names in found.items() if names}
    assert tables.keys() == OF_ALL.keys(), tables


def test_a_statement_that_differs_takes_the_place_of_a_shared_one_or_of_one_of_its_engine() -> None:
    assert set(statements()) & set(OWN) >= {"rate", "around", "important_facts"}
    assert set(OF_SQLITE) > set(statements())


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        ("SELECT id FROM record INDEXED BY record_turn", "SELECT id FROM record"),
        ("WHERE +tenant = :tenant", "WHERE tenant = %(tenant)s"),
        ("a CROSS JOIN record AS r ON r.row = 1", "a JOIN record AS r ON r.row = 1"),
        ("a CROSS JOIN record WHERE x", "a CROSS JOIN record WHERE x"),
        ("turn IS NOT :turn", "turn IS DISTINCT FROM %(turn)s"),
        ("turn IS :turn", "turn IS NOT DISTINCT FROM %(turn)s"),
        ("turn IS NOT NULL", "turn IS NOT NULL"),
        ("max(access.times, excluded.times)", "greatest(access.times, excluded.times)"),
        ("SELECT max(row) FROM record", "SELECT max(row) FROM record"),
        ("SELECT :below + 1", "SELECT %(below)s + 1"),
    ],
)
def test_a_statement_is_translated(statement: str, expected: str) -> None:
    assert translated(statement) == expected
