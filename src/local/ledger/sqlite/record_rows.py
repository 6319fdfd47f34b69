"""Records as rows, inside a transaction: everything that is stored passes here."""

from datetime import datetime

import msgspec

from local.ledger.records import NewRecord, Written, features_of, folded, stamp
from local.ledger.sqlite.database import Connection
from local.ledger.sqlite.rows import TenantRows

TOGETHER = 1_000
"""Records of one transaction, where there are many; it takes about a fifth of a second."""


class Cause(msgspec.Struct, frozen=True, kw_only=True):
    """Why a record is superseded, for the audit."""

    agent: str | None
    superseded_by: str
    at: datetime

    @classmethod
    def of(cls, newer: NewRecord) -> "Cause":
        """That a newer record came."""
        return cls(agent=newer.agent, superseded_by=newer.id, at=newer.event_time)


class RecordRows:
    """One tenant's: facts with their histories, everything else once an id."""

    def __init__(self, rows: TenantRows) -> None:
        self._rows = rows

    def store(self, connection: Connection, record: NewRecord) -> Written:
        """Add a record unless its id is there already."""
        values = {name: getattr(record, name) for name in NewRecord.__struct_fields__}
        values["metadata"] = msgspec.json.encode(record.metadata).decode()
        values["event_time"] = stamp(record.event_time)
        values["folded_topic"] = folded(record.topic) if record.topic else None
        added = self._rows.execute(connection, "insert_record", **values)
        if added.rowcount == 1:
            read = record.features or features_of(record)
            self._rows.execute(
                connection, "keep_features", record=added.lastrowid, **read._asdict()
            )
        return Written(id=record.id, was_new=added.rowcount == 1)

    def store_fact(self, connection: Connection, record: NewRecord) -> Written:
        """Make a record an active fact, the only one of its topic if it has one.

        What is there already, word for word, is not written again.
        """
        record = self._with_known_topic(connection, record)
        topic = folded(record.topic) if record.topic else None
        place = {"scope": record.scope, "owner": record.owner, "topic": topic}
        same = self._rows.execute(
            connection, "same_fact", **place, content=record.content
        ).fetchone()
        if same is not None and topic in {None, same["folded_topic"]}:
            return Written(id=same["id"], was_new=False, topic=record.topic)
        older = self._rows.execute(connection, "active_topic", **place).fetchone()
        replaced = [row["id"] for row in (older, same) if row is not None]
        for record_id in replaced:
            self.supersede(connection, record_id, Cause.of(record))
        self.store(connection, record)
        return Written(id=record.id, was_new=True, replaced=tuple(replaced), topic=record.topic)

    def _with_known_topic(self, connection: Connection, record: NewRecord) -> NewRecord:
        """The record under its topic as that was first written."""
        if record.topic is None:
            return record
        place = {"scope": record.scope, "owner": record.owner, "topic": folded(record.topic)}
        known = self._rows.execute(connection, "topic_as_written", **place).fetchone()
        return msgspec.structs.replace(record, topic=known["topic"]) if known else record

    def supersede(self, connection: Connection, record_id: str, cause: Cause) -> bool:
        """Let another record take its place; False if it is active no more."""
        changed = self._rows.execute(
            connection, "supersede", id=record_id, superseded_by=cause.superseded_by
        ).rowcount
        if changed:
            self._rows.execute(
                connection,
                "insert_audit",
                action="superseded",
                record_id=record_id,
                agent=cause.agent,
                detail=msgspec.json.encode({"superseded_by": cause.superseded_by}).decode(),
                event_time=stamp(cause.at),
            )
        return changed == 1

    def relate(self, connection: Connection, source: str, type_: str, target: str) -> None:
        """Note how one record bears on another, once."""
        self._rows.execute(connection, "relate", source=source, type=type_, target=target)
