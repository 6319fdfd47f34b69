"""A background process that starts a stack and delivers the turns that hooks have left."""

import asyncio
import os
import sys
from pathlib import Path

from local2.client import publish_durably
from local2.client.access import connected
from local2.client.shared_stack import stack_running
from local2.errors import TooLargeError
from local2.home import MEMORY_FOLDER, PRIVATE_UMASK
from local2.hooks.state import Outbox, Situation, log_problem
from local2.protocol.envelope import encode
from local2.protocol.subjects import RESPONSE_GENERATION

LINGER = 1_800.0
"""Seconds that a stack stays after the last hook, since people think and read between prompts."""
PATIENCE = 120.0
"""Seconds for the whole delivery; turns that are left are delivered with the next one."""


async def deliver(situation: Situation) -> None:
    """Run a stack, and deliver the turns that wait.

    Raises:
        BusError: Some turns were not stored; they continue to wait.
    """
    outbox = Outbox(situation.turns)
    while True:
        with outbox.delivering() as is_only_one:
            if not is_only_one:
                return  # the other process checks the outbox again at its end
            async with stack_running(situation.settings, linger=LINGER):
                for file, turn in outbox.take():
                    connection = connected(situation.settings, name="hooks", user=turn.user)
                    try:
                        async with connection as bus:
                            await publish_durably(bus, RESPONSE_GENERATION, encode(turn))
                    except TooLargeError as error:  # no later attempt would succeed
                        log_problem(situation.settings.memory.data_dir, "delivery", error)
                    file.unlink()
        if outbox.is_empty:
            return


if __name__ == "__main__":
    os.umask(PRIVATE_UMASK)
    where = Path(sys.argv[1])
    try:
        asyncio.run(asyncio.wait_for(deliver(Situation.of(where, None)), PATIENCE))
    except Exception as error:  # noqa: BLE001 - nothing else reports it
        log_problem(where / MEMORY_FOLDER, "delivery", error)
