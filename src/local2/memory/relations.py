"""Relations between memories, as one caller may state and see them."""

from collections.abc import Callable

from local2.errors import InvalidArgumentsError
from local2.ledger.ledger import Ledger
from local2.ledger.operations.relations import RelatedRecord, Relation
from local2.ledger.records import Record, principal_of
from local2.memory.scopes import check_may_write, may_retire, may_see, may_write, owner_of, visible
from local2.protocol.envelope import Caller, Clock
from local2.protocol.memories import RelationType


class Relations:
    """Relations between memories that one caller may see."""

    def __init__(self, ledger: Ledger, caller: Caller, clock: Clock) -> None:
        self._ledger = ledger
        self._caller = caller
        self._clock = clock

    async def add(self, source: str, type_: RelationType, target: str) -> bool:
        """Store a relation between two memories; return False if it exists already.

        Raises:
            InvalidArgumentsError: Both are the same, the caller may not see both, one has too many
                relations, or the caller may not state that one supersedes the other.
            ForbiddenError: The caller's role may write to neither scope.
        """
        relation = self._relation(source, type_, target)
        return await self._ledger.relations.add(relation, self._permission(type_))

    async def remove(self, source: str, type_: RelationType, target: str) -> bool:
        """Remove a relation; return False if it does not exist.

        Raises:
            InvalidArgumentsError: The caller may not state this relation.
        """
        relation = self._relation(source, type_, target)
        return await self._ledger.relations.remove(relation, self._permission(type_))

    async def of(self, record_id: str) -> list[RelatedRecord]:
        """The relations of a memory in both directions, to memories that the caller may see.

        Raises:
            InvalidArgumentsError: The caller may not see the memory.
        """
        record, related = await self._ledger.relations.of(record_id)
        visible(record, self._caller, "id")
        return [relation for relation in related if may_see(relation.record, self._caller)]

    def _permission(self, type_: RelationType) -> Callable[[Record | None, Record | None], None]:
        def permit(source: Record | None, target: Record | None) -> None:
            newer = visible(source, self._caller, "source")
            older = visible(target, self._caller, "target")
            if newer.id == older.id:
                raise InvalidArgumentsError("target: it is the same memory as source.")
            # Needed in one of both scopes: a relation changes what others find there.
            if not may_write(newer.scope, self._caller):
                check_may_write(older.scope, self._caller)
            user = owner_of(self._caller)
            is_own = principal_of(newer) == user
            if type_ == "supersedes" and not (is_own and may_retire(newer, older)):
                raise InvalidArgumentsError(
                    "type: only the user who stated both may relate them by supersedes, and the "
                    "source must be as strong: a user's words are stronger than an assistant's, "
                    "and these than a tool's output or a document.",
                    remedy="Use contradicts.",
                )

        return permit

    def _relation(self, source: str, type_: RelationType, target: str) -> Relation:
        return Relation(
            source=source,
            type=type_,
            target=target,
            agent=self._caller.agent,
            user=owner_of(self._caller),
            at=self._clock(),
        )
