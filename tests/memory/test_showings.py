"""What was shown is kept with each turn, and by each recall where recalls are logged."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from calling import caller_named
from local2.errors import InvalidArgumentsError
from local2.memory.intake.conversations import Turn
from local2.memory.recall.recaller import RecallRequest
from local2.memory.service import MemoryService
from local2.memory.tenant import Memory
from local2.memory.upkeep.retention import Retention
from local2.protocol.envelope import utc_now
from local2.protocol.payloads import ToolCallRecord
from local2.protocol.showings import FindShowings, ShowingFound
from recalling import recall, remember

QUESTION = "Where was the osmium sent?"


@pytest.fixture
def logging(memory: Memory) -> Memory:
    """The memory, which logs recalls for a week."""
    memory.settings = msgspec.structs.replace(memory.settings, recall_log_days=7)
    memory._shared = msgspec.structs.replace(memory._shared, settings=memory.settings)
    return memory


def asking(memory: Memory, user: str = "richard") -> MemoryService:
    caller = caller_named(user, agent="shell", session_id="s1")
    return memory.of(msgspec.structs.replace(caller, query_id="q1"))


async def shown(service: MemoryService, **wanted: Any) -> list[ShowingFound]:
    return (await service.shown(FindShowings(**wanted))).showings


async def answer_turn(service: MemoryService, **fields: Any) -> str:
    turn = Turn(
        query=QUESTION,
        answer="To Rome, by ship, in May.",
        at=utc_now(),
        session_id="s1",
        query_id="q1",
        **fields,
    )
    return (await service.intake.store_turn(turn)).id


async def test_a_recall_is_found_by_its_session_its_query_and_what_it_returned(
    logging: Memory,
) -> None:
    richard = asking(logging)
    rome = await remember(richard, "The osmium was sent to Rome.")
    await remember(richard, "Osmium is heavy.")
    recalled = await richard.recall(RecallRequest(query=QUESTION, top_k=2))

    (found,) = await shown(richard, session_id="s1")

    assert (found.question, found.answer, found.agent, found.query_id) == (
        QUESTION,
        None,
        "shell",
        "q1",
    )
    assert [(memory.id, memory.score) for memory in found.memories] == [
        (item.record.id, item.score) for item in recalled.items
    ]
    assert found.memories[0].content == "The osmium was sent to Rome."
    for wanted in ({"query_id": "q1"}, {"id": rome}):
        assert await shown(richard, **wanted) == [found]
        assert await shown(asking(logging, "eve"), **wanted) == []
    with pytest.raises(InvalidArgumentsError, match="exactly one"):
        await shown(richard, session_id="s1", query_id="q1")


async def test_pages_of_what_was_shown_continue_each_other(logging: Memory) -> None:
    richard = asking(logging)
    for number in range(5):
        await recall(richard, f"Question {number}?")

    first = await richard.shown(FindShowings(session_id="s1", limit=3))
    rest = await richard.shown(FindShowings(session_id="s1", limit=3, after=first.next))

    questions = [found.question for found in (*first.showings, *rest.showings)]
    assert questions == [f"Question {number}?" for number in reversed(range(5))]
    assert rest.next is None


async def test_recalls_are_not_logged_unless_asked_for(memory: Memory) -> None:
    richard = asking(memory)

    await recall(richard, QUESTION)

    assert await shown(richard, session_id="s1") == []


async def test_a_logged_recall_is_deleted_after_the_days_that_it_is_kept(logging: Memory) -> None:
    richard = asking(logging)
    logging.clock = lambda: utc_now() - timedelta(days=8)
    await recall(richard, "Long ago?")
    logging.clock = utc_now
    await recall(richard, "Now?")
    turn = await answer_turn(richard, shown=["some-id"])
    await logging.accesses.write()

    retention = Retention(logging.ledger, logging.settings, lambda *_: None, utc_now)

    assert await retention.drop_recalls() == 1
    left = {(one.question, one.answer) for one in await shown(richard, session_id="s1")}
    assert left == {("Now?", None), (None, turn)}


async def test_a_turn_keeps_what_its_agent_was_shown_and_what_it_asked_for(
    memory: Memory,
) -> None:
    richard = asking(memory)
    rome, heavy = [
        await remember(richard, content)
        for content in ("The osmium was sent to Rome.", "Osmium is heavy.")
    ]
    memory.answer_log.add(richard.caller, "recall", "1. The osmium was sent to Rome.", [rome])
    call = ToolCallRecord(name="recall", content="1. The osmium was sent to Rome.")

    answer = await answer_turn(richard, tool_calls=[call], shown=[heavy, "gone", heavy])

    (found,) = await shown(richard, query_id="q1")
    assert (found.answer, found.question) == (answer, None)
    assert [(one.id, one.content) for one in found.memories] == [
        (heavy, "Osmium is heavy."),
        ("gone", None),
        (rome, "The osmium was sent to Rome."),
    ]
    await answer_turn(richard, shown=["another"])  # delivered again
    assert await shown(richard, query_id="q1") == [found]


@pytest.mark.parametrize(
    ("chosen", "left"),
    [
        ({"everything": True}, (0, 0)),
        ({"session_id": "s1"}, (0, 0)),
        ({"topic": "user.osmium"}, (2, 0)),
    ],
)
async def test_what_is_forgotten_was_never_shown(
    logging: Memory, chosen: dict[str, Any], left: tuple[int, int]
) -> None:
    richard = asking(logging)
    stored = await richard.facts.store_topic("user.osmium", "The osmium was sent to Rome.")
    await recall(richard, QUESTION)
    await answer_turn(richard, shown=[stored.id])
    assert [len(one.memories) for one in await shown(richard, session_id="s1")] == [1, 1]

    await richard.erasure.erase(richard.erasure.selection(**chosen))

    found = await shown(richard, session_id="s1")
    assert (len(found), sum(len(one.memories) for one in found)) == left
