"""`recall` as at another time, and with nothing but what is near the best: over the bus."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from calling import RICHARD
from indexed import indexed
from local.bus.connection import Connection
from local.bus.tool_host import ToolHost
from local.client.tools import call_tool
from local.ledger.records import Fact
from local.memory.service import MemoryService
from local.memory.tenant import Memories, Memory
from local.tools import recall as recall_tool
from recalling import chat_message

DAYS = (1, 8, 15, 22)
"""Of May 2026, a Friday each: what was said of the pump, a week apart."""


@pytest.fixture
def richard(memory: Memory) -> MemoryService:
    memory.clock = lambda: datetime(2026, 11, 22, tzinfo=UTC)
    return memory.of(RICHARD)


@pytest.fixture(autouse=True)
async def host(bus: Connection, memory: Memory) -> AsyncIterator[None]:
    async with ToolHost(bus, recall_tool.RECALL.bind(Memories(memory))):
        yield


async def recalled(bus: Connection, query: str = "the pump", **args: Any) -> list[Any]:
    result = await call_tool(bus, "recall", {"query": query, "top_k": 20, **args}, caller=RICHARD)
    assert result.ok, result.content
    items: list[Any] = result.data["items"]
    return items


async def days(bus: Connection, query: str = "the pump", **args: Any) -> list[str]:
    """On which days of the month it was said, best first."""
    return [item["content"][-3:-1].strip() for item in await recalled(bus, query, **args)]


async def say_weekly(service: MemoryService) -> None:
    await service.intake.store_conversation(
        [
            chat_message(
                f"The pump was checked, day {day}.",
                timestamp=datetime(2026, 5, day, 12, tzinfo=UTC),
            )
            for day in DAYS
        ]
    )


@pytest.mark.parametrize(
    ("bounds", "expected"),
    [
        pytest.param({}, {"1", "8", "15", "22"}, id="now"),
        pytest.param({"as_of": "2026-05-15"}, {"1", "8", "15"}, id="a date is its end"),
        pytest.param({"as_of": "2026-05-15T11:59:59Z"}, {"1", "8"}, id="a time"),
        pytest.param({"as_of": "2026-05-15T13:59:00+02:00"}, {"1", "8"}, id="an offset"),
        pytest.param({"as_of": "2026-05-15", "until": "2026-05-08"}, {"1", "8"}, id="until first"),
        pytest.param({"as_of": "2026-05-08", "until": "2026-05-15"}, {"1", "8"}, id="as_of first"),
        pytest.param({"as_of": "2026-05-15", "since": "2026-05-02"}, {"8", "15"}, id="since"),
        pytest.param({"as_of": "2026-04-01"}, set(), id="before everything"),
    ],
)
async def test_what_happened_later_is_not_there_yet(
    bus: Connection, richard: MemoryService, bounds: dict[str, str], expected: set[str]
) -> None:
    await say_weekly(richard)

    assert set(await days(bus, **bounds)) == expected


async def test_what_was_recorded_later_and_happened_before_is_there(
    bus: Connection, richard: MemoryService
) -> None:
    """A conversation that is ingested afterwards happened when it did."""
    await say_weekly(richard)
    await richard.facts.store(Fact(content="The pump is blue.", scope="user"))

    assert len(await recalled(bus, as_of="2026-05-31")) == len(DAYS)
    assert len(await recalled(bus)) == len(DAYS) + 1


@pytest.mark.parametrize(
    ("as_of", "day"), [("2026-05-13", "8"), ("2026-05-20", "15"), ("2026-05-27", "22")]
)
async def test_last_week_is_the_week_before_that_time(
    bus: Connection, richard: MemoryService, as_of: str, day: str
) -> None:
    await say_weekly(richard)

    assert (await days(bus, "Was the pump checked last week?", as_of=as_of))[0] == day


@pytest.mark.parametrize(
    ("as_of", "day"), [("2026-05-16T23:00Z", "15"), ("2026-05-17T12:00+13:00", "16")]
)
async def test_yesterday_is_a_day_of_its_zone(
    bus: Connection, richard: MemoryService, as_of: str, day: str
) -> None:
    """Both are the same moment, at which it is Saturday in London, and Sunday in Auckland."""
    times = (datetime(2026, 5, day, 10, tzinfo=UTC) for day in (15, 16))
    await richard.intake.store_conversation(
        [chat_message(f"The pump was checked, day {time.day}.", timestamp=time) for time in times]
    )

    assert (await days(bus, "Was the pump checked yesterday?", as_of=as_of))[0] == day


async def test_age_counts_up_to_that_time(bus: Connection, richard: MemoryService) -> None:
    await say_weekly(richard)

    def age_of(items: list[Any]) -> float:
        return float(
            next(i for i in items if "day 1." in i["content"])["explanation"]["shares"].get(
                "age", 0
            )
        )

    then = age_of(await recalled(bus, as_of="2026-05-01", explain=True))
    now = age_of(await recalled(bus, explain=True))

    assert then > 0 > now


async def test_a_beginning_after_that_time_is_refused(bus: Connection) -> None:
    args = {"query": "pump", "as_of": "2026-05-01", "since": "2026-05-03"}
    refused = await call_tool(bus, "recall", args, caller=RICHARD)

    assert refused.error is not None
    assert (refused.error.code, "since" in refused.error.message) == ("invalid_arguments", True)


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"as_of": "yesterday"}, "as_of"),
        ({"as_of": "0001-01-01T00:00:00+23:59"}, "as_of"),
        ({"min_relevance": -0.1}, "args.min_relevance"),
        ({"min_relevance": 1.1}, "args.min_relevance"),
        ({"min_relevance": "0.5"}, "args.min_relevance"),
    ],
)
async def test_what_is_no_time_or_share_is_refused_by_name(
    bus: Connection, args: dict[str, Any], says: str
) -> None:
    refused = await call_tool(bus, "recall", {"query": "pump", **args}, caller=RICHARD)

    assert refused.error is not None
    assert refused.error.code == "invalid_arguments"
    assert says in refused.error.message


async def test_items_far_below_the_best_are_left_out_as_wished(
    bus: Connection, searchable: Memory
) -> None:
    richard = searchable.of(RICHARD)
    texts = ("The pump of hall 3 leaks oil.", "The pump was painted.", "The hall has two doors.")
    for text in texts:
        await richard.intake.store_conversation([chat_message(text)], session_id=text)
    await indexed(searchable)
    whole = await recalled(bus, "Which pump leaks oil in hall 3?")
    best = whole[0]["score"]

    assert len(whole) == len(texts)
    for least in (0.0, 0.3, 0.6, 1.0):
        kept = await recalled(bus, "Which pump leaks oil in hall 3?", min_relevance=least)
        assert kept == [item for item in whole if item["score"] >= least * best]
    assert len(await recalled(bus, "Which pump leaks oil in hall 3?", min_relevance=1)) == 1
