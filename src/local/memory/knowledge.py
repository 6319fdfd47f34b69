"""Triplets to records: facts that a person can read, linked where they name the same entity.

Beside links between facts the table `relation` holds what finds them: for every fact a row to what
it states, and one to each entity it names. Those lead to no record, so recall passes them by.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

import msgspec

from local.database import Connection
from local.errors import InvalidArgumentsError
from local.memory.changes import Changes
from local.memory.ledger import Ledger
from local.memory.places import owner_in
from local.memory.provenance import stated_by
from local.memory.records import TENANT_OWNED, NewRecord, Written
from local.memory.rows import TenantRows
from local.memory.supersession import Supersession
from local.protocol.caller import Caller
from local.protocol.envelope import new_id
from local.protocol.ids import content_id
from local.protocol.kinds import Owning
from local.protocol.triplet import Triplet, entity_key

LINKS = 4
"""Of the facts that name an entity of a new one, in either role, the newest so many are linked."""
MOST_LINKED = 50
"""A fact that so many newer ones of an owner are linked with gets no more."""
LINKED = "shares_entity"
STATES, NAMES = "states", "names"
ROLES = ("subject", "object")

Place = tuple[Owning, str]


class Knowledge:
    """What one caller knows in triplets."""

    def __init__(  # noqa: PLR0913, PLR0917 - what writing facts takes
        self,
        rows: TenantRows,
        ledger: Ledger,
        changes: Changes,
        supersession: Supersession | None,
        caller: Caller,
        clock: Callable[[], datetime],
    ) -> None:
        self._rows = rows
        self._ledger = ledger
        self._changes = changes
        self._supersession = supersession
        self._caller = caller
        self._clock = clock

    async def put(self, triplets: Sequence[Triplet], scope: Owning) -> list[Written]:
        """Keep each triplet as a fact of its own, all or none; what is known stays as it is.

        A fact is linked with those of its scope and owner, and with those for everybody, that name
        its subject or its object.

        Raises:
            InvalidArgumentsError: The caller has no such identity, or a part is blank.
        """
        owner, at = owner_in(scope, self._caller), self._clock()
        tidied = [_checked(number, triplet) for number, triplet in enumerate(triplets)]
        records = [self._record(triplet, scope, owner, at) for triplet in tidied]

        def put(connection: Connection) -> list[Written]:
            pairs = zip(tidied, records, strict=True)
            return [self._put(connection, triplet, record) for triplet, record in pairs]

        written = await self._rows.write(put)
        await self._changes.written(written, records)
        if self._supersession is not None:
            self._supersession.wake()
        return written

    def _record(self, triplet: Triplet, scope: Owning, owner: str, at: datetime) -> NewRecord:
        return NewRecord(
            id=new_id(),
            kind="fact",
            content=triplet.sentence(),
            scope=scope,
            owner=owner,
            memory_type="fact",
            metadata={"triplet": msgspec.to_builtins(triplet), **stated_by(self._caller)},
            unjudged=self._supersession is not None,
            agent=self._caller.agent,
            session_id=self._caller.session_id,
            event_time=at,
        )

    def _put(self, connection: Connection, triplet: Triplet, record: NewRecord) -> Written:
        place: Place = (record.scope, record.owner)
        stated = content_id(STATES, *place, *triplet.key())
        known = self._rows.execute(connection, "stating", triplet=stated).fetchone()
        if known is not None:
            return Written(id=known["id"], was_new=False)
        written = self._ledger.put_fact_in(connection, record)
        self._relate(connection, written.id, STATES, stated)
        for role, name in zip(ROLES, (triplet.subject, triplet.object), strict=True):
            self._relate(connection, written.id, NAMES, _entity(place, role, name))
            for other in self._naming(connection, written.id, place, name):
                self._relate(connection, written.id, LINKED, other)
        return written

    def _naming(
        self, connection: Connection, record_id: str, place: Place, name: str
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

    def _relate(self, connection: Connection, source: str, type_: str, target: str) -> None:
        self._rows.execute(connection, "relate", source=source, type=type_, target=target)


def _entity(place: Sequence[str], role: str, name: str) -> str:
    """What stands for an entity in one role: looking for the other finds it in any crowd."""
    return content_id(NAMES, *place, role, entity_key(name))


def _checked(number: int, triplet: Triplet) -> Triplet:
    tidied = triplet.tidied()
    for part in Triplet.__struct_fields__:
        if not getattr(tidied, part):
            raise InvalidArgumentsError(
                f"facts[{number}].{part} is blank.",
                remedy="Say subject, predicate and object of each fact.",
            )
    return tidied
