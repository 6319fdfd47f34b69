"""Show one caller memories page by page, the newest first."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import get_args

from local2.errors import InvalidArgumentsError
from local2.language.words import terms, words
from local2.ledger.ledger import Ledger
from local2.ledger.operations.browsing import BrowseCursor, BrowseFilter, PlaceCount
from local2.ledger.search import Place
from local2.memory.scopes import view, visible_places
from local2.protocol.browsing import (
    CONTENT_CHARACTERS,
    MAX_OWNERS,
    MAX_SESSIONS,
    Browse,
    BrowseAll,
    BrowsedMemory,
    BrowsedPage,
    Growth,
    GrowthRequest,
    KindCount,
    ListSessions,
    Overview,
    OwnerCount,
    SessionsPage,
)
from local2.protocol.envelope import Caller
from local2.protocol.memories import PERSONAL, Kind, OwnerScope
from local2.protocol.times import in_utc, time_of


class Browsing:
    """The memories that one caller may look through: own ones and the tenant's, or everybody's."""

    def __init__(self, ledger: Ledger, caller: Caller, *, of_all: bool) -> None:
        self._ledger = ledger
        self._caller = caller
        self._of_all = of_all

    @property
    def _places(self) -> list[Place] | None:
        """All places to look in; None if those are all of the tenant."""
        return None if self._of_all else visible_places(self._caller, get_args(Kind))

    async def growth(self, request: GrowthRequest, now: datetime) -> Growth:
        """Count memories by days."""
        first = (now - timedelta(days=request.days - 1)).replace(
            hour=0, minute=0, second=0, microsecond=0
        )
        return Growth(days=await self._ledger.browsing.growth(self._places, first))

    async def sessions(self, request: ListSessions) -> SessionsPage:
        """A page of sessions.

        Raises:
            BadRequestError: The page before is not valid.
        """
        places = self._places
        owners = None
        if places is not None:
            owners = sorted({place.owner for place in places if place.scope == "session"})
        after = BrowseCursor.of(request.after)
        return await self._ledger.browsing.sessions(owners, request.limit, after)

    async def overview(self) -> Overview:
        """What the memory consists of."""
        found = await self._ledger.browsing.counts(self._places)
        sessions = await self.sessions(ListSessions(limit=MAX_SESSIONS))
        of_kinds: dict[tuple[OwnerScope, Kind], list[PlaceCount]] = {}
        for count in found:
            of_kinds.setdefault((count.place.scope, count.place.kind), []).append(count)
        return Overview(
            counts=[
                KindCount(
                    scope=scope,
                    kind=kind,
                    active=sum(count.active for count in counts),
                    past=sum(count.past for count in counts),
                    last=max(count.last for count in counts),
                )
                for (scope, kind), counts in of_kinds.items()
            ],
            users=_owners([count for count in found if count.place.scope in PERSONAL]),
            agents=_owners([count for count in found if count.place.scope == "agent"]),
            sessions=sessions.sessions,
        )

    async def page(self, request: Browse) -> BrowsedPage:
        """A page of memories; of all, `BrowseAll.of` names one user.

        Raises:
            InvalidArgumentsError: A time is not valid, or the words have no letters or digits.
            BadRequestError: The page before is not valid.
        """
        kinds = request.kinds or get_args(Kind)
        places: Sequence[Place] | None = None
        if not self._of_all:
            places = visible_places(self._caller, kinds, request.scopes)
        elif isinstance(request, BrowseAll) and request.of is not None:
            scopes = [scope for scope in PERSONAL if scope in (request.scopes or PERSONAL)]
            places = [Place(scope, request.of, kind) for scope in scopes for kind in kinds]
        searched: Sequence[str] = ()
        if request.words is not None:  # without words such as "the", unless there are no others
            searched = terms(request.words) or words(request.words)
            if not searched:
                raise InvalidArgumentsError(
                    "words: there is neither a letter nor a digit.", remedy="Leave words out."
                )
        since = time_of(request.since, "since") if request.since else None
        until = time_of(request.until, "until", ends=True) if request.until else None
        wanted = BrowseFilter(
            states=frozenset(request.states),
            places=places,
            kinds=request.kinds if places is None else None,
            scopes=request.scopes if places is None else None,
            types=request.types,
            sources=request.sources,
            agent=request.agent,
            session_id=request.session_id,
            topic=request.topic,
            since=in_utc(since, "since") if since else None,
            until=in_utc(until, "until") if until else None,
            terms=searched,
        )
        after = BrowseCursor.of(request.after)
        page = await self._ledger.browsing.page(wanted, request.limit, after)
        return BrowsedPage(
            memories=[
                view(
                    record := browsed.record,
                    self._caller,
                    BrowsedMemory,
                    state=browsed.state,
                    content=record.content[:CONTENT_CHARACTERS],
                    cut=len(record.content) > CONTENT_CHARACTERS,
                    user=record.owner or None if record.scope in PERSONAL else None,
                    recalls=browsed.recalls,
                    recalled_at=browsed.recalled_at,
                )
                for browsed in page.records
            ],
            next=page.next.text() if page.next else None,
        )


def _owners(counts: Sequence[PlaceCount]) -> list[OwnerCount]:
    """The owners of these places, those with the newest records first."""
    of_owners: dict[str, list[PlaceCount]] = {}
    for count in counts:
        of_owners.setdefault(count.place.owner, []).append(count)
    owners = [
        OwnerCount(
            name=owner,
            active=sum(count.active for count in counted),
            last=max(count.last for count in counted),
        )
        for owner, counted in of_owners.items()
    ]
    return sorted(owners, key=lambda owner: owner.last, reverse=True)[:MAX_OWNERS]
