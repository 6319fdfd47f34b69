"""How a caller's memories bear on each other, as far as he says so."""

from collections.abc import Callable
from datetime import datetime

from local.errors import InvalidArgumentsError
from local.ledger.door import Ledger
from local.ledger.records import TENANT_OWNED, Record, principal_of
from local.ledger.relations import RelatedRecord, Relation
from local.memory.scopes import check_may_write, may_retire, may_see, may_write
from local.protocol.envelope import Caller
from local.protocol.memories import RelationType


class Relations:
    """What one caller says of memories that he may see, which are all in places of his."""

    def __init__(self, ledger: Ledger, caller: Caller, clock: Callable[[], datetime]) -> None:
        self._ledger = ledger
        self._caller = caller
        self._clock = clock

    async def add(self, source: str, type_: RelationType, target: str) -> bool:
        """Store how one memory bears on another; False if that is known.

        Raises:
            InvalidArgumentsError: They are one, the caller may not see both, one has too many
                relations, or it is not for him to say that the one supersedes the other.
            ForbiddenError: The caller's role may write to the scope of neither.
        """
        relation = self._relation(source, type_, target)
        return await self._ledger.relations.add(relation, self._permit(type_))

    async def remove(self, source: str, type_: RelationType, target: str) -> bool:
        """Take a relation back; False if it is not there.

        Raises:
            InvalidArgumentsError: The caller could not state it.
        """
        relation = self._relation(source, type_, target)
        return await self._ledger.relations.remove(relation, self._permit(type_))

    async def of(self, record_id: str) -> list[RelatedRecord]:
        """What bears on a memory, and what it bears on, as far as the caller may see it.

        Raises:
            InvalidArgumentsError: The caller may not see the memory.
        """
        record, related = await self._ledger.relations.of(record_id)
        self._visible(record, "id")
        return [one for one in related if may_see(one.record, self._caller)]

    def _permit(self, type_: RelationType) -> Callable[[Record | None, Record | None], None]:
        def permit(source: Record | None, target: Record | None) -> None:
            newer, older = self._visible(source, "source"), self._visible(target, "target")
            if newer.id == older.id:
                raise InvalidArgumentsError("target: it is the same memory as source.")
            if not may_write(newer.scope, self._caller):  # it would lift what others find, too
                check_may_write(older.scope, self._caller)
            if type_ == "supersedes" and not self._may_supersede(newer, older):
                raise InvalidArgumentsError(
                    "type: what supersedes a memory is stated by the same user, who says so, and "
                    "weighs as much: a user's words weigh more than an assistant's, and these more "
                    "than a tool's output or a document.",
                    remedy="Use contradicts.",
                )

        return permit

    def _may_supersede(self, newer: Record, older: Record) -> bool:
        asking = self._caller.user or TENANT_OWNED
        return principal_of(newer) == asking and may_retire(newer, older)

    def _visible(self, record: Record | None, named: str) -> Record:
        if record is None or not may_see(record, self._caller):
            raise InvalidArgumentsError(
                f"{named}: there is no memory of this id that you may see.",
                remedy="Take the id from the result of a search.",
            )
        return record

    def _relation(self, source: str, type_: RelationType, target: str) -> Relation:
        return Relation(
            source=source,
            type=type_,
            target=target,
            agent=self._caller.agent,
            user=self._caller.user or TENANT_OWNED,
            at=self._clock(),
        )
