"""Puts one Tool on the bus: announces its schema, answers its requests, turns errors into results.

This is the only place where an exception becomes an error result.
"""

import asyncio
import time
from typing import Any

import msgspec
import structlog

from local.bus.connection import Connection, Headers, Message
from local.bus.failure import ERROR_CODE
from local.bus.identity import caller_of
from local.bus.outputs import with_preview
from local.bus.participant import Participant
from local.bus.signature import signed
from local.errors import DeadlineError, InvalidArgumentsError, Local2Error, TooLargeError
from local.fair_slots import FairSlots
from local.protocol import subjects
from local.protocol.codec import decode, encode, header_of
from local.protocol.envelope import Envelope, is_past, seal
from local.protocol.payloads import ToolRequest, ToolResult
from local.protocol.result import SERVICE_ERROR
from local.protocol.tool import Tool
from local.settings import TOOL_OUTPUT_LIMIT

FAULT = "The tool failed; the server's log says where."
ASKED_TOGETHER = 0.02
"""Seconds in which one announcement answers whoever asks for all tools."""
DATA_LEFT_OUT = "(Its data is left out: the bus does not carry so much.)"


class ToolHost(Participant):
    """A tool as a participant; several hosts of one tool share its requests.

    Results of more than `output_limit` characters are kept whole in the memory, and go out as
    previews. `slots` share its requests out by user; several tools may have the same ones.
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
        await self._tell(subjects.TOOL_SCHEMA)

    async def _announce(self, message: Message) -> None:
        """Answer who asks alone; everybody else at once, however many ask."""
        if message.reply:
            await self._tell(message.reply)
        elif not self._announcing:
            self._announcing = True
            await asyncio.sleep(ASKED_TOGETHER)
            self._announcing = False
            await self._tell(subjects.TOOL_SCHEMA)

    async def _tell(self, subject: str) -> None:
        """Signed, so that the stack knows its own tools from those that only say they are."""
        headers = signed(self.bus.secret, subject, self._schema)
        await self.bus.publish(subject, self._schema, headers=headers)

    async def _answer(self, message: Message) -> None:
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
        except Exception:  # noqa: BLE001 - the boundary: logged whole, answered in one line
            self._log.exception("tool_failed")
            result = ToolResult.failed(Local2Error(FAULT))
        if request is not None and self._tool.answering is not None:
            self._tool.answering(caller_of(request), result)
        result = await self._reply(message, request, result)
        elapsed = time.perf_counter() - begun
        await asyncio.sleep(0)  # lets the reply leave before the log line is made
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
        self, message: Message, request: Envelope[Any] | None, result: ToolResult
    ) -> ToolResult:
        """Send the result, or what the bus carries of it; returns what was sent."""
        try:
            data, headers = self._encoded(message, request, result)
            self.bus.check_size(data, headers)
        except TooLargeError as error:
            return await self._reply(message, request, _smaller(result, error))
        except InvalidArgumentsError as error:
            self._log.warning("result_not_sent", reason=error.logged)
            return await self._reply(message, request, ToolResult.failed(error))
        except Exception:  # noqa: BLE001 - logged whole; whoever asked is not left waiting
            self._log.exception("result_not_sent")
            return await self._reply(message, request, ToolResult.failed(Local2Error(FAULT)))
        if message.reply:
            await self.bus.publish(message.reply, data, headers=headers)
        await self.bus.publish(self._result_subject, data, headers=headers)
        return result

    def _encoded(
        self, message: Message, request: Envelope[Any] | None, result: ToolResult
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
            headers["traceparent"] = message.headers["traceparent"]
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
    """What to send in place of a result that the bus does not carry."""
    if result.data is None:
        return ToolResult.failed(error)
    content = f"{result.content}\n{DATA_LEFT_OUT}"
    return msgspec.structs.replace(result, content=content, data=None)


def _header_value(text: str) -> str:
    """One line of ASCII: some servers drop every header when one value is anything else."""
    return " ".join(text.split()).encode("ascii", "replace").decode()[:256]
