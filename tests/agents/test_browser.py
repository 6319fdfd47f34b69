"""Clients in any language look through what their callers may see, over the bus."""

import json
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from calling import RICHARD, call, ingest
from factories import ConnectBus
from local2.bus.connection import Connection
from local2.memory.tenant import Memories, Memory
from local2.protocol.browsing import CONTENT_CHARACTERS, MAX_PAGE
from local2.protocol.envelope import utc_now
from serving import service_host

EVE = msgspec.structs.replace(RICHARD, user="eve", agent="browser")

pytestmark = pytest.mark.usefixtures("tools")


@pytest.fixture
async def client(
    bus: Connection, memory: Memory, connect_bus: ConnectBus
) -> AsyncIterator[Connection]:
    async with service_host("browser", bus, Memories(memory)):
        yield await connect_bus()


async def browse(
    client: Connection, subject: str = "memory.browse", user: str = "richard", **payload: Any
) -> dict[str, Any]:
    request = {"user": user, "source": "shell", "payload": payload}
    answer = await client.request(subject, json.dumps(request).encode(), timeout=10)
    reply: dict[str, Any] = json.loads(answer.data)["payload"]
    return reply


def contents(page: dict[str, Any]) -> list[str]:
    return [memory["content"] for memory in page["memories"]]


async def test_a_caller_sees_what_is_his_own_and_for_everybody_the_newest_first(
    bus: Connection, client: Connection
) -> None:
    await call(bus, "save_topic", {"topic": "user.city", "content": "Rome"})
    await call(bus, "save_topic", {"topic": "user.city", "content": "Paris"}, EVE)
    await call(bus, "save_topic", {"topic": "project.metal", "content": "Osmium"}, EVE)
    await call(bus, "remember_fact", {"content": "Tea at five.", "scope": "agent"}, EVE)

    assert contents(await browse(client)) == ["Osmium", "Rome"]
    assert contents(await browse(client, user="eve")) == ["Osmium", "Paris"]
    assert contents(await browse(client, scopes=["user"])) == ["Rome"]
    everything = await browse(client, "memory.browse.all")
    assert contents(everything) == ["Tea at five.", "Osmium", "Paris", "Rome"]
    assert contents(await browse(client, "memory.browse.all", of="eve")) == ["Paris"]
    (metal, rome) = (await browse(client))["memories"]
    assert (metal["by"], metal.get("user"), metal["agent"]) == ("other", None, "browser")
    assert (rome["by"], rome["user"], rome["topic"]) == ("self", "richard", "user.city")


async def test_an_overview_counts_what_the_caller_may_see(
    bus: Connection, client: Connection
) -> None:
    await call(bus, "save_topic", {"topic": "user.city", "content": "Rome"})
    await call(bus, "save_topic", {"topic": "user.city", "content": "Paris"})
    await call(bus, "save_topic", {"topic": "user.city", "content": "Oslo"}, EVE)
    await call(bus, "remember_fact", {"content": "Tea at five.", "scope": "agent"}, EVE)
    await ingest(bus, {"role": "user", "content": "Which metal?"})

    own = await browse(client, "memory.overview")
    everything = await browse(client, "memory.overview.all")

    counts = {(one["scope"], one["kind"]): (one["active"], one["past"]) for one in own["counts"]}
    assert counts == {("session", "chat_message"): (1, 0), ("user", "fact"): (1, 1)}
    assert [user["name"] for user in own["users"]] == ["richard"]
    assert own["agents"] == []
    (session,) = own["sessions"]
    assert (session["session_id"], session["user"], session["messages"]) == ("s1", "richard", 1)
    assert {user["name"]: user["active"] for user in everything["users"]} == {
        "eve": 1,
        "richard": 2,
    }
    assert [agent["name"] for agent in everything["agents"]] == ["browser"]


@pytest.mark.parametrize(
    ("wanted", "is_found"),
    [
        ({"since": "2026-05-01T11:30+02:00"}, True),  # 09:30 in UTC
        ({"since": "2026-05-01T09:30-02:00"}, False),
        ({"until": "2026-05-01T09:30-02:00"}, True),
        ({"until": "2026-05-01T11:30+02:00"}, False),
    ],
)
async def test_times_are_compared_as_moments_whatever_their_zone(
    bus: Connection, client: Connection, wanted: dict[str, str], is_found: bool
) -> None:
    said = {"role": "user", "content": "Osmium.", "timestamp": "2026-05-01T10:00:00Z"}
    await ingest(bus, said)

    assert contents(await browse(client, **wanted)) == ["Osmium."] * is_found


async def test_a_page_of_long_memories_fits_into_a_message(
    bus: Connection, client: Connection
) -> None:
    for number in range(MAX_PAGE):
        content = f"{number} " + "\x01" * 5_000
        await call(bus, "save_memory", {"content": content})

    page = await browse(client, limit=MAX_PAGE)

    assert len(page["memories"]) == MAX_PAGE
    assert {len(content) for content in contents(page)} == {CONTENT_CHARACTERS}
    assert all(memory["cut"] for memory in page["memories"])


@pytest.mark.parametrize(
    ("payload", "code", "named"),
    [
        ({"limit": 0}, "bad_request", "limit"),
        ({"limit": MAX_PAGE + 1}, "bad_request", "limit"),
        ({"kinds": ["thought"]}, "bad_request", "kinds"),
        ({"states": ["lost"]}, "bad_request", "states"),
        ({"since": "yesterday"}, "invalid_arguments", "since"),
        ({"words": "?!"}, "invalid_arguments", "words"),
        ({"after": "[1]"}, "bad_request", "after"),
    ],
)
async def test_an_invalid_condition_is_refused_by_name(
    client: Connection, payload: dict[str, Any], code: str, named: str
) -> None:
    refused = await browse(client, **payload)

    assert refused["code"] == code
    assert named in refused["message"]


async def test_growth_is_counted_of_what_the_caller_may_see(
    bus: Connection, client: Connection
) -> None:
    await call(bus, "save_topic", {"topic": "user.city", "content": "Rome"})
    await call(bus, "save_topic", {"topic": "user.city", "content": "Paris"})
    await call(bus, "save_topic", {"topic": "user.city", "content": "Oslo"}, EVE)
    before = {"role": "user", "content": "Which metal?", "timestamp": "2026-05-01"}
    await ingest(bus, before)

    own = (await browse(client, "memory.growth", days=2))["days"]
    everything = (await browse(client, "memory.growth.all"))["days"]
    refused = await browse(client, "memory.growth", days=0)

    assert [(count["kind"], count["added"]) for count in own] == [("fact", 2)]
    assert [(count["kind"], count["added"]) for count in everything] == [("fact", 3)]
    assert own[0]["day"] == utc_now().date().isoformat()
    assert refused["code"] == "bad_request"


async def test_without_accounts_a_caller_may_do_everything(client: Connection) -> None:
    rights = await browse(client, "memory.rights")

    assert (rights["user"], rights["role"], rights["actions"]) == ("richard", None, None)


async def test_a_graph_has_only_what_the_caller_may_see(
    bus: Connection, client: Connection
) -> None:
    def fact(subject: str, object_: str) -> dict[str, str]:
        return {"subject": subject, "predicate": "knows", "object": object_}

    own = await call(bus, "add_knowledge", {"facts": [fact("Ada", "Grace")], "scope": "user"})
    await call(bus, "add_knowledge", {"facts": [fact("Ada", "Eve")], "scope": "user"}, EVE)
    await call(bus, "add_knowledge", {"facts": [fact("Ada", "Joan")], "scope": "tenant"}, EVE)

    for wanted in ({"thing": "ADA"}, {}):
        graph = await browse(client, "memory.graph", **wanted)
        assert {node["name"] for node in graph["nodes"]} == {"Ada", "Grace", "Joan"}
        assert {edge["target"] for edge in graph["edges"]} == {"thing:grace", "thing:joan"}
    id_ = own["facts"][0]["id"]
    around = await browse(client, "memory.graph", id=id_)
    assert {node["kind"] for node in around["nodes"]} == {"memory", "thing"}
    assert (await browse(client, "memory.graph", user="eve", id=id_))["code"] == "invalid_arguments"
