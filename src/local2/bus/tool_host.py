"""Serve one Tool on the bus: announce its schema, answer requests, turn errors into results.

This is the only place where exceptions become error results, so that all tools fail in the same
form.
"""

import asyncio
import time
from contextlib import suppress
from functools import partial
from typing import Any

import msgspec

from local2 import telemetry
from local2.admission import Admission
from local2.bus.connection import BusMessage, Connection, Headers
from local2.bus.identity import signed
from local2.bus.outputs import with_preview
from local2.bus.participant import Participant
from local2.bus.running_calls import RunningCalls
from local2.errors import (
    BusError,
    DeadlineError,
    InvalidArgumentsError,
    Local2Error,
    TooLargeError,
)
from local2.logs import get_logger
from local2.protocol import subjects
from local2.protocol.envelope import (
    Caller,
    Envelope,
    decode,
    encode,
    header_of,
    seal,
    seconds_until,
)
from local2.protocol.payloads import (
    Json,
    ToolProgress,
    ToolRequest,
    ToolResult,
    header_value,
)
from local2.protocol.tool import Tool, begin_call, with_suggestion
from local2.settings import TOOL_OUTPUT_LIMIT

FAULT_MESSAGE = "The tool failed; the server's log says where."
SCHEMA_REQUEST_WINDOW = 0.02
"""Seconds during which requests for the schema are collected and answered with one announcement.
This handles agents that start together; the delay is imperceptible."""
DATA_OMITTED = "(The data is left out: it is too large for the bus.)"
LINES_PER_SECOND = 20
"""Log lines of each second for requests of a tool that are neither slow nor refused. An agent at
work sends fewer. Under load, more lines would cost as much as the requests; they are counted."""
SLOW = 1.0
"""Seconds from which a request is slow."""
OWN_RESULT = "Local2-Own-Result"
"""Marks a result of the memory's own tools, which other stacks of the memory do not remember. Who
forges it is not remembered either."""


class ToolHost(Participant):
    """A tool as a participant; several hosts of one tool share its requests.

    Results of more than `output_limit` characters are stored in the memory and sent as previews.
    `admission` limits and schedules requests; several hosts may share it. `is_shared`: whether
    other stacks of the same memory may receive the results.
    """

    def __init__(
        self,
        bus: Connection,
        tool: Tool,
        *,
        output_limit: int = TOOL_OUTPUT_LIMIT,
        admission: Admission | None = None,
        is_shared: bool = False,
    ) -> None:
        super().__init__(bus, name=tool.name, description=tool.description)
        self._marks: Headers = {OWN_RESULT: "yes"} if is_shared else {}
        self._tool = tool
        self._output_limit = output_limit
        self._admission = admission or Admission()
        self._request_type = ToolRequest[tool.args]  # type: ignore[name-defined]
        self._result_subject = subjects.tool_result(tool.name)
        self._log = get_logger().bind(tool=tool.name)
        self._logged_second, self._lines_left, self._unlogged = 0, 0, 0
        self._schema = encode(seal(tool.schema(), type="schema", source=tool.name))
        self._announcing = set[str]()
        self._running = RunningCalls(self)
        self._requests = self.serve(
            subjects.tool_request(tool.name),
            self._answer,
            queue=tool.name,
            limit=None,
            metadata={"mcp_tool": encode(tool.mcp_definition()).decode()},
        )
        self._running.cancel_on(subjects.tool_cancel(tool.name))
        if tool.annotations.read_only_hint or tool.annotations.idempotent_hint:
            # Others answer nothing: their calls must not be repeated.
            self._running.tell_on(subjects.tool_running(tool.name))
        self.serve(subjects.TOOL_SCHEMA_REQUEST, self._announce)

    async def started(self) -> None:
        await self._publish_schema(subjects.TOOL_SCHEMA)

    async def _announce(self, message: BusMessage) -> None:
        """Send the schema to the requester, or announce it once to all that gave no inbox."""
        if message.reply:
            await self.bus.answer(message, self._schema, self._signature(message.reply))
        elif message.tenant not in self._announcing:
            self._announcing.add(message.tenant)
            await asyncio.sleep(SCHEMA_REQUEST_WINDOW)
            self._announcing.discard(message.tenant)
            await self._publish_schema(subjects.TOOL_SCHEMA, tenant=message.tenant)

    async def _publish_schema(self, subject: str, tenant: str | None = None) -> None:
        headers = self._signature(subject)
        await self.bus.publish(subject, self._schema, headers=headers, tenant=tenant)

    def _signature(self, subject: str) -> Headers:
        """Prove to the stack that the schema is that of one of its own tools."""
        return signed(self.bus.secret, subject, self._schema)

    async def _answer(self, message: BusMessage) -> None:
        started_at = time.perf_counter()
        request: Envelope[Any] | None = None
        caller: Caller | None = None
        try:
            request = self._decode_request(message.data)
            caller = self.bus.identity.caller_of(message, request)
            with self._running.cancellable(caller, request.id):
                result = await self._run(caller, request, message.data)
        except InvalidArgumentsError as error:
            request = request or header_of(message.data)
            result = ToolResult.failed(with_suggestion(error, self._tool.args))
        except Local2Error as error:
            request = request or header_of(message.data)
            result = ToolResult.failed(error)
        except Exception:  # noqa: BLE001 - the boundary; the log has the details
            self._log.exception("tool_failed")
            result = ToolResult.failed(Local2Error(FAULT_MESSAGE))
        if self._tool.on_result is not None:
            if caller is None and request is not None:  # it was refused before that was known
                with suppress(Local2Error):
                    caller = self.bus.identity.caller_of(message, request)
            if caller is not None:
                self._tool.on_result(caller, result)
        result = await self._reply(message, request, result)
        if result.error is not None:
            self._requests.errors += 1
            self._requests.last_error = result.outcome
            telemetry.tool_failed(self.name, result.error.code)
        self._log_request(request, result, started_at)

    def _log_request(
        self, request: Envelope[Any] | None, result: ToolResult, started_at: float
    ) -> None:
        """Log a request that failed or was slow, and the first others of each second."""
        now = time.perf_counter()
        if int(now) != self._logged_second:
            self._logged_second, self._lines_left = int(now), LINES_PER_SECOND
        if result.error is None and now - started_at < SLOW:
            if not self._lines_left:
                self._unlogged += 1
                return
            self._lines_left -= 1
        unlogged, self._unlogged = self._unlogged, 0
        self._log.info(
            "request",
            outcome=result.outcome,
            ms=round((now - started_at) * 1000, 2),
            caller=request.source if request else None,
            id=request.id if request else None,
            session_id=request.session_id if request else None,
            query_id=request.query_id if request else None,
            **({"not_logged": unlogged} if unlogged else {}),
        )

    def _decode_request(self, data: bytes) -> Envelope[ToolRequest[Any]]:
        """Decode the request; null is no argument."""
        try:
            return decode(data, self._request_type)
        except InvalidArgumentsError:
            request = decode(data, ToolRequest[Json])
            args, known = request.payload.args, self._tool.args.__struct_fields__
            given = {
                name: value
                for name, value in args.items()
                if value is not None or name not in known
            }
            if len(given) == len(args):
                raise
            reduced = msgspec.structs.replace(request, payload=ToolRequest(args=given))
            return decode(encode(reduced), self._request_type)

    async def _run(
        self, caller: Caller, request: Envelope[ToolRequest[Any]], data: bytes
    ) -> ToolResult:
        owner = caller.principal
        with self._admission.admitted(owner, data):
            async with self._admission.slot(owner):
                deadline = request.deadline_utc
                left = seconds_until(deadline) if deadline is not None else None
                if left is not None and left < 0:
                    raise _too_late(request)
                begin_call(partial(self._report, request), deadline)
                if left is None or not self._tool.annotations.read_only_hint:
                    output = await self._tool.run(caller, request.payload.args)
                else:
                    # Callers repeat what was not answered in time. If what they no longer wait for
                    # went on, a stack that was slow for a moment would do ever more for nobody.
                    try:
                        async with asyncio.timeout(left) as limit:
                            output = await self._tool.run(caller, request.payload.args)
                    except TimeoutError:
                        if not limit.expired():
                            raise
                        raise _too_late(request) from None
        result = ToolResult(ok=True, content=output.content, data=output.data)
        if self._tool.whole:
            return result
        return await with_preview(self.bus, result, caller=caller, limit=self._output_limit)

    async def _report(self, request: Envelope[Any], progress: ToolProgress) -> None:
        """Publish a call's progress, except with accounts: all agents of a tenant would see it."""
        if self.bus.by_tenant or not request.id:
            return
        report = seal(progress, type="progress", source=self.name, correlation_id=request.id)
        with suppress(BusError):
            await self.bus.publish(subjects.tool_progress(self.name), encode(report))

    async def _reply(
        self, message: BusMessage, request: Envelope[Any] | None, result: ToolResult
    ) -> ToolResult:
        """Send the result, or as much of it as fits on the bus; return the result that was sent."""
        try:
            envelope = seal(
                result,
                type="result",
                source=self.name,
                user=request.user if request else None,
                session_id=request.session_id if request else None,
                query_id=request.query_id if request else None,
                correlation_id=(request.id or None) if request else None,
            )
            marks: Headers = {}
            if message.headers and "traceparent" in message.headers:
                marks["traceparent"] = header_value(message.headers["traceparent"])
            if result.error is not None:
                marks |= result.error.headers()
            data, headers = encode(envelope), marks or None
            self.bus.check_answer(message, data, headers)
        except TooLargeError as error:
            if result.data is None:
                return await self._reply(message, request, ToolResult.failed(error))
            content = f"{result.content}\n{DATA_OMITTED}"
            reduced = msgspec.structs.replace(result, content=content, data=None)
            return await self._reply(message, request, reduced)
        except InvalidArgumentsError as error:
            self._log.warning("result_not_sent", reason=error.logged)
            return await self._reply(message, request, ToolResult.failed(error))
        except Exception:  # noqa: BLE001 - the caller must get an answer
            self._log.exception("result_not_sent")
            fault = ToolResult.failed(Local2Error(FAULT_MESSAGE))
            return await self._reply(message, request, fault)
        await self.bus.answer(message, data, headers)
        if not self.bus.by_tenant:  # with accounts, all agents of the tenant would receive it
            headers = {**(headers or {}), **self._marks} or None
            await self.bus.publish(self._result_subject, data, headers=headers)
        return result


def _too_late(request: Envelope[Any]) -> DeadlineError:
    return DeadlineError(f"The deadline {request.deadline_utc} has passed; nothing was done.")
