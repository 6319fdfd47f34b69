"""Long tool outputs: the memory stores them whole, and a preview with a key travels on.

The process that has the whole output does this, because the bus may not carry it (decision 0014).
For a client that limits the characters of a result, its data is stored in the same way.
"""

from collections.abc import Awaitable, Callable

import msgspec
import structlog

from local.bus.connection import Connection
from local.bus.identity import bearer
from local.errors import BusError, Local2Error
from local.protocol import subjects
from local.protocol.envelope import Sender, decode, encode, seal_from
from local.protocol.payloads import Json, OutputPart, ToolResult, new_output_key

KEEP_TIMEOUT = 5.0
"""Seconds to wait for the acknowledgement of one part, which a tool's result waits for."""
BYTES_A_CHARACTER = 8
"""Bytes of a message for each character of a part: JSON makes up to six of one, and two are left
for the envelope."""
HEAD, TAIL = 3 / 8, 1 / 8
"""Shares of the limit for the beginning and the end of an output in its preview; the rest is room
for the line with the key."""

Store = Callable[[str], Awaitable[str]]
READS_ON = "read_tool_output"
"""The tool that reads the rest; its own results are as long as requested."""

log = structlog.get_logger()


async def with_preview(
    bus: Connection, result: ToolResult, *, caller: Sender, limit: int
) -> ToolResult:
    """Return the result, or a preview of it if it has more than `limit` characters.

    If no memory stores the output, the result stays as it is.
    """

    async def store(content: str) -> str:
        return await store_output(bus, content, caller=caller)

    return await preview_of(result, store, limit=limit)


async def preview_of(result: ToolResult, store: Store, *, limit: int) -> ToolResult:
    """Return a preview, where the output is stored by something that returns its key."""
    if len(result.content) <= limit or result.tool_output_key is not None:
        return result
    try:
        key = await store(result.content)
    except Local2Error as error:
        log.warning("output_not_kept", characters=len(result.content), reason=str(error))
        return result
    return msgspec.structs.replace(
        result,
        content=preview(result.content, key, limit),
        tool_output_key=key,
        total_chars=len(result.content),
    )


async def store_output(bus: Connection, content: str, *, caller: Sender) -> str:
    """Store a tool's output in the memory; return the key under which the caller can read it.

    Raises:
        BusError: No memory is on the bus, or it did not store every part.
    """
    key = new_output_key()
    size = bus.client.max_payload // BYTES_A_CHARACTER
    for offset in range(0, len(content), size):
        end = offset + size
        part = OutputPart(
            key=key, offset=offset, text=content[offset:end], last=end >= len(content)
        )
        answer = await bus.request(
            subjects.MEMORY_OUTPUT_KEEP,
            encode(seal_from(caller, part, type="request")),
            timeout=KEEP_TIMEOUT,
            headers=bearer(caller.token),
        )
        if (problem := decode(answer.data, ToolResult).payload.error) is not None:
            raise BusError(f"The memory refused a part of {key}: {problem.message}")
    return key


def preview(content: str, key: str, limit: int) -> str:
    """Return what a model sees of a long output: how to read on, the beginning and the end.

    The first line names the key, so that a preview that is cut once more still has it.
    """
    head, tail = int(limit * HEAD), int(limit * TAIL)
    call = f'read_tool_output(tool_output_key="{key}", offset={head})'
    return (
        f"[Output of {len(content)} characters, shortened; {call} reads on.]\n"
        f"{content[:head]}\n[…]\n{content[-tail:]}"
    )


async def fitting(bus: Connection, result: ToolResult, *, caller: Sender, limit: int) -> ToolResult:
    """Return the result with neither text nor data of more than `limit` characters.

    The memory stores what is longer, for the caller; where it cannot, the data is left out and the
    text stays.
    """
    result = await with_preview(bus, result, caller=caller, limit=limit)
    if result.data is None:
        return result
    data = msgspec.json.encode(result.data).decode()
    if len(data) <= limit:
        return result
    try:
        key = await store_output(bus, data, caller=caller)
    except Local2Error as error:
        log.warning("data_not_kept", characters=len(data), reason=str(error))
        return msgspec.structs.replace(result, data=None)
    instead: Json = {"tool_output_key": key, "total_chars": len(data)}
    how = f'[Its data has {len(data)} characters of JSON; {READS_ON}(tool_output_key="{key}")'
    return msgspec.structs.replace(
        result, content=f"{result.content}\n{how} reads it.]", data=instead
    )
