"""Who hears a subject, as the server's traces tell."""

import asyncio

import msgspec

from local.bus.connection import BusMessage, Connection

TRACING_SINCE = (2, 11)
"""Version of nats-server; an older one would deliver the traced message."""
TRACE_TIMEOUT = 1.0
"""Seconds. The server answers at once; without an answer the message is assumed to have arrived."""


class _TraceEvent(msgspec.Struct, frozen=True, kw_only=True):
    """One step on a message's way; `type` is `eg` for a delivery (egress)."""

    type: str
    cid: int = 0
    queue: str = ""


class _Trace(msgspec.Struct, frozen=True, kw_only=True):
    events: list[_TraceEvent]


async def others_hear(bus: Connection, subject: str) -> bool:
    """Whether a message reaches anybody besides this connection's own plain subscription.

    A listener that subscribes beside those who answer hides the server's "no responders" from
    whoever asks. With this it learns that nobody answers, and can say so in the server's place. The
    server traces an empty message without delivering it. True as well if it cannot tell.
    """
    version = bus.client.connected_server_version
    if (version.major, version.minor) < TRACING_SINCE:
        return True
    loop = asyncio.get_running_loop()
    traced: asyncio.Future[bytes] = loop.create_future()

    async def receive(message: BusMessage) -> None:
        if not traced.done():
            traced.set_result(message.data)

    inbox = bus.client.new_inbox()
    subscription = await bus.subscribe(inbox, receive)
    try:
        headers = {"Nats-Trace-Dest": inbox, "Nats-Trace-Only": "true"}
        await bus.publish(subject, b"", headers=headers)
        data = await asyncio.wait_for(traced, TRACE_TIMEOUT)
        steps = msgspec.json.decode(data, type=_Trace).events
    except (TimeoutError, msgspec.DecodeError):
        return True
    finally:
        await subscription.stop(grace=0)
    own = _TraceEvent(type="eg", cid=bus.client.client_id or 0)
    return any(step.type != "in" and step != own for step in steps)
