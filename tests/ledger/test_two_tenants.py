"""Two tenants with equal ids in one file: each operation answers as if the other did not exist.

Nothing of a tenant changes by what the other does. An operation without a case fails the test.
"""

import inspect
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

import msgspec
import pytest

import ledgers
from ledger.conftest import NewLedger, OfTenant, every_ledger, postgres
from ledger.operations import OPERATIONS
from ledgers import DAY
from local2.ledger.engines import Connection
from local2.ledger.engines.postgres.database import Database as PostgresDatabase
from local2.ledger.engines.postgres.dialect import STATEMENTS, with_parameters
from local2.ledger.ledger import Ledger
from local2.ledger.operations.audit import AuditPage, AuditRow
from local2.ledger.records import stamp
from statement_scopes import ONLY_POSTGRES, WITH_TENANT

OWN = ("counts", "index_vectors", "live_stacks", "problems", "server_bytes")
"""Operations of the ledger itself."""
NOW = DAY + timedelta(days=100)
"""The time of the test; later times were read from the clock."""
TOGETHER = 6
"""Operations of one tenant after which all rows of the other are compared: each takes long."""
SNAPSHOT = {
    **{
        table: f"SELECT * FROM {table} WHERE tenant = :tenant"  # noqa: S608
        for table in WITH_TENANT - ONLY_POSTGRES
    },
    **{
        table: f"SELECT {table}.* FROM {table} JOIN record ON record.row = {table}.record "  # noqa: S608
        "WHERE record.tenant = :tenant"
        for table in ("vector", "feature")
    },
}


class Played:
    """A ledger, the ids that it assigns, and its answers."""

    def __init__(self, ledger: Ledger, marker: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ledger = ledger
        self._marker = marker
        self._monkeypatch = monkeypatch
        self._ids: Iterator[str] = (f"id{n}" for n in range(10_000))
        self.answers: dict[str, object] = {}

    async def play(self, name: str) -> None:
        self._monkeypatch.setattr(ledgers, "new_id", lambda: next(self._ids))
        answer = await OPERATIONS[name](self.ledger, self._marker)
        self.answers[name] = Plain(await self._rows("record"), await self._rows("audit")).of(answer)

    async def contents(self) -> dict[str, list[str]]:
        """Return every row of the tenant in every table."""

        def read(connection: Connection) -> dict[str, list[str]]:
            return {
                table: sorted(
                    repr(tuple(row))
                    for row in connection.execute(self._bound(sql), {"tenant": self.ledger.tenant})
                )
                for table, sql in SNAPSHOT.items()
            }

        return await self.ledger._database.read(read, owner=self.ledger.tenant)

    async def _rows(self, table: str) -> list[int]:
        sql = f"SELECT row FROM {table} WHERE tenant = :tenant ORDER BY row"  # noqa: S608
        tenant = {"tenant": self.ledger.tenant}
        return await self.ledger._database.read(
            lambda c: [row for (row,) in c.execute(self._bound(sql), tenant)],
            owner=self.ledger.tenant,
        )

    def _bound(self, sql: str) -> str:
        return with_parameters(sql) if self.ledger._database.is_shared else sql


class Plain:
    """Removes from answers what differs from file to file: row numbers and clock times."""

    def __init__(self, records: list[int], audit: list[int]) -> None:
        self._records = {row: f"row {number}" for number, row in enumerate(records)}
        self._audit = {row: f"row {number}" for number, row in enumerate(audit)}

    def of(self, answer: Any) -> Any:
        if isinstance(answer, msgspec.Struct):
            rows = self._audit if isinstance(answer, AuditRow | AuditPage) else self._records
            return type(answer).__name__, {
                name: self._field(name, getattr(answer, name), rows)
                for name in answer.__struct_fields__
            }
        if isinstance(answer, datetime):
            return answer if answer < NOW else "now"
        if isinstance(answer, list | tuple):
            return [self.of(one) for one in answer]
        if isinstance(answer, dict):
            return {key: self.of(value) for key, value in answer.items()}
        return answer

    def _field(self, name: str, value: Any, rows: dict[int, str]) -> Any:
        if name in {"row", "next"} and isinstance(value, int):
            return rows.get(value, value)
        if name == "rows" and isinstance(value, tuple):
            return [rows[row] for row in value]
        if name == "stands_at" and value is not None:
            return rows.get(int(value)), value % 1
        if name in {"event_time", "kept_at"} and isinstance(value, str) and value > stamp(NOW):
            return "now"
        if name == "detail" and "row" in value:
            return {**value, "row": self._audit[value["row"]]}
        return self.of(value)


def test_every_operation_has_a_case(of_tenant: OfTenant) -> None:
    ledger = of_tenant("default")
    parts = {
        name: part
        for name, part in vars(ledger).items()
        if not name.startswith("_") and not isinstance(part, str)
    }
    operations = {
        f"{name}.{method}"
        for name, part in parts.items()
        for method, _ in inspect.getmembers(type(part), inspect.isfunction)
        if not method.startswith("_")
    }
    own = {name for name, _ in inspect.getmembers(Ledger, inspect.isfunction) if name[0] != "_"}

    assert own == set(OWN)
    cases = {name for name in OPERATIONS if ledger.vectors or not name.startswith("vectors.")}
    assert operations | {f"ledger.{name}" for name in own} == cases


@every_ledger
async def test_a_tenant_answers_as_if_it_were_alone(
    new_ledger: NewLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    await play_alone_and_beside(new_ledger, monkeypatch)


@pytest.mark.parametrize("new_ledger", [pytest.param(postgres, id="postgres")], indirect=True)
async def test_row_level_security_suffices_where_every_statement_lacks_its_predicate(
    new_ledger: NewLedger, monkeypatch: pytest.MonkeyPatch
) -> None:
    predicate = re.compile(r"\b(?:\w+\.)?tenant = %\(tenant\)s")
    without = {name: predicate.sub("true", text) for name, text in STATEMENTS.items()}
    monkeypatch.setattr(PostgresDatabase, "statements", without)

    await play_alone_and_beside(new_ledger, monkeypatch)


async def play_alone_and_beside(new_ledger: NewLedger, monkeypatch: pytest.MonkeyPatch) -> None:
    async with new_ledger()() as of_tenant:
        alone = Played(of_tenant("acme"), "A", monkeypatch)
        for name in OPERATIONS:
            await alone.play(name)
    async with new_ledger()() as of_tenant:
        mine = Played(of_tenant("acme"), "A", monkeypatch)
        theirs = Played(of_tenant("other"), "B", monkeypatch)
        operations = [*OPERATIONS]
        for start in range(0, len(operations), TOGETHER):
            names = operations[start : start + TOGETHER]
            before = await mine.contents()
            for name in names:
                await theirs.play(name)
            assert await mine.contents() == before, names
            for name in names:
                await mine.play(name)

    for name, answer in alone.answers.items():
        assert mine.answers[name] == answer, name
    assert theirs.answers != alone.answers
