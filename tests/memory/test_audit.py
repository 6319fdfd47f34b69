"""The audit records who changed what, when and why, for permitted readers and without content."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from calling import RICHARD, call, ingest
from local2.bus.connection import Connection
from local2.protocol.envelope import Caller, utc_now

EVE = msgspec.structs.replace(RICHARD, user="eve")
NOBODY = msgspec.structs.replace(RICHARD, user=None)

pytestmark = pytest.mark.usefixtures("tools")


async def entries(bus: Connection, caller: Caller = RICHARD, **args: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await call(bus, "audit", args, caller))["entries"]
    return found


async def save(bus: Connection, topic: str, content: str, caller: Caller = RICHARD) -> str:
    saved = await call(bus, "save_topic", {"topic": topic, "content": content}, caller)
    return str(saved["id"])


async def test_a_replaced_fact_is_recorded_with_actor_time_and_reason(bus: Connection) -> None:
    before = utc_now() - timedelta(milliseconds=1)
    older = await save(bus, "user.city", "Berlin")
    newer = await save(bus, "user.city", "Rome")

    (entry,) = await entries(bus)

    at = msgspec.convert(entry.pop("at"), type=type(before))
    assert before <= at <= utc_now()
    assert entry.pop("number") > 0
    assert entry == {
        "action": "superseded",
        "id": older,
        "kind": "fact",
        "topic": "user.city",
        "scope": "user",
        "agent": "shell",
        "by": "self",
        "reason": "a newer version was stored",
        "superseded_by": newer,
    }
    assert await entries(bus, id=newer) == []
    assert len(await entries(bus, id=older)) == 1


async def test_an_edited_message_is_recorded(bus: Connection) -> None:
    for text in ("Osmium is blue.", "Osmium is bluish."):
        await ingest(bus, {"id": "m1", "role": "user", "content": text})

    (entry,) = await entries(bus)

    assert (entry["kind"], entry["reason"]) == ("chat_message", "the message was edited")
    assert entry["by"] == "self"


async def test_other_users_see_changes_of_shared_facts_without_the_actor(bus: Connection) -> None:
    for value in ("Berlin", "Rome"):
        await save(bus, "user.city", value)
        await save(bus, "project.city", value)

    (seen,) = await entries(bus, EVE)
    assert (seen["topic"], seen["by"]) == ("project.city", "other")
    assert "richard" not in str(seen)
    assert [one["topic"] for one in await entries(bus, NOBODY)] == ["project.city"]
    assert len(await entries(bus)) == 2


async def test_a_change_by_nobody_named_is_another_users_to_no_one(bus: Connection) -> None:
    for value in ("Berlin", "Rome"):
        await save(bus, "project.city", value, NOBODY)

    (seen,) = await entries(bus, EVE)
    (own,) = await entries(bus, NOBODY)

    assert (seen["by"], own["by"]) == ("unnamed", "self")


async def test_the_audit_is_read_in_pages(bus: Connection) -> None:
    for number in range(6):
        await save(bus, "user.city", f"City {number}")

    first = await call(bus, "audit", {"limit": 2})
    second = await call(bus, "audit", {"limit": 2, "before": first["next"]})
    third = await call(bus, "audit", {"limit": 2, "before": second["next"]})

    numbers = [one["number"] for page in (first, second, third) for one in page["entries"]]
    assert numbers == sorted(numbers, reverse=True)
    assert len(numbers) == 5
    assert third["next"] is None
