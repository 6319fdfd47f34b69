"""Long tool outputs: the memory stores them whole, and a preview with a key is sent instead.

The process that has the whole output stores it, because the output may be too large for the bus
(decision 0031). If a client limits the characters of a result, the data is stored the same way.
"""

from collections.abc import Awaitable, Callable

import msgspec

from local2.bus.connection import Connection
from local2.bus.identity import bearer
from local2.errors import Local2Error
from local2.logs import get_logger
from local2.protocol.envelope import Sender, decode, encode, seal_from
from local2.protocol.payloads import Json, OutputPart, ToolResult, new_output_key, preview
from local2.protocol.services import KEEP_OUTPUT

KEEP_TIMEOUT = 5.0
"""Seconds to wait for the acknowledgement of one part, while the tool's result is held back."""
BYTES_PER_CHARACTER = 8
"""Bytes of the maximum message size reserved for each character of a part: JSON needs up to six,
and two leave room for the envelope."""

Store = Callable[[str], Awaitable[str]]
"""Stores an output; returns the key to read it with."""
READ_OUTPUT_TOOL = "read_tool_output"
"""The tool that reads the rest of an output; its own results are as long as requested."""

log = get_logger()


async def with_preview(
    bus: Connection, result: ToolResult, *, caller: Sender, limit: int
) -> ToolResult:
    """Replace a result of more than `limit` characters by a preview, and store the output.

    If no memory can store the output, the result is returned unchanged.
    """

    async def store(content: str) -> str:
        return await store_output(bus, content, caller=caller)

    return await preview_of(result, store, limit=limit)


async def preview_of(result: ToolResult, store: Store, *, limit: int) -> ToolResult:
    """Replace a result that is too long by a preview, if `store` stores the output."""
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
        Local2Error: No memory is on the bus, or it refused a part.
    """
    key = new_output_key()
    size = bus.client.max_payload // BYTES_PER_CHARACTER
    for offset in range(0, len(content), size):
        end = offset + size
        part = OutputPart(
            key=key, offset=offset, text=content[offset:end], last=end >= len(content)
        )
        answer = await bus.request(
            KEEP_OUTPUT.subject,
            encode(seal_from(caller, part, type="request")),
            timeout=KEEP_TIMEOUT,
            headers=bearer(caller.token),
        )
        if (problem := decode(answer.data, ToolResult).payload.error) is not None:
            raise problem.to_error()
    return key


async def fit_result(
    bus: Connection, result: ToolResult, *, caller: Sender, limit: int
) -> ToolResult:
    """Fit a result's text and data into `limit` characters each.

    The memory stores longer ones for the caller. If it cannot, the data is dropped and the text
    stays as it is.
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
    replacement: Json = {"tool_output_key": key, "total_chars": len(data)}
    call = f'{READ_OUTPUT_TOOL}(tool_output_key="{key}")'
    note = f"[Its data has {len(data)} characters of JSON; {call} reads it.]"
    return msgspec.structs.replace(result, content=f"{result.content}\n{note}", data=replacement)
