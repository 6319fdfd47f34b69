"""Puts one Tool on the bus: announces its schema, answers its requests, turns errors into results.

This is the only place where an exception becomes an error result, so that every tool fails in the
same form. The host knows the calls in progress, so that the caller can cancel one.
"""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from typing import Any

import msgspec
import structlog

from local import telemetry
from local.admission import Admission
from local.bus.connection import BusMessage, Connection, Headers
from local.bus.identity import signed
from local.bus.outputs import with_preview
from local.bus.participant import Participant
from local.errors import (
    BusError,
    CancelledCallError,
    DeadlineError,
    InvalidArgumentsError,
    Local2Error,
    TooLargeError,
)
from local.protocol import subjects
from local.protocol.envelope import Caller, Envelope, decode, encode, header_of, is_past, seal
from local.protocol.payloads import Json, ToolProgress, ToolRequest, ToolResult
from local.protocol.tool import Tool, reporter
from local.protocol.tool_messages import error_headers, header_value
from local.settings import TOOL_OUTPUT_LIMIT

FAULT = "The tool failed; the server's log says where."
ASKED_TOGETHER = 0.02
"""Seconds: requests for schemas within them get one announcement. This limits a burst of agents
that start together, and delays the answer by less than anybody notices."""
DATA_LEFT_OUT = "(Its data is left out: the bus does not carry so much.)"
_Key = tuple[str, str | None, str | None, str]


class ToolHost(Participant):
    """A tool as a participant; several hosts of one tool divide its requests.

    Results of more than `output_limit` characters are stored in the memory, and sent as previews.
    `admission` admits requests, and shares out the work; several tools may share it.
    """

    def __init__(
        self,
        bus: Connection,
        tool: Tool,
        *,
        output_limit: int = TOOL_OUTPUT_LIMIT,
        admission: Admission | None = None,
    ) -> None:
        super().__init__(bus, name=tool.name, description=tool.description)
        self._tool = tool
        self._output_limit = output_limit
        self._admission = admission or Admission()
        self._request_type = ToolRequest[tool.args]  # type: ignore[name-defined]
        self._result_subject = subjects.tool_result(tool.name)
        self._log = structlog.get_logger().bind(tool=tool.name)
        self._schema = encode(seal(tool.schema(), type="schema", source=tool.name))
        self._announcing = set[str]()
        self._running = RunningCalls()
        self._requests = self.serve(
            subjects.tool_request(tool.name),
            self._answer,
            queue=tool.name,
            limit=None,
            metadata={"mcp_tool": encode(tool.mcp_definition()).decode()},
        )
        self.serve(subjects.tool_cancel(tool.name), self._cancel, limit=None)
        self.serve(subjects.TOOL_SCHEMA_REQUEST, self._announce)

    async def started(self) -> None:
        await self._publish_schema(subjects.TOOL_SCHEMA)

    async def _announce(self, message: BusMessage) -> None:
        """Reply to a request; answer those that wait for no reply with one announcement for all."""
        if message.reply:
            await self._publish_schema(message.reply)
        elif message.tenant not in self._announcing:
            self._announcing.add(message.tenant)
            await asyncio.sleep(ASKED_TOGETHER)
            self._announcing.discard(message.tenant)
            await self._publish_schema(subjects.TOOL_SCHEMA, tenant=message.tenant)

    async def _publish_schema(self, subject: str, tenant: str | None = None) -> None:
        """Publish the schema; the signature shows the stack that the tool is its own."""
        headers = signed(self.bus.secret, subject, self._schema)
        await self.bus.publish(subject, self._schema, headers=headers, tenant=tenant)

    async def _answer(self, message: BusMessage) -> None:
        begun = time.perf_counter()
        request: Envelope[Any] | None = None
        caller: Caller | None = None
        try:
            request = self._decoded(message.data)
            caller = self.bus.identity.caller_of(message, request)
            with self._running.cancellable(caller, request.id):
                result = await self._run(caller, request, message.data)
        except InvalidArgumentsError as error:
            request = request or header_of(message.data)
            result = ToolResult.failed(self._tool.with_choices(error))
        except Local2Error as error:
            request = request or header_of(message.data)
            result = ToolResult.failed(error)
        except Exception:  # noqa: BLE001 - the boundary: the log has all of it
            self._log.exception("tool_failed")
            result = ToolResult.failed(Local2Error(FAULT))
        if self._tool.answering is not None:
            caller = caller or self._caller_of_refused(message, request)
            if caller is not None:
                self._tool.answering(caller, result)
        result = await self._reply(message, request, result)
        elapsed = time.perf_counter() - begun
        await asyncio.sleep(0)  # the reply leaves before the log line is made
        self._record(request, result, elapsed)

    async def _cancel(self, message: BusMessage) -> None:
        """Cancel a call; every host of the tool receives this, the one with the call ends it."""
        if (header := header_of(message.data)) is not None and header.correlation_id:
            caller = self.bus.identity.caller_of(message, header)
            self._running.cancel(caller, header.correlation_id)

    def _caller_of_refused(
        self, message: BusMessage, request: Envelope[Any] | None
    ) -> Caller | None:
        """Return who sent a refused request, if that can be known."""
        try:
            return self.bus.identity.caller_of(message, request) if request else None
        except Local2Error:
            return None

    def _decoded(self, data: bytes) -> Envelope[ToolRequest[Any]]:
        """Decode the request; drop an argument that is null where the tool expects a value."""
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
            left = msgspec.structs.replace(request, payload=ToolRequest(args=given))
            return decode(encode(left), self._request_type)

    async def _run(
        self, caller: Caller, request: Envelope[ToolRequest[Any]], data: bytes
    ) -> ToolResult:
        owner = caller.principal
        with self._admission.admitted(owner, data):
            async with self._admission.slot(owner):
                if is_past(request.deadline_utc):
                    raise DeadlineError(
                        f"The deadline {request.deadline_utc} has passed; nothing was done."
                    )
                reporter.set(partial(self._report, request))  # in the context of this task
                output = await self._tool.run(caller, request.payload.args)
        result = ToolResult(ok=True, content=output.content, data=output.data)
        if self._tool.whole:
            return result
        return await with_preview(self.bus, result, caller=caller, limit=self._output_limit)

    async def _report(self, request: Envelope[Any], progress: ToolProgress) -> None:
        """Publish how far a call is; not where all of a tenant's agents would receive it."""
        if self.bus.by_tenant or not request.id:
            return
        report = seal(progress, type="progress", source=self.name, correlation_id=request.id)
        with suppress(BusError):
            await self.bus.publish(subjects.tool_progress(self.name), encode(report))

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
        if not self.bus.by_tenant:  # what one person recalls is not for all agents of the tenant
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
            headers["traceparent"] = header_value(message.headers["traceparent"])
        if result.error is not None:
            headers |= error_headers(result.error)
        return encode(envelope), headers or None

    def _record(self, request: Envelope[Any] | None, result: ToolResult, seconds: float) -> None:
        if result.error is not None:
            self._requests.errors += 1
            self._requests.last_error = result.outcome
            telemetry.tool_failed(self.name, result.error.code)
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
    """Return what is sent instead of a result that is too large for the bus."""
    if result.data is None:
        return ToolResult.failed(error)
    content = f"{result.content}\n{DATA_LEFT_OUT}"
    return msgspec.structs.replace(result, content=content, data=None)


class RunningCalls:
    """Calls by their caller and the id of the request; nobody else can cancel them."""

    def __init__(self) -> None:
        self._tasks: dict[_Key, asyncio.Task[None]] = {}
        self._cancelled: set[_Key] = set()

    @contextmanager
    def cancellable(self, caller: Caller, request_id: str) -> Iterator[None]:
        """Run the body in the current task, until it is done or cancelled.

        Raises:
            CancelledCallError: The caller no longer wants the answer.
        """
        key, task = _key(caller, request_id), asyncio.current_task()
        if task is None or not request_id:
            yield
            return
        self._tasks[key] = task
        try:
            yield
        except asyncio.CancelledError:
            if key not in self._cancelled:
                raise
            task.uncancel()
            raise CancelledCallError(
                "The caller has cancelled the call.",
                remedy="What was written before stays; ask again if it is needed.",
            ) from None
        finally:
            self._tasks.pop(key, None)
            self._cancelled.discard(key)

    def cancel(self, caller: Caller, request_id: str) -> None:
        """Cancel a call of this caller, if it is under way here."""
        key = _key(caller, request_id)
        if (task := self._tasks.get(key)) is not None and key not in self._cancelled:
            self._cancelled.add(key)
            task.cancel()


def _key(caller: Caller, request_id: str) -> _Key:
    return caller.tenant, caller.user, caller.agent, request_id
