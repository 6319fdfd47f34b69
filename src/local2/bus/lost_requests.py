"""Sends a request again that was lost with the process that had received it.

Of several processes that serve a subject, one receives a request. If it is killed, or the server
between, nobody tells the caller, who would wait until it gives up. So a caller that has waited for
a while asks them all whether one has the request (`Connection.has_request`), and sends it again if
none has. A slow process has it, and says so; one that serves what must not be repeated says
nothing.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from local2.background import Backoff, give_up

FIRST_LOOK, LONGEST_PAUSE = 1.0, 30.0
"""Seconds until a caller asks for its request for the first time, and at most between two times.
Few answers take as long, so that hardly any call costs more than before."""

T = TypeVar("T")


async def sent_until_answered(
    send: Callable[[float], Awaitable[T]],
    is_lost: Callable[[], Awaitable[bool]],
    seconds: float,
    backoff: Backoff | None = None,
) -> T:
    """Send a request, and again whenever it is lost; return the first answer to any of these.

    Args:
        send: Sends it, and waits for the answer as many seconds as it is given.
        is_lost: Asks whether nobody has it.
        seconds: How long to wait in all.
        backoff: The pauses between two questions; each is longer than the one before.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + seconds
    pauses = backoff or Backoff(FIRST_LOOK, LONGEST_PAUSE)
    repeating: asyncio.Task[T] | None = None
    is_over = False

    async def send_again_once_lost() -> T:
        while True:
            if await is_lost():
                return await sent_until_answered(send, is_lost, until - loop.time(), pauses)
            await asyncio.sleep(pauses.next_pause())

    def begin_to_look() -> None:
        nonlocal repeating
        repeating = asyncio.create_task(send_again_once_lost())
        repeating.add_done_callback(end_waiting)

    def end_waiting(_: object) -> None:
        if not is_over:
            waiting.reschedule(loop.time())

    looking = loop.call_later(pauses.next_pause(), begin_to_look)
    try:
        async with asyncio.timeout(None) as waiting:
            return await send(seconds)
    except TimeoutError:
        if repeating is None or not repeating.done():
            raise
        return repeating.result()
    finally:
        is_over = True
        looking.cancel()
        if repeating is not None:
            await give_up(repeating)
