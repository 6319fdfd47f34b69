"""Unterminated headers, to which the server would append its own, prove no identity."""

import asyncio

import pytest
from nats.aio.msg import Msg

from tenant_agents import Agent, Answer

pytestmark = pytest.mark.asyncio(loop_scope="module")

REQUEST = b'{"payload": {"args": {"topic": "project.city", "content": "Oslo"}}}'
SPOOFED = b'Nats-Request-Info: {"user": "UADMIN"}\r\n'


@pytest.mark.parametrize(
    "headers",
    [
        pytest.param(b"NATS/1.0\r\n" + SPOOFED + b"X: yy", id="the server's in another line"),
        pytest.param(b"NATS/1.0\r\n" + SPOOFED, id="the server's in the same line"),
        pytest.param(b"NATS/1.0\r\na: b", id="the server's in no line of its own"),
        pytest.param(b"NATS/1.0", id="no line"),
    ],
)
async def test_a_request_with_forged_server_headers_is_forbidden(
    acme: Agent, headers: bytes
) -> None:
    """No NATS client sends such headers, so they are written directly to its connection."""
    reply: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()

    async def receive(message: Msg) -> None:
        reply.set_result(message)

    inbox = acme.client.new_inbox()
    await acme.client.subscribe(inbox, cb=receive)
    sizes = b"%d %d" % (len(headers), len(headers) + len(REQUEST))
    address = b"tool.request.save_topic " + inbox.encode()
    await acme.client._send_command(b"HPUB %s %s\r\n%s%s\r\n" % (address, sizes, headers, REQUEST))
    await acme.client.flush()

    assert Answer.of(await asyncio.wait_for(reply, 15)).code == "forbidden"
