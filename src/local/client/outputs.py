"""Results for a client that takes no more than so many characters, with keys to read on by."""

import msgspec
import structlog

from local.bus.connection import Connection
from local.bus.outputs import store_output, with_preview
from local.errors import Local2Error
from local.protocol.envelope import Sender
from local.protocol.payloads import Json, ToolResult

READS_ON = "read_tool_output"
"""The tool that reads what was cut; its own results are as long as they were asked to be."""

log = structlog.get_logger()


async def fitting(bus: Connection, result: ToolResult, *, caller: Sender, limit: int) -> ToolResult:
    """The result with neither text nor data of more than `limit` characters.

    The memory keeps what is longer, for the caller; where it cannot, data is left out and text
    stays.
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
