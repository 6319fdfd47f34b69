"""Define which records a caller may find and write, how scopes are weighted, and what is shown.

Records of an agent or of the tenant were also stated by a user. Other callers do not learn by whom.
"""

from collections.abc import Callable, Collection
from functools import cache, partial
from operator import attrgetter
from typing import Any, Self, TypeVar, get_args

import msgspec

from local2.errors import ForbiddenError, InvalidArgumentsError
from local2.ledger.records import (
    SOURCE_STRENGTH,
    TENANT_OWNED,
    NewRecord,
    Record,
    call_of,
    place_of_topic,
    principal_of,
    source_class_of,
    sources_of,
)
from local2.ledger.search import Place
from local2.protocol.envelope import Caller
from local2.protocol.memories import PERSONAL, Kind, OwnerScope, Scope, StatedBy
from local2.settings import MemorySettings

S = TypeVar("S", bound=msgspec.Struct)

NAMES = {"session_id": "session", "user": "user", "source": "agent"}
"""Fields of the envelope, and what the other ways in call them."""
NO_SESSION = "\x00"
"""The id of a session that has no records."""

KINDS: dict[OwnerScope, tuple[Kind, ...]] = {
    "session": ("chat_message", "tool_output", "output_part", "episode", "fact"),
    "user": ("fact", "note", "episode"),
    "agent": ("fact",),
    "tenant": ("fact", "document_chunk"),
}
_CLASSES: dict[Scope, tuple[OwnerScope, ...]] = {
    "session": ("session",),
    "history": ("session",),
    "user": ("user",),
    "agent": ("agent",),
    "tenant": ("tenant",),
    "any": ("session", "user", "agent", "tenant"),
}


class Weights(msgspec.Struct, frozen=True, kw_only=True):
    """The weight of each class of records; 0 excludes the class."""

    session: float
    history: float
    user: float
    agent: float
    tenant: float

    @classmethod
    def of(cls, settings: MemorySettings) -> Self:
        return cls(
            session=settings.weight_session,
            history=settings.weight_history,
            user=settings.weight_user,
            agent=settings.weight_agent,
            tenant=settings.weight_tenant,
        )

    def in_session(self, scope: OwnerScope) -> float:
        """The weight of a record in a scope and in the caller's session."""
        return float(getattr(self, scope))

    def in_other_sessions(self, scope: OwnerScope) -> float:
        """The weight of a record in a scope, but not in the caller's session."""
        return self.history if scope == "session" else self.in_session(scope)


EQUAL_WEIGHTS = Weights(session=1, history=1, user=1, agent=1, tenant=1)


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """The records that a search may find.

    `only_session`: the only session to search. `excluded_session`: the session to exclude.
    """

    caller: Caller
    weights: Weights
    places: tuple[Place, ...]
    only_session: str | None = None
    excluded_session: str | None = None


def reach(scope: Scope, kinds: Collection[Kind], caller: Caller, weights: Weights) -> Reach:
    """The records that `caller` may find in a scope.

    Raises:
        InvalidArgumentsError: The scope needs an identity that the caller lacks.
    """
    _check_identity(scope, caller, otherwise=", or search scope 'any'")
    current = scope != "history" and weights.session > 0
    past = scope != "session" and weights.history > 0
    is_searched: dict[OwnerScope, bool] = {
        "session": current or past,
        "user": weights.user > 0,
        "agent": weights.agent > 0 and bool(caller.agent),
        "tenant": weights.tenant > 0,
    }
    places = [
        Place(class_, owner, kind)
        for class_ in _CLASSES[scope]
        if is_searched[class_]
        for owner in _owners(class_, caller)
        for kind in KINDS[class_]
        if source_kind(kind) in kinds
    ]
    return Reach(
        caller=caller,
        weights=weights,
        places=tuple(places),
        only_session=None if past else caller.session_id or NO_SESSION,
        excluded_session=None if current else caller.session_id,
    )


def source_kind(kind: Kind) -> Kind:
    """The kind that searches know a record by: a part of an output counts as the output."""
    return "tool_output" if kind == "output_part" else kind


def owner_of(caller: Caller) -> str:
    """Whose the caller's own records are: the user's, or the tenant's if no user is named."""
    return caller.user or TENANT_OWNED


def owner_in(scope: OwnerScope, caller: Caller) -> str:
    """The owner of records that the caller stores in a scope.

    Raises:
        InvalidArgumentsError: The scope needs an identity that the caller lacks.
    """
    _check_identity(scope, caller)
    return _owner(scope, caller)


def default_scope(caller: Caller, topic: str | None = None) -> OwnerScope:
    """The scope of a fact that names none: that of its key, if it has one."""
    if topic is not None:
        return place_of_topic(topic, caller.user)[0]
    return "tenant" if caller.user is None else "user"


def may_write(scope: OwnerScope, caller: Caller) -> bool:
    """Whether the caller's role may write to a scope."""
    return caller.writes is None or scope in caller.writes


def check_may_write(scope: OwnerScope, caller: Caller) -> None:
    """Raise a ForbiddenError unless the caller's role may write to the scope."""
    if not may_write(scope, caller):
        raise ForbiddenError(
            f"A {caller.role} may not write to the scope {scope!r}.",
            remedy="Topics that start with user. are the user's own; config/roles.yaml defines "
            "which role may write to which scopes.",
        )


def own_places(caller: Caller) -> list[tuple[OwnerScope, str]]:
    """Scope and owner of the facts that the caller may see."""
    scopes: tuple[OwnerScope, ...] = ("user", "agent", "tenant")
    return [(scope, owner) for scope in scopes for owner in _owners(scope, caller)]


def visible_places(
    caller: Caller, kinds: Collection[Kind], scopes: Collection[OwnerScope] | None = None
) -> list[Place]:
    """The places of the caller's own records and of the tenant's; by default all scopes."""
    return [
        Place(scope, owner, kind)
        for scope in scopes or get_args(OwnerScope)
        for owner in _owners(scope, caller)
        for kind in kinds
    ]


def may_see(record: Record, caller: Caller) -> bool:
    return owns(record.scope, record.owner, caller)


def visible(record: Record | None, caller: Caller, argument: str) -> Record:
    """The record that an argument names.

    Raises:
        InvalidArgumentsError: There is none, or the caller may not see it.
    """
    if record is None or not may_see(record, caller):
        raise InvalidArgumentsError(
            f"{argument}: there is no memory with this id that you may see.",
            remedy="Take the id from the result of a search.",
        )
    return record


def owns(scope: OwnerScope, owner: str, caller: Caller) -> bool:
    """Whether records of this scope and owner are the caller's or the tenant's."""
    return owner in _owners(scope, caller)


def _check_identity(scope: Scope, caller: Caller, *, otherwise: str = "") -> None:
    lacking = {
        "session": "session_id" if caller.session_id is None else None,
        "history": "user" if caller.user is None else None,
        "user": "user" if caller.user is None else None,
        "agent": "source" if not caller.agent else None,
    }.get(scope)
    if lacking is not None:
        raise InvalidArgumentsError(
            f"scope: {scope!r} needs an identity; the request's envelope has no {lacking}.",
            remedy=f"{how_to_send(lacking)}{otherwise}.",
        )


def how_to_send(field: str) -> str:
    """The remedy for an envelope without a field that identifies the caller."""
    instead = ", or a token where there are accounts" if field == "user" else ""
    name = NAMES[field]
    ways = f"over HTTP: Local2-{name.title()}; in Python: {name}=; `local2`: --{name}"
    return f"Send {field} in the envelope{instead} ({ways})"


def _owner(class_: OwnerScope, caller: Caller) -> str:
    """The owner of the caller's records of a class; the tenant, if no user is known."""
    if class_ == "agent":
        return caller.agent or TENANT_OWNED
    return TENANT_OWNED if class_ == "tenant" else owner_of(caller)


def _owners(class_: OwnerScope, caller: Caller) -> tuple[str, ...]:
    """The owners of the records of a class that the caller may find."""
    own = _owner(class_, caller)
    return (own, TENANT_OWNED) if class_ in PERSONAL and caller.has_unnamed else (own,)


def stated_by(record: Record, caller: Caller) -> StatedBy:
    """Whether the calling user stated a record, or somebody else or an unknown user."""
    return "self" if principal_of(record) in _owners("user", caller) else "other"


def may_retire(new: NewRecord, old: NewRecord) -> bool:
    """Whether a record may replace another: it is of the same user and at least as strong.

    So documents, tools and other users cannot retire what a user stated.
    """
    user = principal_of(new)
    is_as_strong = SOURCE_STRENGTH[source_class_of(new)] >= SOURCE_STRENGTH[source_class_of(old)]
    return is_as_strong and user is not None and user == principal_of(old)


def _of_part(name: str, record: Record, _: Caller) -> Any:
    """Where a part of a long output stands in it, by its metadata."""
    return record.metadata.get(name) if record.kind == "output_part" else None


_DERIVED: dict[str, Callable[[Record, Caller], Any]] = {
    "active": lambda record, _: record.superseded_by is None,
    "by": stated_by,
    "call": lambda record, _: call_of(record),
    "tool_output_key": partial(_of_part, "tool_output_key"),
    "offset": partial(_of_part, "offset"),
    "source_class": lambda record, _: source_class_of(record),
    "source_kind": lambda record, _: source_kind(record.kind),
    "sources": lambda record, _: sources_of(record),
    "superseded_by": lambda record, _: record.superseded_by or None,
}
"""Fields of answers that are no columns of the record, or show less than these."""
_COLUMNS = frozenset(Record.__struct_fields__)


def view(record: Record, caller: Caller, into: type[S], **other: Any) -> S:
    """What the caller is shown of a record: the fields of `into`, some of them given."""
    columns, values_of, derived = _fields_of(into)
    fields = dict(zip(columns, values_of(record), strict=True))
    for name in derived:
        fields[name] = _DERIVED[name](record, caller)
    return into(**(fields | other))


@cache
def _fields_of(
    into: type[msgspec.Struct],
) -> tuple[tuple[str, ...], Callable[[Record], tuple[Any, ...]], tuple[str, ...]]:
    """The names of an answer's fields: those that are columns, and those that are not.

    Between them: what takes the values of those columns from a record.
    """
    names = into.__struct_fields__
    derived = tuple(name for name in names if name in _DERIVED)
    columns = tuple(name for name in names if name in _COLUMNS and name not in _DERIVED)
    return columns, attrgetter(*columns), derived
