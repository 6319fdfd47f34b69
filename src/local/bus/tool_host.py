"""Puts one Tool on the bus: announces its schema, answers its requests, turns errors into results.

This is the only place where an exception becomes an error result, so that every tool fails in the
same form.
"""

import asyncio
import time
from typing import Any

import msgspec
import structlog

from local.bus.connection import BusMessage, Connection, Headers
from local.bus.identity import caller_of, signed
from local.bus.outputs import with_preview
from local.bus.participant import ERROR_CODE, Participant
from local.errors import DeadlineError, InvalidArgumentsError, Local2Error, TooLargeError
from local.fair_slots import FairSlots
from local.protocol import subjects
from local.protocol.envelope import Envelope, decode, encode, header_of, is_past, seal
from local.protocol.payloads import ToolRequest, ToolResult
from local.protocol.tool import Tool
from local.protocol.tool_messages import SERVICE_ERROR
from local.settings import TOOL_OUTPUT_LIMIT

FAULT = "The tool failed; the server's log says where."
ASKED_TOGETHER = 0.02
"""Seconds: everybody who asks for schemas within them gets one announcement, which bounds a burst
of agents that start together and delays the answer less than anybody notices."""
LONGEST_HEADER = 256
"""Characters of an error message that fit into a header; the result has the whole message."""
DATA_LEFT_OUT = "(Its data is left out: the bus does not carry so much.)"


class ToolHost(Participant):
    """A tool as a participant; several hosts of one tool divide its requests.

    Results of more than `output_limit` characters are stored in the memory, and sent as previews.
    `slots` divide the work fairly between users; several tools may share them.
    """

    def __init__(
        self,
        bus: Connection,
        tool: Tool,
        *,
        output_limit: int = TOOL_OUTPUT_LIMIT,
        slots: FairSlots | None = None,
    ) -> None:
        super().__init__(bus, name=tool.name, description=tool.description)
        self._tool = tool
        self._output_limit = output_limit
        self._slots = slots or FairSlots()
        self._request_type = ToolRequest[tool.args]  # type: ignore[name-defined]
        self._result_subject = subjects.tool_result(tool.name)
        self._log = structlog.get_logger().bind(tool=tool.name)
        self._schema = encode(seal(tool.schema(), type="schema", source=tool.name))
        self._announcing = False
        self._requests = self.serve(
            subjects.tool_request(tool.name),
            self._answer,
            queue=tool.name,
            limit=None,
            metadata={"mcp_tool": encode(tool.mcp_definition()).decode()},
        )
        self.serve(subjects.TOOL_SCHEMA_REQUEST, self._announce)

    async def started(self) -> None:
        await self._publish_schema(subjects.TOOL_SCHEMA)

    async def _announce(self, message: BusMessage) -> None:
        """Reply to a request; answer those that wait for no reply with one announcement for all."""
        if message.reply:
            await self._publish_schema(message.reply)
        elif not self._announcing:
            self._announcing = True
            await asyncio.sleep(ASKED_TOGETHER)
            self._announcing = False
            await self._publish_schema(subjects.TOOL_SCHEMA)

    async def _publish_schema(self, subject: str) -> None:
        """The signature shows the stack which tools are its own; any tool could claim to be."""
        headers = signed(self.bus.secret, subject, self._schema)
        await self.bus.publish(subject, self._schema, headers=headers)

    async def _answer(self, message: BusMessage) -> None:
        begun = time.perf_counter()
        request: Envelope[Any] | None = None
        try:
            request = decode(message.data, self._request_type)
            result = await self._run(request, len(message.data))
        except InvalidArgumentsError as error:
            request = request or header_of(message.data)
            result = ToolResult.failed(self._tool.with_choices(error))
        except Local2Error as error:
            request = request or header_of(message.data)
            result = ToolResult.failed(error)
        except Exception:  # noqa: BLE001 - the boundary: the log has all of it
            self._log.exception("tool_failed")
            result = ToolResult.failed(Local2Error(FAULT))
        if request is not None and self._tool.answering is not None:
            self._tool.answering(caller_of(request), result)
        result = await self._reply(message, request, result)
        elapsed = time.perf_counter() - begun
        await asyncio.sleep(0)  # the reply leaves before the log line is made
        self._record(request, result, elapsed)

    async def _run(self, request: Envelope[ToolRequest[Any]], size: int) -> ToolResult:
        caller = caller_of(request)
        owner = caller.principal
        with self._slots.admitted(owner, size):
            async with self._slots.slot(owner):
                if is_past(request.deadline_utc):
                    raise DeadlineError(
                        f"The deadline {request.deadline_utc} has passed; nothing was done."
                    )
                output = await self._tool.run(caller, request.payload.args)
        result = ToolResult(ok=True, content=output.content, data=output.data)
        if self._tool.whole:
            return result
        return await with_preview(self.bus, result, caller=caller, limit=self._output_limit)

    async def _reply(
        self, message: BusMessage, request: Envelope[Any] | None, result: ToolResult
    ) -> ToolResult:
        """Send the result, or as much of it as the bus carries; return what was sent."""
        try:
            data, headers = self._encoded(message, request, result)
            self.bus.check_size(data, headers)
        except TooLargeError as error:
            return await self._reply(message, request, _smaller(result, error))
        except InvalidArgumentsError as error:
            self._log.warning("result_not_sent", reason=error.logged)
            return await self._reply(message, request, ToolResult.failed(error))
        except Exception:  # noqa: BLE001 - the caller must not wait in vain
            self._log.exception("result_not_sent")
            return await self._reply(message, request, ToolResult.failed(Local2Error(FAULT)))
        if message.reply:
            await self.bus.publish(message.reply, data, headers=headers)
        await self.bus.publish(self._result_subject, data, headers=headers)
        return result

    def _encoded(
        self, message: BusMessage, request: Envelope[Any] | None, result: ToolResult
    ) -> tuple[bytes, Headers | None]:
        envelope = seal(
            result,
            type="result",
            source=self.name,
            user=request.user if request else None,
            session_id=request.session_id if request else None,
            query_id=request.query_id if request else None,
            correlation_id=(request.id or None) if request else None,
        )
        headers: Headers = {}
        if message.headers and "traceparent" in message.headers:
            headers["traceparent"] = _header_value(message.headers["traceparent"])
        if result.error is not None:
            headers[SERVICE_ERROR] = _header_value(result.error.message)
            headers[ERROR_CODE] = result.error.code
        return encode(envelope), headers or None

    def _record(self, request: Envelope[Any] | None, result: ToolResult, seconds: float) -> None:
        if result.error is not None:
            self._requests.errors += 1
            self._requests.last_error = result.outcome
        self._log.info(
            "request",
            outcome=result.outcome,
            ms=round(seconds * 1000, 2),
            caller=request.source if request else None,
            id=request.id if request else None,
            session_id=request.session_id if request else None,
            query_id=request.query_id if request else None,
        )


def _smaller(result: ToolResult, error: TooLargeError) -> ToolResult:
    """What to send instead of a result that is too large for the bus."""
    if result.data is None:
        return ToolResult.failed(error)
    content = f"{result.content}\n{DATA_LEFT_OUT}"
    return msgspec.structs.replace(result, content=content, data=None)


def _header_value(text: str) -> str:
    """One line of ASCII: some servers drop all headers if one value is anything else."""
    return " ".join(text.split()).encode("ascii", "replace").decode()[:LONGEST_HEADER]
