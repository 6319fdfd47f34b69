"""Turns of a session stand in the order of their stream, whichever stack stores them first."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from itertools import permutations

import pytest

from ledgers import DAY, OWNER
from local2.ledger.ledger import Ledger
from local2.ledger.operations import turns
from local2.ledger.operations.sessions import FactSelection, SessionKey, StoredSession
from local2.ledger.operations.turns import Delivered
from local2.memory.intake.conversations import Turn, records_of_turn
from local2.protocol.envelope import Caller
from local2.protocol.payloads import ToolCallRecord

RICHARD = Caller(tenant="default", user=OWNER, agent="test", session_id="s1")


async def store(
    ledger: Ledger,
    session: str,
    number: int,
    *,
    sequence: int | None = None,
    calls: Sequence[ToolCallRecord] = (),
) -> None:
    """Store a turn as the stream delivered it."""
    turn = Turn(
        query=f"Question {number}?",
        answer=f"Answer {number}.",
        at=DAY,
        tool_calls=list(calls),
        session_id=session,
        query_id=f"{session} q{number}",
    )
    at = DAY + timedelta(seconds=number)
    delivered = Delivered(sequence=number if sequence is None else sequence, at=at)
    for part in turns.parts_of(records_of_turn(turn, RICHARD)):
        await ledger.turns.store(part, delivered=delivered)


async def told(ledger: Ledger, session: str) -> list[str]:
    def contents(stored: StoredSession) -> list[str]:
        return [message.content for message in stored.messages]

    wanted = list[FactSelection]()
    return await ledger.sessions.load(SessionKey(OWNER, session), 9_999, wanted, contents)


def exchanges(*numbers: int) -> list[str]:
    return [text for n in numbers for text in (f"Question {n}?", f"Answer {n}.")]


async def test_whatever_order_they_are_stored_in(ledger: Ledger, theirs: Ledger) -> None:
    ledgers = [ledger, theirs]

    for name, order in enumerate(permutations((1, 2, 3, 4))):
        for turn, number in enumerate(order):
            await store(ledgers[turn % 2], f"s{name}", number)

        assert await told(ledgers[0], f"s{name}") == exchanges(1, 2, 3, 4), order


async def test_even_if_stacks_store_them_at_the_same_time(ledger: Ledger, theirs: Ledger) -> None:
    ledgers = [ledger, theirs]

    await asyncio.gather(*(store(ledgers[n % 2], "s1", n) for n in reversed(range(1, 13))))
    await store(ledgers[0], "s1", 7)

    assert await told(ledgers[0], "s1") == exchanges(*range(1, 13))


async def test_a_stream_that_begins_anew_continues_its_sessions(ledger: Ledger) -> None:
    await store(ledger, "s1", 1, sequence=500)

    await store(ledger, "s1", 100, sequence=1)

    assert await told(ledger, "s1") == exchanges(1, 100)


async def test_a_turn_of_many_calls_that_is_stored_late(
    ledger: Ledger, theirs: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "RECORDS_PER_TRANSACTION", 10)
    weighed = [f"{number} g" for number in range(30)]
    calls = [ToolCallRecord(name="weigh", content=said, id=said) for said in weighed]
    await store(ledger, "s1", 2)

    await store(theirs, "s1", 1, calls=calls)

    said = await told(ledger, "s1")
    assert [text for text in said if text.endswith(" g")] == weighed
    assert [text for text in said if not text.endswith(" g")] == exchanges(1, 2)
