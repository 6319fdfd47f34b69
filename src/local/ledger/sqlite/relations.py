"""Relations that are stated between records: each once, all of them in the audit."""

from typing import Any

import msgspec

from local.errors import InvalidArgumentsError
from local.ledger.records import RELATION_TYPES, Record
from local.ledger.relations import MOST, Permit, RelatedRecord, Relation
from local.ledger.sqlite.database import Row, SqlConnection
from local.ledger.sqlite.rows import Cause, RecordRows, TenantRows, record_of

TYPES = msgspec.json.encode(RELATION_TYPES).decode()


class Relations:
    """One tenant's."""

    def __init__(self, rows: TenantRows, records: RecordRows) -> None:
        self._rows = rows
        self._records = records

    async def add(self, relation: Relation, permit: Permit) -> bool:
        """Store a relation; False if it is there already.

        Raises:
            InvalidArgumentsError: `permit` raises it, or one of the records has too many relations.
        """

        def add(connection: SqlConnection) -> bool:
            self._check(connection, relation, permit)
            added = self._change(connection, "relate", relation, "related")
            if added:
                self._check_number(connection, relation.source)
                self._check_number(connection, relation.target)
            return added

        return await self._rows.write(add)

    async def remove(self, relation: Relation, permit: Permit) -> bool:
        """Take a relation back; False if it is not there.

        Raises:
            InvalidArgumentsError: `permit` raises it.
        """

        def remove(connection: SqlConnection) -> bool:
            self._check(connection, relation, permit)
            return self._change(connection, "unrelate", relation, "unrelated")

        return await self._rows.write(remove)

    async def of(self, record_id: str) -> tuple[Record | None, list[RelatedRecord]]:
        """A record, and those that it bears on or that bear on it."""

        def read(connection: SqlConnection) -> tuple[Record | None, list[RelatedRecord]]:
            return self._record(connection, record_id), self._related(connection, record_id)

        return await self._rows.read(read)

    def _check(self, connection: SqlConnection, relation: Relation, permit: Permit) -> None:
        permit(self._record(connection, relation.source), self._record(connection, relation.target))

    def _check_number(self, connection: SqlConnection, record_id: str) -> None:
        if len(self._related(connection, record_id)) > MOST:  # raised, it undoes the addition
            raise InvalidArgumentsError(
                f"The memory {record_id} has {MOST} relations, the most that one may have.",
                remedy="Take one back before.",
            )

    def _change(
        self, connection: SqlConnection, statement: str, relation: Relation, action: str
    ) -> bool:
        edge: dict[str, Any] = {"type": relation.type, "target": relation.target}
        changed = self._rows.execute(connection, statement, source=relation.source, **edge)
        if changed.rowcount < 1:
            return False
        cause = Cause(agent=relation.agent, superseded_by="", at=relation.at, user=relation.user)
        self._records.note(connection, action, relation.source, cause, edge)
        return True

    def _record(self, connection: SqlConnection, record_id: str) -> Record | None:
        row = self._rows.execute(connection, "record_by_id", id=record_id).fetchone()
        return record_of(row) if row else None

    def _related(self, connection: SqlConnection, record_id: str) -> list[RelatedRecord]:
        found = self._rows.execute(connection, "relations_of", id=record_id, types=TYPES)
        return [_related(row) for row in found]


def _related(row: Row) -> RelatedRecord:
    return RelatedRecord(
        type=row["relation_type"], incoming=bool(row["incoming"]), record=record_of(row)
    )
