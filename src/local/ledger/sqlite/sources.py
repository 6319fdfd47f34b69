"""What an extracted fact was read in: ids in its metadata, and relations to the messages."""

import json
from collections.abc import Collection, Sequence

import msgspec

from local.ledger.records import DERIVED_FROM
from local.ledger.sqlite.database import SqlConnection
from local.ledger.sqlite.rows import Cause, RecordRows, TenantRows


class Sources:
    """One tenant's, changed inside a write."""

    def __init__(self, rows: TenantRows, records: RecordRows) -> None:
        self._rows = rows
        self._records = records

    def unite(self, connection: SqlConnection, older: str, newer: str, cause: Cause) -> None:
        """Let the newer fact rest on what the older one was read in, too."""
        known, related = self._messages(connection, newer), self._targets(connection, newer)
        messages = [one for one in self._messages(connection, older) if one not in known]
        targets = [one for one in self._targets(connection, older) if one not in related]
        if messages:
            self._keep(connection, newer, [*known, *messages])
        for target in targets:
            self._records.relate(connection, newer, DERIVED_FROM, target)
        if messages or targets:
            detail = {"merged": older, "messages": messages, "targets": targets}
            self._records.note(connection, "enriched", newer, cause, detail)

    def add(self, connection: SqlConnection, record_id: str, messages: Sequence[str]) -> None:
        """Let a fact that was read in messages name these, too."""
        known = self._messages(connection, record_id)
        new = [one for one in messages if one not in known]
        if known and new:
            self._keep(connection, record_id, [*known, *new])

    def has(
        self,
        connection: SqlConnection,
        record_id: str,
        messages: Sequence[str],
        targets: Sequence[str],
    ) -> bool:
        """Whether a fact rests on all of these still."""
        known = self._messages(connection, record_id), self._targets(connection, record_id)
        return set(messages) <= set(known[0]) and set(targets) <= set(known[1])

    def part(
        self,
        connection: SqlConnection,
        record_id: str,
        messages: Collection[str],
        targets: Collection[str],
    ) -> None:
        """Take away from a fact what `unite` gave it, or what was erased."""
        if messages:
            known = self._messages(connection, record_id)
            self._keep(connection, record_id, [one for one in known if one not in messages])
        for target in targets:
            self._rows.execute(
                connection, "unrelate", source=record_id, type=DERIVED_FROM, target=target
            )

    def _messages(self, connection: SqlConnection, record_id: str) -> list[str]:
        row = self._rows.execute(connection, "sources_of", id=record_id).fetchone()
        return msgspec.json.decode(row["messages"], type=list[str]) if row else []

    def _keep(self, connection: SqlConnection, record_id: str, messages: Sequence[str]) -> None:
        listed = json.dumps(list(messages))
        self._rows.execute(connection, "keep_sources", id=record_id, messages=listed)

    def _targets(self, connection: SqlConnection, record_id: str) -> list[str]:
        found = self._rows.execute(connection, "targets_of", id=record_id, type=DERIVED_FROM)
        return [row["target"] for row in found]
