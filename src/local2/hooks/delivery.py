"""A background process that starts a stack and delivers the turns that hooks have left."""

import asyncio
import os
import sys
from pathlib import Path

import msgspec

from local2.client import Connection, publish_durably, store_output
from local2.client.access import connected
from local2.client.shared_stack import FileLock, stack_running
from local2.errors import RequestError, TooLargeError
from local2.home import MEMORY_FOLDER, PRIVATE_UMASK
from local2.hooks.state import Outbox, Situation, log_problem
from local2.protocol.envelope import Envelope, Sender, encode
from local2.protocol.payloads import Generation, ToolCallRecord, preview
from local2.protocol.subjects import RESPONSE_GENERATION

LINGER = 1_800.0
"""Seconds that a stack stays after the last hook, since people think and read between prompts."""
PATIENCE = 120.0
"""Seconds for the whole delivery; turns that are left are delivered with the next one."""
BYTES_PER_CHARACTER = 64
"""Bytes of the maximum message size for each character that is left of a long prompt or answer:
both are in the turn twice, and JSON needs up to six for a character."""


async def deliver(situation: Situation) -> None:
    """Run a stack, and deliver the turns that wait.

    Raises:
        BusError: Some turns were not stored; they continue to wait.
    """
    outbox = Outbox(situation.turns)
    while True:
        with FileLock(situation.turns / "lock") as lock:
            if not lock.try_to_lock():
                return  # the other process checks the outbox again at its end
            async with stack_running(situation.settings, linger=LINGER):
                for file, turn in outbox.take():
                    connection = connected(situation.settings, name="hooks", user=turn.user)
                    async with connection as bus:
                        try:
                            await _publish(bus, turn)
                        except RequestError as error:  # no later attempt would succeed
                            log_problem(situation.settings.memory.data_dir, "delivery", error)
                            outbox.put_aside(file)
                        else:
                            file.unlink()
        if outbox.is_empty:
            return


async def _publish(bus: Connection, turn: Envelope[Generation]) -> None:
    """Publish a turn. What makes it too large for the bus is stored as long outputs are."""
    try:
        await publish_durably(bus, RESPONSE_GENERATION, encode(turn))
    except TooLargeError:
        short = msgspec.structs.replace(turn, payload=await _shortened(bus, turn))
        await publish_durably(bus, RESPONSE_GENERATION, encode(short))


async def _shortened(bus: Connection, turn: Envelope[Generation]) -> Generation:
    """Store a long prompt or answer as the result of a call; leave a preview in its place."""
    short, limit = turn.payload, bus.client.max_payload // BYTES_PER_CHARACTER
    caller = Sender(agent=turn.source, user=turn.user, session_id=turn.session_id)
    for part, text in (("query", short.query), ("answer", short.answer)):
        if len(text) > limit:
            key = await store_output(bus, text, caller=caller)
            shown = preview(text, key, limit)
            call = ToolCallRecord(name=part, content=shown, tool_output_key=key)
            short = msgspec.structs.replace(
                short, **{part: shown}, tool_calls=[*short.tool_calls, call]
            )
    return short


if __name__ == "__main__":
    os.umask(PRIVATE_UMASK)
    where = Path(sys.argv[1])
    try:
        asyncio.run(asyncio.wait_for(deliver(Situation.of(where, None)), PATIENCE))
    except Exception as error:  # noqa: BLE001 - nothing else reports it
        log_problem(where / MEMORY_FOLDER, "delivery", error)
