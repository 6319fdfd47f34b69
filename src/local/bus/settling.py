"""Waits until what was published is stored."""

import asyncio

import nats.errors
import nats.js.errors
from nats.js.api import StreamState

from local.bus.connection import Connection
from local.bus.streams import turns_stream
from local.errors import BusError

SETTLED_WITHIN = 30.0
"""Seconds: a turn that takes longer fails again and again, and waits for something to be mended."""
LOOK_EVERY = 0.05


async def turns_stored(bus: Connection, *tenants: str, within: float = SETTLED_WITHIN) -> int:
    """Wait until the ledger has every turn that is in the streams now; how many it has not.

    Later turns are not waited for: under load a stream is never empty.

    Raises:
        BusError: The server does not answer.
    """
    waiting = [await _state(bus, tenant) for tenant in tenants]
    deadline = asyncio.get_running_loop().time() + within
    left = 0
    for tenant, before in zip(tenants, waiting, strict=True):
        while count := _up_to(before.last_seq, await _state(bus, tenant)):
            if asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(LOOK_EVERY)
        left += count
    return left


def _up_to(last: int, state: StreamState) -> int:
    """How many messages of a stream may be of those up to the last one."""
    return max(0, min(state.messages, last - state.first_seq + 1))


async def _state(bus: Connection, tenant: str) -> StreamState:
    try:
        return (await bus.client.jsm().stream_info(turns_stream(tenant))).state
    except nats.js.errors.NotFoundError:
        return StreamState(messages=0, bytes=0, first_seq=0, last_seq=0, consumer_count=0)
    except (nats.js.errors.Error, nats.errors.Error, TimeoutError) as error:
        raise BusError(f"JetStream does not say what waits to be stored: {error!r}.") from error
