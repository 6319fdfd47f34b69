"""Calling tools over the bus, as the generator, the command line and the stories do."""

from datetime import timedelta

import msgspec

from local.bus.connection import Connection
from local.errors import BusTimeoutError, Local2Error, NoRespondersError, UnknownToolError, quoted
from local.protocol.envelope import Caller, seal, utc_now
from local.protocol.payloads import Json, ToolRequest, ToolResult


async def call_tool(  # noqa: PLR0913 - one keyword a field of the envelope
    bus: Connection,
    tool: str,
    args: Json,
    *,
    caller: Caller,
    query_id: str | None = None,
    timeout: float = 10.0,  # noqa: ASYNC109 - it becomes the request's deadline
) -> ToolResult:
    """Ask a tool and return its result; a failure is a result too, with its code.

    Args:
        bus: The connection to ask over.
        tool: The tool's name.
        args: Its arguments, checked by the tool itself.
        caller: What the envelope says of the caller; the server decides the tenant.
        query_id: The turn this call belongs to.
        timeout: Seconds to wait; the tool will not begin after them.
    """
    request = seal(
        ToolRequest(args=args),
        type="request",
        source=caller.agent or "client",
        user=caller.user,
        session_id=caller.session_id,
        query_id=query_id,
        deadline_utc=utc_now() + timedelta(seconds=timeout),
    )
    # Some tools put the request's id into the answer's correlation_id, others copy the field.
    request = msgspec.structs.replace(request, correlation_id=request.id)
    try:
        return await bus.tool_results.ask(tool, request, timeout)
    except NoRespondersError:
        return ToolResult.failed(_unknown(tool))
    except BusTimeoutError as error:
        message = f"The tool {quoted(tool)} did not answer within {timeout:g} s."
        return ToolResult.failed(BusTimeoutError(message, remedy=error.remedy))
    except Local2Error as error:
        return ToolResult.failed(error)


def _unknown(tool: str) -> UnknownToolError:
    return UnknownToolError(
        f"No tool {quoted(tool)} is on the bus.", remedy="`local2 tools` lists them."
    )
