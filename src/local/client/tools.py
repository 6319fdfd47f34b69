"""Tools as their callers see them: which are on the bus, how to call one, how far a call is.

Tools are known from their announcements on `tool.schema` only, so that a tool of any team can join
at any time. A caller that gives up a call reports that, and the tool ends it.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Self

import msgspec
import structlog

from local.bus.connection import BusMessage, Connection, Subscription
from local.bus.identity import bearer, is_genuine
from local.errors import (
    BadRequestError,
    BusTimeoutError,
    Local2Error,
    NoRespondersError,
    RequestError,
    UnknownToolError,
    quoted,
)
from local.protocol import subjects
from local.protocol.envelope import (
    DEFAULT_TENANT,
    Envelope,
    Sender,
    decode,
    encode,
    header_of,
    seal,
    seal_from,
    utc_now,
)
from local.protocol.payloads import Empty, Json, ToolProgress, ToolRequest, ToolResult, ToolSchema
from local.protocol.tool_messages import read_schema

OnProgress = Callable[[ToolProgress], Awaitable[None]]
MOST_TOOLS = 10_000
"""Names; a flood of announcements must not fill the process. At this limit only the memory's own
tools and known ones are still accepted."""
MOST_REFUSALS = 1_000
"""Different refusals that are logged, each once; more would let a sender fill the log."""
QUIET = 0.2
"""Seconds without an announcement after which all tools are taken to have answered; hosts answer at
once, or within `tool_host.SCHEMA_REQUEST_WINDOW`."""
SETTLED_AFTER = 2.0
"""Seconds to wait for announcements at most, since new tools may go on coming."""

log = structlog.get_logger()


async def call_tool(  # noqa: PLR0913 - one keyword a field of the envelope
    bus: Connection,
    tool: str,
    args: Json,
    *,
    caller: Sender,
    timeout: float = 10.0,  # noqa: ASYNC109 - it becomes the request's deadline
    on_progress: OnProgress | None = None,
) -> ToolResult:
    """Call a tool and return its result; a failure is a result, too, with its code.

    The arguments are those of `ask_tool`.
    """
    try:
        return await ask_tool(
            bus, tool, args, caller=caller, timeout=timeout, on_progress=on_progress
        )
    except Local2Error as error:
        return ToolResult.failed(error)


async def ask_tool(  # noqa: PLR0913 - one keyword a field of the envelope
    bus: Connection,
    tool: str,
    args: Json,
    *,
    caller: Sender,
    timeout: float = 10.0,  # noqa: ASYNC109 - it becomes the request's deadline
    on_progress: OnProgress | None = None,
) -> ToolResult:
    """Call a tool and return the result that it answers with; cancelling this cancels the tool.

    Args:
        bus: The connection to use.
        tool: The tool's name.
        args: Its arguments, which the tool itself validates.
        caller: The caller that the envelope names, and the turn; the server decides the tenant.
        timeout: Seconds to wait; the tool does not begin after them.
        on_progress: Called with each progress report of the tool.

    Raises:
        UnknownToolError: No host serves it.
        BusTimeoutError: It did not answer in time.
        BusError: It cannot be asked.
        RequestError: It was not asked, because the arguments cannot be sent.
    """
    request = _request(args, caller, timeout)
    try:
        async with receiving_progress(bus, tool, request.id, on_progress):
            return await bus.tool_results.ask(tool, request, timeout, bearer(caller.token))
    except asyncio.CancelledError:
        await take_back(bus, tool, request.id, caller)
        raise
    except NoRespondersError as error:
        raise _unknown(tool) from error
    except BusTimeoutError as error:
        message = f"The tool {quoted(tool)} did not answer within {timeout:g} s."
        raise BusTimeoutError(message, remedy=error.remedy) from error


@asynccontextmanager
async def receiving_progress(
    bus: Connection, tool: str, request_id: str, on_progress: OnProgress | None
) -> AsyncIterator[None]:
    """Receive a call's progress reports in their order; with None, nothing."""
    if on_progress is None:
        yield
        return

    async def receive(message: BusMessage) -> None:
        with suppress(RequestError):
            report = decode(message.data, ToolProgress)
            if report.correlation_id == request_id:
                await on_progress(report.payload)

    subscription = await bus.subscribe(subjects.tool_progress(tool), receive, limit=1)
    try:
        yield
    finally:
        await subscription.stop(grace=1.0)


async def take_back(bus: Connection, tool: str, request_id: str, caller: Sender) -> None:
    """Report that the answer is no longer wanted; there is no reply."""
    cancel = seal_from(caller, Empty(), type="cancel", correlation_id=request_id)
    with suppress(Local2Error):
        subject = subjects.tool_cancel(tool)
        await bus.publish(subject, encode(cancel), headers=bearer(caller.token))


def _request(args: Json, caller: Sender, seconds: float) -> Envelope[ToolRequest[Json]]:
    deadline = utc_now() + timedelta(seconds=seconds)
    request = seal_from(caller, ToolRequest(args=args), type="request", deadline_utc=deadline)
    # Some tools answer with the id of the request as correlation_id, others copy the field.
    return msgspec.structs.replace(request, correlation_id=request.id)


def _unknown(tool: str) -> UnknownToolError:
    return UnknownToolError(
        f"No tool {quoted(tool)} is on the bus.", remedy="`local2 tools` lists them."
    )


class Toolbox:
    """The tools on the bus, while its context lasts; at its start, tools are asked to announce.

    `tenant`: whose tools, for the memory of several. `on_change` is called when a tool is new, or
    its announcement has changed.
    """

    def __init__(
        self,
        bus: Connection,
        *,
        source: str,
        tenant: str = DEFAULT_TENANT,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        self._bus = bus
        self._tenant = tenant
        self._source = source
        self._on_change = on_change
        self._schemas: dict[str, ToolSchema] = {}
        self._own: set[str] = set()
        self._refused: set[tuple[str, str]] = set()
        self._changed = asyncio.Event()
        self._subscription: Subscription | None = None

    @property
    def schemas(self) -> list[ToolSchema]:
        """Every known tool, sorted by name."""
        return [self._schemas[name] for name in sorted(self._schemas)]

    @property
    def announced(self) -> list[ToolSchema]:
        """Every known tool, in the order of the first announcements."""
        return list(self._schemas.values())

    @property
    def own(self) -> frozenset[str]:
        """The names of the memory's own tools."""
        return frozenset(self._own)

    def get(self, tool: str) -> ToolSchema | None:
        """Return the announcement of a tool, or None."""
        return self._schemas.get(tool)

    async def __aenter__(self) -> Self:
        self._subscription = await self._bus.subscribe(
            subjects.TOOL_SCHEMA, self._receive, tenant=self._tenant
        )
        await self._bus.flush()
        ask = encode(seal(Empty(), type="schema_request", source=self._source))
        await self._bus.publish(subjects.TOOL_SCHEMA_REQUEST, ask, tenant=self._tenant)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._subscription is not None:
            await self._subscription.stop(grace=1.0)

    async def settle(
        self, quiet: float = QUIET, at_most: float = SETTLED_AFTER
    ) -> list[ToolSchema]:
        """Wait until no schema comes for `quiet` seconds, but not longer than `at_most`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + at_most
        while loop.time() < deadline:
            self._changed.clear()
            try:
                async with asyncio.timeout(quiet):
                    await self._changed.wait()
            except TimeoutError:
                break
        return self.schemas

    async def find(self, tool: str, *, within: float) -> ToolSchema | None:
        """Wait for the schema of a tool; None if it is not announced in time."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while tool not in self._schemas:
                    self._changed.clear()
                    await self._changed.wait()
        return self.get(tool)

    async def _receive(self, message: BusMessage) -> None:
        try:
            schema = read_schema(message.data)
        except BadRequestError as error:
            self._refuse(message, error.logged)
            return
        if self._is_own(schema, message):
            self._own.add(schema.name)
        elif schema.name in self._own:
            self._refuse(message, f"{schema.name} is the name of a tool of the memory.")
            return
        elif schema.name not in self._schemas and len(self._schemas) >= MOST_TOOLS:
            self._refuse(message, f"More than {MOST_TOOLS:,} tools were announced.")
            return
        before, self._schemas[schema.name] = self._schemas.get(schema.name), schema
        self._changed.set()
        if schema != before:
            self._on_change()

    def _is_own(self, schema: ToolSchema, message: BusMessage) -> bool:
        """Return whether it is the memory's own; only the stack can check the signature."""
        secret = self._bus.secret
        return schema.reads_memory and (not secret or is_genuine(secret, message))

    def _refuse(self, message: BusMessage, reason: str) -> None:
        """Log each refusal once: tools announce themselves again and again."""
        header = header_of(message.data)
        refusal = (header.source if header else "", reason)
        if refusal not in self._refused and len(self._refused) < MOST_REFUSALS:
            self._refused.add(refusal)
            log.warning("announcement_refused", source=refusal[0], reason=reason)
