"""Facts: standing ones under their topics, those of triplets, and what retires them.

Standing facts that were asked for lately are held in memory: agents ask for the same few again and
again, on every turn.
"""

from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence

from local.ledger.records import TENANT_OWNED, NewRecord, Record, TripletFact, Written, folded
from local.ledger.sqlite.database import SqlConnection
from local.ledger.sqlite.rows import Cause, RecordRows, TenantRows, record_of
from local.protocol.envelope import content_id, utc_now
from local.protocol.memories import Owning, entity_key

LINKS = 4
"""Of the facts that name an entity of a new one, in either role, the newest so many are linked."""
MOST_LINKED = 50
"""A fact that so many newer ones of an owner are linked with gets no more."""
LINKED = "shares_entity"
STATES, NAMES = "states", "names"
"""Beside links between facts the table `relation` holds what finds them: for every fact a row to
what it states, and one to each entity it names. Those lead to no record, so recall passes them by.
"""
ROLES = ("subject", "object")

Place = tuple[Owning, str]


class Facts:
    """One tenant's facts."""

    def __init__(self, rows: TenantRows, records: RecordRows) -> None:
        self._rows = rows
        self._records = records
        self._topics = RecentTopics()

    async def topic(self, scope: Owning, owner: str, topic: str) -> Record | None:
        """The active version of a standing fact, from memory if it was asked for lately."""
        topic = folded(topic)
        if (kept := self._topics.get((scope, owner, topic))) is not None:
            return kept
        version = self._topics.version
        row = await self._rows.one("active_topic", scope=scope, owner=owner, topic=topic)
        record = record_of(row) if row else None
        if record is not None and version == self._topics.version:
            self._topics.keep(record)
        return record

    async def history(self, scope: Owning, owner: str, topic: str) -> list[Record]:
        """Every version of a standing fact, newest first."""
        rows = await self._rows.all("topic_history", scope=scope, owner=owner, topic=folded(topic))
        return [record_of(row) for row in rows]

    async def store(self, record: NewRecord) -> Written:
        """Make `record` an active fact, the only one of its topic if it has one.

        What is there already, word for word, is not written again.
        """
        try:
            return await self._rows.write(lambda c: self._records.store_fact(c, record))
        finally:
            self._topics.forget(record)

    async def store_triplets(self, facts: Sequence[TripletFact]) -> list[Written]:
        """Store facts said in triplets, all or none; what is stated already stays as it is.

        A fact is linked with those of its scope and owner, and with those for everybody, that name
        its subject or its object.
        """
        return await self._rows.write(lambda c: [self._store_triplet(c, fact) for fact in facts])

    async def judge(
        self,
        fact: Record,
        *,
        supports: Collection[Record] = (),
        replaces: Collection[Record] = (),
        agent: str,
    ) -> list[Record]:
        """Carry out the verdicts on what a fact does to older ones, which finishes its task.

        Returns those that it has replaced. One that is replaced itself meanwhile does nothing.
        """
        cause = Cause(agent=agent, superseded_by=fact.id, at=utc_now())

        def carry_out(connection: SqlConnection) -> list[Record]:
            self._rows.execute(connection, "finish_task", kind="judge", row=fact.row)
            if not self._rows.execute(connection, "active_fact", id=fact.id).fetchone():
                return []
            for older in supports:
                self._records.relate(connection, fact.id, "supports", older.id)
            return [one for one in replaces if self._records.supersede(connection, one.id, cause)]

        try:
            return await self._rows.write(carry_out)
        finally:
            for older in replaces:
                self._topics.forget(older)

    def forget_held(self) -> None:
        """Hold nothing in memory that may have been erased."""
        self._topics.clear()

    async def relate(self, source: str, type_: str, target: str) -> None:
        """Note how one record bears on another, once."""
        await self._rows.change("relate", source=source, type=type_, target=target)

    def _store_triplet(self, connection: SqlConnection, fact: TripletFact) -> Written:
        triplet, record = fact.triplet, fact.record
        place: Place = (record.scope, record.owner)
        stated = content_id(STATES, *place, *triplet.key())
        known = self._rows.execute(connection, "stating", triplet=stated).fetchone()
        if known is not None:
            return Written(id=known["id"], was_new=False)
        written = self._records.store_fact(connection, record)
        self._records.relate(connection, written.id, STATES, stated)
        for role, name in zip(ROLES, (triplet.subject, triplet.object), strict=True):
            self._records.relate(connection, written.id, NAMES, _entity(place, role, name))
            for other in self._naming(connection, written.id, place, name):
                self._records.relate(connection, written.id, LINKED, other)
        return written

    def _naming(
        self, connection: SqlConnection, record_id: str, place: Place, name: str
    ) -> Iterator[str]:
        """The newest facts that name the entity, as their subject or their object."""
        for within in dict.fromkeys((place, ("tenant", TENANT_OWNED))):
            for role in ROLES:
                entity = _entity(within, role, name)
                found = self._rows.execute(
                    connection,
                    "naming",
                    entity=entity,
                    id=record_id,
                    scope=place[0],
                    owner=place[1],
                    limit=LINKS,
                    most=MOST_LINKED,
                ).fetchall()
                yield from (row["id"] for row in found)


def _entity(place: Sequence[str], role: str, name: str) -> str:
    """What stands for an entity in one role: looking for the other finds it in any crowd."""
    return content_id(NAMES, *place, role, entity_key(name))


Key = tuple[str, str, str]

RECENT = 4_096
"""Facts held in memory, at most: 16 MB of those that fit."""
LARGEST = 4_096
"""Characters of a fact that is held."""


class RecentTopics:
    """The facts asked for lately, as the ledger has them; only one process writes the ledger.

    `version` changes with every write. Who reads the ledger keeps what it found only if the version
    is still the same: otherwise an older value could be kept after a newer one was committed.
    """

    def __init__(self) -> None:
        self.version = 0
        self._records: OrderedDict[Key, Record] = OrderedDict()

    def get(self, key: Key) -> Record | None:
        """The fact under (scope, owner, folded topic), if it is kept."""
        record = self._records.get(key)
        if record is not None:
            self._records.move_to_end(key)
        return record

    def keep(self, record: Record) -> None:
        if len(record.content) > LARGEST:
            return
        self._records[_key(record)] = record
        if len(self._records) > RECENT:
            self._records.popitem(last=False)

    def clear(self) -> None:
        """Some of them were erased."""
        self.version += 1
        self._records.clear()

    def forget(self, record: NewRecord) -> None:
        """This fact was replaced, or another took its place."""
        self.version += 1
        self._records.pop(_key(record), None)


def _key(record: NewRecord) -> Key:
    return record.scope, record.owner, folded(record.topic or "")
