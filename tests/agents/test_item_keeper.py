"""Clients in any language store and read items over the bus as plain JSON."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from factories import ConnectBus
from local2.bus.connection import Connection
from local2.memory.tenant import Memories, Memory
from local2.protocol.items import ITEM_BYTES
from serving import service_host

CODE = {"namespace": ["vault"], "key": "code"}


@pytest.fixture
async def client(
    bus: Connection, memory: Memory, connect_bus: ConnectBus
) -> AsyncIterator[Connection]:
    async with service_host("item_keeper", bus, Memories(memory)):
        yield await connect_bus()


async def ask(client: Connection, verb: str, **payload: Any) -> dict[str, Any]:
    request = {"user": "ada", "payload": {"collection": "test", **payload}}
    answer = await client.request(f"memory.items.{verb}", json.dumps(request).encode(), timeout=10)
    reply: dict[str, Any] = json.loads(answer.data)["payload"]
    return reply


async def test_an_item_is_stored_found_listed_and_deleted(client: Connection) -> None:
    item = {**CODE, "value": {"digits": [1, 2]}, "data": "AP8=", "text": "The code is twelve."}
    assert await ask(client, "put", items=[item]) == {"stored": 1, "deleted": 0}

    got = (await ask(client, "get", keys=[CODE, {**CODE, "key": "none"}]))["items"]
    found = await ask(client, "search", query="twelve")
    others = await ask(client, "search", collection="another")

    assert {**got[0], "created_at": "", "updated_at": ""} == {
        **CODE,
        "value": {"digits": [1, 2]},
        "data": "AP8=",
        "created_at": "",
        "updated_at": "",
    }
    assert got[1] is None
    assert [one["key"] for one in found["items"]] == ["code"]
    assert found["items"][0]["score"] > 0
    assert found["degraded"] is True, "there is no vector worker"
    assert others == {}
    assert await ask(client, "list") == {"namespaces": [["vault"]]}
    assert await ask(client, "delete", namespaces=[["vault"]]) == {"stored": 0, "deleted": 1}
    assert await ask(client, "list") == {"namespaces": []}


@pytest.mark.parametrize(
    ("verb", "payload", "code"),
    [
        ("put", {"items": [{**CODE, "value": "x" * ITEM_BYTES}]}, "too_large"),
        ("put", {"items": [{"key": "code", "value": 1}]}, "bad_request"),
        ("put", {"items": [{**CODE, "data": "not base64!"}]}, "bad_request"),
        ("put", {"collection": "../x", "items": []}, "bad_request"),
        ("put", {"items": [{**CODE, "namespace": ["x"] * 33, "value": 1}]}, "bad_request"),
        ("search", {"filter": {"n": {"$where": "1"}}}, "invalid_arguments"),
        ("search", {"filter": {"n": {"$gt": 1, "most": 5}}}, "invalid_arguments"),
        ("search", {"limit": 10_001}, "bad_request"),
        ("list", {"matches": [{"type": "infix", "path": []}]}, "bad_request"),
        ("get", {"keys": "all"}, "bad_request"),
    ],
)
async def test_an_invalid_request_is_refused_with_a_code_and_stores_nothing(
    client: Connection, verb: str, payload: dict[str, Any], code: str
) -> None:
    assert (await ask(client, verb, **payload))["code"] == code
    assert await ask(client, "list") == {"namespaces": []}
