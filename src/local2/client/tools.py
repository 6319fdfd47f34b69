"""The caller's side of tools: list those on the bus, call one, follow its progress.

Tools are known only from their announcements on `tool.schema`, so that any team's tool can join at
any time. A caller that gives up a call sends a cancellation, and the tool ends it.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from datetime import timedelta
from typing import Self

import msgspec

from local2.admission import Rates
from local2.bus.connection import BusMessage, Connection, Subscription
from local2.bus.identity import announcer_of, bearer, is_genuine
from local2.errors import (
    BadRequestError,
    BusTimeoutError,
    Local2Error,
    NoRespondersError,
    OverloadedError,
    RequestError,
    UnknownToolError,
    quoted,
)
from local2.logs import get_logger
from local2.protocol import subjects
from local2.protocol.envelope import (
    DEFAULT_TENANT,
    Sender,
    decode,
    encode,
    seal,
    seal_from,
    utc_now,
)
from local2.protocol.lenient.tools import read_schema
from local2.protocol.payloads import Empty, Json, ToolProgress, ToolRequest, ToolResult, ToolSchema

OnProgress = Callable[[ToolProgress], Awaitable[None]]
MAX_TOOLS = 1_000
"""Maximum number of a tenant's tools, so that a flood of announcements neither fills the process
nor slows down turns. At this limit, only known ones and the memory's own are still accepted."""
MAX_TOOLS_OF_AGENT = 500
"""Maximum number of tools that one agent may announce, so that others can announce theirs."""
ANNOUNCEMENT_RATE = 50.0
"""Announcements of an agent that are read per second, once it has announced all its tools twice;
those of a tenant twice as many. A skipped one is sent again at the next `tool.schema.request`."""
MAX_REFUSALS = 1_000
"""Maximum number of different refusals that are logged, each once, so that no sender can fill the
log."""
QUIET = 0.2
"""Seconds without an announcement after which all tools count as announced. Hosts answer at once,
or within `tool_host.SCHEMA_REQUEST_WINDOW`."""
SETTLED_AFTER = 2.0
"""Maximum seconds to wait for announcements, since new tools may keep arriving."""

log = get_logger()


async def call_tool(
    bus: Connection,
    tool: str,
    args: Json,
    *,
    caller: Sender,
    timeout: float = 10.0,  # noqa: ASYNC109 - it becomes the request's deadline
    on_progress: OnProgress | None = None,
) -> ToolResult:
    """Call a tool and return its result; a failure becomes a result with an error code.

    The arguments are those of `ask_tool`.
    """
    try:
        return await ask_tool(
            bus, tool, args, caller=caller, timeout=timeout, on_progress=on_progress
        )
    except Local2Error as error:
        return ToolResult.failed(error)


async def ask_tool(
    bus: Connection,
    tool: str,
    args: Json,
    *,
    caller: Sender,
    timeout: float = 10.0,  # noqa: ASYNC109 - it becomes the request's deadline
    on_progress: OnProgress | None = None,
) -> ToolResult:
    """Call a tool and return the result it replies with. Cancelling this cancels the tool.

    Args:
        bus: The connection to use.
        tool: The tool's name.
        args: Its arguments, which the tool itself validates.
        caller: The caller and the turn for the envelope. The server decides the tenant.
        timeout: Seconds to wait. The tool does not start after they have passed.
        on_progress: Called with each progress report of the tool.

    Raises:
        UnknownToolError: No host serves the tool.
        BusTimeoutError: The tool did not answer in time.
        BusError: The request cannot be sent.
        RequestError: The arguments cannot be sent, so the tool was not called.
    """
    deadline = utc_now() + timedelta(seconds=timeout)
    request = seal_from(caller, ToolRequest(args=args), type="request", deadline_utc=deadline)
    # Some tools reply with the request's id as correlation_id, others copy its correlation_id.
    request = msgspec.structs.replace(request, correlation_id=request.id)
    try:
        async with receiving_progress(bus, tool, request.id, on_progress):
            return await bus.tool_calls.call(tool, request, timeout, bearer(caller.token))
    except asyncio.CancelledError:
        await cancel_call(bus, tool, request.id, caller)
        raise
    except NoRespondersError as error:
        message = f"No tool {quoted(tool)} is on the bus."
        raise UnknownToolError(message, remedy="`local2 tools` lists them.") from error
    except BusTimeoutError as error:
        message = f"The tool {quoted(tool)} did not answer within {timeout:g} s."
        raise BusTimeoutError(message, remedy=error.remedy) from error


@asynccontextmanager
async def receiving_progress(
    bus: Connection, tool: str, request_id: str, on_progress: OnProgress | None
) -> AsyncIterator[None]:
    """Pass a call's progress reports on in their order; do nothing if `on_progress` is None."""
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


async def cancel_call(bus: Connection, tool: str, request_id: str, caller: Sender) -> None:
    """Tell the tool that its answer is no longer wanted; there is no reply."""
    cancel = seal_from(caller, Empty(), type="cancel", correlation_id=request_id)
    with suppress(Local2Error):
        subject = subjects.tool_cancel(tool)
        await bus.publish(subject, encode(cancel), headers=bearer(caller.token))


class Toolbox:
    """The tools on the bus, kept up to date while its context lasts.

    On entry it asks all tools to announce themselves. `tenant` selects the tools of one tenant, for
    a memory that serves several. `on_change` is called when a tool is new or its announcement has
    changed.
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
        self._number_by_agent = Counter[str]()
        self._rates_of_agents = Rates(ANNOUNCEMENT_RATE, 2 * MAX_TOOLS_OF_AGENT)
        self._rate = Rates(2 * ANNOUNCEMENT_RATE, 2 * MAX_TOOLS)
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
        """The announcement of a tool, or None."""
        return self._schemas.get(tool)

    async def __aenter__(self) -> Self:
        self._subscription = await self._bus.subscribe(
            subjects.TOOL_SCHEMA, self._receive, tenant=self._tenant
        )
        try:
            await self._bus.flush()
            ask = encode(seal(Empty(), type="schema_request", source=self._source))
            await self._bus.publish(subjects.TOOL_SCHEMA_REQUEST, ask, tenant=self._tenant)
        except BaseException:
            await self.__aexit__()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._subscription is not None:
            await self._subscription.stop(grace=1.0)

    async def settle(self, quiet: float = QUIET) -> list[ToolSchema]:
        """Wait until no announcement arrives for `quiet` seconds; at most two seconds."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + SETTLED_AFTER
        while loop.time() < deadline:
            self._changed.clear()
            try:
                async with asyncio.timeout(quiet):
                    await self._changed.wait()
            except TimeoutError:
                break
        return self.schemas

    async def find(self, tool: str, *, within: float) -> ToolSchema | None:
        """Wait for a tool's announcement; return None if there is none within `within` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while tool not in self._schemas:
                    self._changed.clear()
                    await self._changed.wait()
        return self.get(tool)

    async def _receive(self, message: BusMessage) -> None:
        announcer = announcer_of(message)
        signed = bool(self._bus.secret) and is_genuine(self._bus.secret, message)
        try:
            if not signed:  # too many announcements delay others: some are skipped
                self._rates_of_agents.take_token(announcer)
                self._rate.take_token(self._tenant)
            self._learn(read_schema(message.data), announcer, signed=signed)
        except (BadRequestError, OverloadedError) as error:
            refusal = (announcer, error.logged)
            # Each refusal is logged once, since tools announce themselves repeatedly.
            if refusal not in self._refused and len(self._refused) < MAX_REFUSALS:
                self._refused.add(refusal)
                log.warning("announcement_refused", source=announcer, reason=error.logged)

    def _learn(self, schema: ToolSchema, announcer: str, *, signed: bool) -> None:
        """Add or replace a tool, or raise BadRequestError.

        Only the stack can check signatures. Elsewhere, a tool that reads the memory is its own.
        """
        is_own = schema.reads_memory and (signed or not self._bus.secret)
        if not is_own and schema.name in self._own:
            raise BadRequestError(f"{schema.name} is the name of a tool of the memory.")
        if schema.name not in self._schemas and not signed:
            if len(self._schemas) >= MAX_TOOLS:
                raise BadRequestError(f"More than {MAX_TOOLS:,} tools were announced.")
            if self._number_by_agent[announcer] >= MAX_TOOLS_OF_AGENT:
                raise BadRequestError(f"It announced more than {MAX_TOOLS_OF_AGENT:,} tools.")
            self._number_by_agent[announcer] += 1
        if is_own:
            self._own.add(schema.name)
        before, self._schemas[schema.name] = self._schemas.get(schema.name), schema
        self._changed.set()
        if schema != before:
            self._on_change()
