"""Clients of NATS: how they connect, reconnect without end, and disconnect."""

import asyncio
from typing import Any

import nats.errors
import structlog
from nats.aio.client import Client

from local.bus.observed import new_client
from local.tenants.credentials import Credentials

RECONNECT_WAIT = 0.25
"""Seconds between two attempts to reconnect: long enough to leave the processor alone, short enough
that a restarted server is found before a request times out."""
DRAIN_TIMEOUT = 10
"""Seconds for a closing connection to send what it still holds; more would delay a stop when the
server hangs."""

log = structlog.get_logger()


class RefusedError(Exception):
    """The server does not accept who connects."""


async def open_client(
    url: str, name: str, lost: asyncio.Event, credentials: Credentials | None
) -> Client:
    """Connect, without end; `lost` is set while there is no server.

    Raises:
        RefusedError: The server does not accept who connects.
    """
    last = ""
    refused: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    async def on_error(error: Exception) -> None:
        nonlocal last
        if "authorization violation" in str(error).lower() and not refused.done():
            refused.set_result(str(error))
        if repr(error) != last:  # while the server is down, every attempt reports the same error
            last = repr(error)
            log.warning("bus_error", error=last, connection=name)

    async def on_disconnect() -> None:
        lost.set()

    async def on_reconnect() -> None:
        nonlocal last
        last = ""
        lost.clear()
        log.info("bus_reconnected", connection=name)

    client = new_client()
    who: dict[str, Any] = (
        {"nkeys_seed_str": credentials.seed, "inbox_prefix": credentials.inbox}
        if credentials
        else {}
    )
    opening = asyncio.create_task(
        client.connect(
            url,
            name=name,
            error_cb=on_error,
            disconnected_cb=on_disconnect,
            reconnected_cb=on_reconnect,
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT_WAIT,  # type: ignore[arg-type] # it sleeps so long
            drain_timeout=DRAIN_TIMEOUT,
            **who,
        )
    )
    try:
        await asyncio.wait((opening, refused), return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            opening.result()
            return client
    except BaseException:
        await _give_up(client, opening)
        raise
    await _give_up(client, opening)
    raise RefusedError(refused.result())


async def _give_up(client: Client, opening: asyncio.Task[None]) -> None:
    """Leave nothing behind of a client that may have connected all the same."""
    opening.cancel()
    await asyncio.gather(opening, return_exceptions=True)
    if client.is_connecting or client.is_connected or client.is_reconnecting:
        await client.close()  # of one that has not begun it raises an AssertionError


async def close_client(client: Client) -> None:
    """Send what is still to be sent, and disconnect."""
    for end in (client.drain, client.close):
        if client.is_closed:
            return
        try:
            await end()
        except (nats.errors.Error, TimeoutError, OSError, RuntimeError, TypeError) as error:
            # The server stopped first. A closed transport raises RuntimeError (uvloop) or TypeError
            # (asyncio of Python 3.13) when the client writes what it has not sent yet.
            log.warning("bus_not_drained", error=repr(error))
