"""`recall` as of another time, and with only items near the best, over the bus."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import pytest

from calling import RICHARD
from indexed import indexed
from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.client.tools import call_tool
from local2.ledger.records import Fact
from local2.memory.service import MemoryService
from local2.memory.tenant import Memories, Memory
from local2.protocol.memory_tools import RECALL
from local2.tools.catalog import bind
from recalling import chat_message

DAYS = (1, 8, 15, 22)
"""Days of May 2026, each a Friday, on which messages about the pump were sent."""


@pytest.fixture(autouse=True)
def clock(memory: Memory) -> None:
    memory.clock = lambda: datetime(2026, 11, 22, tzinfo=UTC)


@pytest.fixture(autouse=True)
async def host(bus: Connection, memory: Memory) -> AsyncIterator[None]:
    async with ToolHost(bus, bind(RECALL, Memories(memory))):
        yield


async def recall_items(bus: Connection, query: str = "the pump", **args: Any) -> list[Any]:
    result = await call_tool(bus, "recall", {"query": query, "top_k": 20, **args}, caller=RICHARD)
    assert result.ok, result.content
    items: list[Any] = result.data["items"]
    return items


async def days(bus: Connection, query: str = "the pump", **args: Any) -> list[str]:
    """Return the days of the month on which the found messages were sent, best first."""
    return [item["content"][-3:-1].strip() for item in await recall_items(bus, query, **args)]


async def send_weekly(service: MemoryService) -> None:
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
async def test_records_of_a_later_time_are_not_found(
    bus: Connection, richard: MemoryService, bounds: dict[str, str], expected: set[str]
) -> None:
    await send_weekly(richard)

    assert set(await days(bus, **bounds)) == expected


async def test_a_message_of_an_earlier_time_that_was_ingested_later_is_found(
    bus: Connection, richard: MemoryService
) -> None:
    """A conversation that is ingested later still happened at its own time."""
    await send_weekly(richard)
    await richard.facts.store(Fact(content="The pump is blue.", scope="user"))

    assert len(await recall_items(bus, as_of="2026-05-31")) == len(DAYS)
    assert len(await recall_items(bus)) == len(DAYS) + 1


@pytest.mark.parametrize(
    ("as_of", "day"), [("2026-05-13", "8"), ("2026-05-20", "15"), ("2026-05-27", "22")]
)
async def test_last_week_is_the_week_before_as_of(
    bus: Connection, richard: MemoryService, as_of: str, day: str
) -> None:
    await send_weekly(richard)

    assert (await days(bus, "Was the pump checked last week?", as_of=as_of))[0] == day


@pytest.mark.parametrize(
    ("as_of", "day"), [("2026-05-16T23:00Z", "15"), ("2026-05-17T12:00+13:00", "16")]
)
async def test_yesterday_is_a_day_in_the_time_zone_of_as_of(
    bus: Connection, richard: MemoryService, as_of: str, day: str
) -> None:
    """Both are the same moment, when it is Saturday in London and Sunday in Auckland."""
    times = (datetime(2026, 5, day, 10, tzinfo=UTC) for day in (15, 16))
    await richard.intake.store_conversation(
        [chat_message(f"The pump was checked, day {time.day}.", timestamp=time) for time in times]
    )

    assert (await days(bus, "Was the pump checked yesterday?", as_of=as_of))[0] == day


async def test_age_is_counted_up_to_as_of(bus: Connection, richard: MemoryService) -> None:
    await send_weekly(richard)

    def age_of(items: list[Any]) -> float:
        return float(
            next(i for i in items if "day 1." in i["content"])["explanation"]["shares"].get(
                "age", 0
            )
        )

    age_then = age_of(await recall_items(bus, as_of="2026-05-01", explain=True))
    now = age_of(await recall_items(bus, explain=True))

    assert age_then > 0 > now


async def test_a_beginning_after_as_of_is_refused(bus: Connection) -> None:
    args = {"query": "pump", "as_of": "2026-05-01", "since": "2026-05-03"}
    refused = await call_tool(bus, "recall", args, caller=RICHARD)

    assert refused.error is not None
    assert (refused.error.code, "since" in refused.error.message) == ("invalid_arguments", True)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"as_of": "yesterday"}, "as_of"),
        ({"as_of": "0001-01-01T00:00:00+23:59"}, "as_of"),
        ({"min_relevance": -0.1}, "min_relevance"),
        ({"min_relevance": 1.1}, "min_relevance"),
        ({"min_relevance": "0.5"}, "min_relevance"),
    ],
)
async def test_an_invalid_time_or_share_is_refused_by_name(
    bus: Connection, args: dict[str, Any], message: str
) -> None:
    refused = await call_tool(bus, "recall", {"query": "pump", **args}, caller=RICHARD)

    assert refused.error is not None
    assert refused.error.code == "invalid_arguments"
    assert message in refused.error.message


@pytest.mark.parametrize(
    "as_of",
    [
        "0001-01-01",
        "0001-01-01T00:00:00Z",
        "0001-01-01T12:00:00+12:00",
        "9999-12-31",
        "9999-12-31T11:59:59-12:00",
    ],
)
@pytest.mark.parametrize("words", ["yesterday", "last year", "today", "in the last 999 years"])
async def test_recall_answers_at_the_ends_of_the_calendar(
    bus: Connection, richard: MemoryService, as_of: str, words: str
) -> None:
    await send_weekly(richard)
    found = await recall_items(bus, f"Was the pump checked {words}?", as_of=as_of)

    assert bool(found) == as_of.startswith("9999")


async def test_items_far_below_the_best_are_left_out_on_request(
    bus: Connection, searchable: Memory
) -> None:
    richard = searchable.of(RICHARD)
    texts = ("The pump of hall 3 leaks oil.", "The pump was painted.", "The hall has two doors.")
    for text in texts:
        await richard.intake.store_conversation([chat_message(text)], session_id=text)
    await indexed(searchable)
    whole = await recall_items(bus, "Which pump leaks oil in hall 3?")
    best = whole[0]["score"]

    assert len(whole) == len(texts)
    for least in (0.0, 0.3, 0.6, 1.0):
        returned = await recall_items(bus, "Which pump leaks oil in hall 3?", min_relevance=least)
        assert returned == [item for item in whole if item["score"] >= least * best]
    assert len(await recall_items(bus, "Which pump leaks oil in hall 3?", min_relevance=1)) == 1
