"""Triplets to records: facts that a person can read, linked where they name the same entity."""

from collections.abc import Callable, Sequence
from datetime import datetime

import msgspec

from local.errors import InvalidArgumentsError
from local.ledger.door import Ledger
from local.ledger.records import NewRecord, Owning, TripletFact, Written
from local.memory.changes import Changes
from local.memory.places import owner_in
from local.memory.provenance import stated_by
from local.memory.supersession import Supersession
from local.protocol.caller import Caller
from local.protocol.envelope import new_id
from local.protocol.triplet import Triplet


class Knowledge:
    """What one caller knows in triplets."""

    def __init__(
        self,
        ledger: Ledger,
        changes: Changes,
        supersession: Supersession | None,
        caller: Caller,
        clock: Callable[[], datetime],
    ) -> None:
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
        facts = [
            TripletFact(triplet=triplet, record=self._record(triplet, scope, owner, at))
            for triplet in tidied
        ]
        written = await self._ledger.facts.store_triplets(facts)
        await self._changes.written(written, [fact.record for fact in facts])
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


def _checked(number: int, triplet: Triplet) -> Triplet:
    tidied = triplet.tidied()
    for part in Triplet.__struct_fields__:
        if not getattr(tidied, part):
            raise InvalidArgumentsError(
                f"facts[{number}].{part} is blank.",
                remedy="Say subject, predicate and object of each fact.",
            )
    return tidied
