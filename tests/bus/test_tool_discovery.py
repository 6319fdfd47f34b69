"""Tools answer the discovery requests of NATS services."""

import json
from typing import Any

import pytest

from calling import RICHARD
from local2.bus.connection import Connection
from local2.bus.tool_host import ToolHost
from local2.client.tools import call_tool
from local2.errors import NoRespondersError
from waiting import eventually


async def discovered(bus: Connection, subject: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads((await bus.request(subject, b"")).data)
    return answer


async def test_discovery_answers_a_ping_in_the_format_of_adr_32(
    bus: Connection, host: ToolHost
) -> None:
    answer = await discovered(bus, "$SRV.PING")

    assert answer == {
        "type": "io.nats.micro.v1.ping_response",
        "name": "note",
        "id": host.id,
        "version": answer["version"],
        "metadata": {"system": "local2"},
    }
    assert len(answer["version"].split(".")) == 3


async def test_discovery_describes_the_endpoints_of_a_tool(bus: Connection, host: ToolHost) -> None:
    answer = await discovered(bus, "$SRV.INFO.note")

    assert answer["type"] == "io.nats.micro.v1.info_response"
    assert answer["description"] == "Note a text."
    request, cancel, schema = answer["endpoints"]
    mcp_tool = json.loads(request.pop("metadata")["mcp_tool"])
    assert request == {
        "name": "tool_request_note",
        "subject": "tool.request.note",
        "queue_group": "note",
    }
    assert cancel["subject"] == "tool.cancel.note"
    assert schema["subject"] == "tool.schema.request"
    assert (mcp_tool["name"], mcp_tool["description"]) == ("note", "Note a text.")
    assert mcp_tool["inputSchema"]["required"] == ["text"]
    assert answer["id"] == host.id


async def test_discovery_counts_requests_and_errors(bus: Connection, host: ToolHost) -> None:
    await call_tool(bus, "note", {"text": "x"}, caller=RICHARD)
    await call_tool(bus, "note", {"text": 7}, caller=RICHARD)

    async def both_requests_counted() -> bool:
        stats = await discovered(bus, f"$SRV.STATS.note.{host.id}")
        return bool(stats["endpoints"][0]["num_requests"] == 2)

    await eventually(both_requests_counted)
    answer = await discovered(bus, f"$SRV.STATS.note.{host.id}")
    assert answer["type"] == "io.nats.micro.v1.stats_response"
    assert answer["started"].endswith("Z")
    statistics = answer["endpoints"][0]
    assert (statistics["num_errors"], statistics["last_error"]) == (1, "invalid_arguments")
    assert statistics["processing_time"] >= statistics["average_processing_time"] > 0


@pytest.mark.usefixtures("host")
@pytest.mark.parametrize("address", ["PING.other", "PING.note.someone", "NOTHING"])
async def test_discovery_of_another_service_is_not_answered(bus: Connection, address: str) -> None:
    with pytest.raises(NoRespondersError):
        await bus.request(f"$SRV.{address}", b"")
