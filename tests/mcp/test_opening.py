"""The first answer equals the SDK's, and is given before anything heavy is imported."""

import json
import subprocess
import sys
from typing import Any

import pytest
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, MODERN_PROTOCOL_VERSIONS

from local2.mcp import opening
from local2.mcp.opening import handshake_answer
from mcp_clients import NOBODY, asking

META = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


def initialize(version: str = "2025-11-25") -> dict[str, Any]:
    client = {"name": "test", "version": "1"}
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


DISCOVER = {"jsonrpc": "2.0", "id": "d", "method": "server/discover", "params": {"_meta": META}}
IMPORTED = """
import sys
from local2.__main__ import main
sys.argv = ["local2", "mcp"]
from local2.mcp import opening
answer = opening.answer_initialize
def seen():
    answer()
    sys.stderr.write(" ".join(sys.modules))
    sys.exit()
opening.answer_initialize = seen
main()
"""


@pytest.mark.parametrize("request_", [initialize(), initialize("2024-11-05"), DISCOVER])
async def test_the_first_answer_equals_the_sdks(request_: dict[str, Any]) -> None:
    """The client has had no answer yet."""
    async with asking(NOBODY) as ask:
        answer = await ask(json.dumps(request_))

    assert handshake_answer(json.dumps(request_).encode()) == answer


def test_the_versions_equal_the_sdks() -> None:
    assert opening.HANDSHAKE_VERSIONS == HANDSHAKE_PROTOCOL_VERSIONS
    assert opening.STATELESS_VERSIONS == MODERN_PROTOCOL_VERSIONS
    answer_to_unknown = handshake_answer(json.dumps(initialize("1999-01-01")).encode())
    assert answer_to_unknown is not None
    assert answer_to_unknown["result"]["protocolVersion"] == HANDSHAKE_PROTOCOL_VERSIONS[-1]


@pytest.mark.parametrize("request_", [initialize(), DISCOVER])
def test_the_first_answer_is_given_before_anything_heavy_is_imported(
    request_: dict[str, Any],
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTED],
        input=json.dumps(request_) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert json.loads(done.stdout)["id"] == request_["id"]
    imported = set(done.stderr.split())
    assert "local2.mcp.opening" in imported
    heavy = {"mcp", "nats", "click", "rich", "pydantic", "asyncio", "msgspec", "chromadb"}
    assert imported & heavy == set()


@pytest.mark.parametrize(
    "line",
    [
        b"",
        b"no json",
        b"[1, 2]",
        b'{"jsonrpc": "2.0", "method": "initialize", "params": {}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "initialize"}',
        b'{"jsonrpc": "2.0", "id": true, "method": "initialize", "params": {}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {"_meta": 1}}',
        b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}',
        b"[" * 100_000,
    ],
)
def test_a_line_that_is_not_a_handshake_is_left_to_the_sdk(line: bytes) -> None:
    assert handshake_answer(line) is None
