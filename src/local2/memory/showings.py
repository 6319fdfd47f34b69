"""Show one caller which memories were shown, by recalls and before answers."""

from local2.errors import InvalidArgumentsError
from local2.ledger.ledger import Ledger
from local2.ledger.operations.showings import ShowingFilter, ShownRecord
from local2.memory.access_log import AccessLog
from local2.memory.scopes import may_see, own_places, view
from local2.protocol.envelope import Caller
from local2.protocol.showings import (
    SHOWN_CHARACTERS,
    FindShowings,
    ShowingFound,
    ShowingsPage,
    ShownMemory,
)


async def find_showings(
    ledger: Ledger, accesses: AccessLog, caller: Caller, wanted: FindShowings
) -> ShowingsPage:
    """A page of what the caller was shown, the latest first; pages follow the order of noting.

    Raises:
        InvalidArgumentsError: Not exactly one of session, query and memory is named.
    """
    owners = tuple(owner for scope, owner in own_places(caller) if scope == "user")
    match wanted:
        case FindShowings(session_id=str(name), query_id=None, id=None):
            asked = ShowingFilter(owners=owners, of="session", name=name)
        case FindShowings(session_id=None, query_id=str(name), id=None):
            asked = ShowingFilter(owners=owners, of="query", name=name)
        case FindShowings(session_id=None, query_id=None, id=str(name)):
            asked = ShowingFilter(owners=owners, of="record", name=name)
        case _:
            raise InvalidArgumentsError(
                "Expected exactly one of session_id, query_id and id.",
                remedy="Name the session, the query of a turn, or a memory.",
            )
    await accesses.write()  # what was logged in the last seconds
    found = await ledger.showings.find(asked, wanted.limit, before=wanted.after)
    ids = {record.id for showing in found for record in showing.records}
    records = await ledger.records.by_id(sorted(ids))

    def memory_of(shown: ShownRecord) -> ShownMemory:
        record = records.get(shown.id)
        if record is None or not may_see(record, caller):
            return ShownMemory(id=shown.id, score=shown.score)
        content = record.content[:SHOWN_CHARACTERS]
        return view(record, caller, ShownMemory, score=shown.score, content=content)

    # Recalls are noted some seconds after they were answered, turns at once.
    latest = sorted(found, key=lambda showing: showing.shown_at, reverse=True)
    return ShowingsPage(
        showings=[
            ShowingFound(
                shown_at=showing.shown_at,
                memories=[memory_of(shown) for shown in showing.records],
                question=showing.question,
                answer=showing.answer,
                agent=showing.agent,
                session_id=showing.session_id,
                query_id=showing.query_id,
            )
            for showing in latest
        ],
        next=found[-1].row if len(found) == wanted.limit else None,
    )
