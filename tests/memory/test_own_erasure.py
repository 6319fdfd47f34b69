"""A restricted role erases its user's own records where it may write, and nothing else."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from local2.errors import ForbiddenError, InvalidArgumentsError
from local2.ledger.records import Fact
from local2.memory.recall.recaller import RecallRequest
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.protocol.conversation import ConversationMessage
from local2.protocol.envelope import Caller
from local2.protocol.memories import OwnerScope
from local2.protocol.memory_tools import Receipt

OWN = frozenset({"session", "user", "agent"})


def as_writer(memory: Memory, user: str | None) -> MemoryService:
    return memory.of(
        Caller(
            tenant=memory.tenant,
            user=user,
            agent="desk",
            session_id="monday",
            role="writer",
            writes=OWN,
        )
    )


def as_anybody(memory: Memory, user: str) -> MemoryService:
    """Return the caller as on a stack without accounts."""
    return memory.of(Caller(tenant=memory.tenant, user=user, agent="desk", session_id="monday"))


async def forget(service: MemoryService, **chosen: Any) -> Receipt:
    return await service.erasure.erase(service.erasure.selection(**chosen))


async def store_message(service: MemoryService, text: str) -> str:
    message = ConversationMessage(role="user", content=text)
    return (await service.intake.store_conversation([message], None)).ids[0]


async def store_fact(
    service: MemoryService, text: str, scope: OwnerScope, topic: str | None = None
) -> str:
    return (await service.facts.store(Fact(content=text, scope=scope, topic=topic))).id


async def contents(service: MemoryService) -> set[str]:
    ask = RecallRequest(query="Which shed is it? And the deadline?", top_k=20)
    found = await service.recall(ask)
    return {item.record.content for item in found.items}


async def test_a_writer_erases_their_own_statements_and_none_of_others(memory: Memory) -> None:
    ada, eve = as_writer(memory, "ada"), as_writer(memory, "eve")
    for service in (ada, eve):
        await store_message(service, "The shed is red.")
        await store_fact(service, "The shed is old.", "user", "user.shed")
        await store_fact(service, f"The shed is {service.caller.user}'s.", "agent")

    by_topic = await forget(ada, topic="user.shed")
    by_session = await forget(ada, session_id="monday")

    assert (by_topic.erased, by_session.erased) == ({"facts": 1}, {"messages": 1, "facts": 1})
    assert await contents(ada) == {"The shed is eve's."}
    assert await contents(eve) == {"The shed is red.", "The shed is old.", "The shed is eve's."}


async def test_two_that_erase_the_same_at_the_same_time_count_it_once(memory: Memory) -> None:
    ada = as_anybody(memory, "ada")
    await store_message(ada, "The shed is red.")
    await store_fact(ada, "The shed is old.", "user")
    await ada.intake.store_rating("q1", 1.0, session_id="monday")

    receipts = await asyncio.gather(*[forget(ada, everything=True) for _ in range(2)])

    counted = Counter[str]()
    for receipt in receipts:
        counted.update(receipt.erased)
    assert counted == {"messages": 1, "facts": 1, "ratings": 1}


async def test_a_writer_cannot_erase_another_users_record_by_its_id(memory: Memory) -> None:
    ada, eve = as_writer(memory, "ada"), as_writer(memory, "eve")
    ids = [
        await store_message(eve, "The shed is red."),
        await store_fact(eve, "The shed is near.", "agent"),
    ]

    for id_ in ids:
        with pytest.raises(InvalidArgumentsError, match="no such record"):
            await forget(ada, id=id_)
    assert await contents(eve) == {"The shed is red.", "The shed is near."}


async def test_a_writer_cannot_erase_a_shared_fact_even_if_they_stated_it(
    memory: Memory,
) -> None:
    before, ada = as_anybody(memory, "ada"), as_writer(memory, "ada")
    id_ = await store_fact(before, "The deadline is in May.", "tenant", "project.deadline")

    with pytest.raises(InvalidArgumentsError, match="no such record"):
        await forget(ada, id=id_)
    receipts = [
        await forget(ada, topic="project.deadline"),
        await forget(ada, session_id="monday"),
    ]

    assert [receipt.erased for receipt in receipts] == [{}, {}]
    assert await contents(before) == {"The deadline is in May."}
    assert (await forget(before, id=id_)).erased == {"facts": 1}


async def test_a_writer_without_a_user_cannot_erase_shared_records(memory: Memory) -> None:
    without_user = as_writer(memory, None)
    await store_message(without_user, "The shed is red.")

    for chosen in ({"session_id": "monday"}, {"topic": "project.deadline"}, {"id": "x"}):
        with pytest.raises(ForbiddenError, match="tenant"):
            await forget(without_user, **chosen)
    assert await contents(without_user) == {"The shed is red."}
