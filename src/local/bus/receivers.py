"""Whether anybody else hears a subject, which the server tells by tracing a message to nobody.

Who listens beside those that answer requests takes "no responders" from whoever asks. It can find
out by this, and say so in the server's place.
"""

import asyncio

import msgspec

from local.bus.connection import Connection, Message

TRACING_SINCE = (2, 11)
"""An older server would deliver the message."""
TRACE_TIMEOUT = 1.0


class _Event(msgspec.Struct, frozen=True, kw_only=True):
    """A step on a message's way; `eg` is a delivery."""

    type: str
    cid: int = 0
    queue: str = ""


class _Trace(msgspec.Struct, frozen=True, kw_only=True):
    events: list[_Event]


async def others_hear(bus: Connection, subject: str) -> bool:
    """Whether a message reaches anybody but this connection's own listener without a queue group.

    True as well where the server cannot tell.
    """
    version = bus.client.connected_server_version
    if (version.major, version.minor) < TRACING_SINCE:
        return True
    loop = asyncio.get_running_loop()
    traced: asyncio.Future[bytes] = loop.create_future()

    async def hear(message: Message) -> None:
        if not traced.done():
            traced.set_result(message.data)

    inbox = bus.client.new_inbox()
    subscription = await bus.subscribe(inbox, hear)
    try:
        headers = {"Nats-Trace-Dest": inbox, "Nats-Trace-Only": "true"}
        await bus.publish(subject, b"", headers=headers)
        data = await asyncio.wait_for(traced, TRACE_TIMEOUT)
        steps = msgspec.json.decode(data, type=_Trace).events
    except (TimeoutError, msgspec.DecodeError):
        return True
    finally:
        await subscription.stop(grace=0)
    own = _Event(type="eg", cid=bus.client.client_id or 0)
    return any(step.type != "in" and step != own for step in steps)
