"""Connect to the running stack with the settings' credentials, and send requests to its services.

Services are not tools: they reply with a payload or with an error, which `ask` raises.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from local2.bus.connection import Connection, connect
from local2.bus.identity import bearer
from local2.errors import (
    BusError,
    OverloadedError,
    RequestError,
    StackNotRunningError,
    UnavailableError,
    error_from_code,
)
from local2.home import running_url
from local2.protocol.envelope import Sender, decode, encode, seal_from
from local2.protocol.payloads import ErrorReply
from local2.protocol.tool_messages import ERROR_CODE
from local2.settings import Settings
from local2.tenants.credentials import credentials_of, has_accounts, memory_credentials

T = TypeVar("T")
CLIENT = Sender(agent="client")


@asynccontextmanager
async def connected(
    settings: Settings,
    *,
    name: str,
    user: str | None = None,
    patience: float = 5.0,
    operator: bool = False,
) -> AsyncIterator[Connection]:
    """Connect to the running stack, for this user and as the tenant that the settings name.

    With `operator`, and if the stack has accounts, connect with the memory's own credentials.

    Raises:
        StackNotRunningError: No stack runs, or it does not answer within `patience` seconds.
        ForbiddenError: The stack has accounts and refuses the credentials.
        ConfigError: The credentials cannot be read.
    """
    credentials = (
        memory_credentials(settings.bus.accounts)
        if operator and has_accounts(settings.bus)
        else credentials_of(settings.bus, user)
    )
    url = running_url(settings)
    async with connect(url, name=name, patience=patience, credentials=credentials) as bus:
        yield bus


async def ask(  # noqa: PLR0913 - the parts of a request
    bus: Connection,
    subject: str,
    payload: msgspec.Struct,
    into: type[T],
    caller: Sender = CLIENT,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - the caller chooses it
) -> T:
    """Send a request to a service and return the payload of its reply.

    Raises:
        RequestError: The service refuses the request.
        OverloadedError: The service is overloaded.
        UnavailableError: The service cannot answer at the moment.
        BusError: There is no reply, its payload has another form, or the service failed.
    """
    request = encode(seal_from(caller, payload, type="request"))
    reply = await bus.request(subject, request, timeout=timeout, headers=bearer(caller.token))
    if ERROR_CODE not in (reply.headers or {}):
        return decode(reply.data, into).payload
    problem = decode(reply.data, ErrorReply).payload
    error = error_from_code(problem.code, problem.message, problem.retry_after)
    is_for_caller = isinstance(error, RequestError | OverloadedError | UnavailableError)
    raise error if is_for_caller else BusError(problem.message)


async def await_while_connected(bus: Connection, work: Coroutine[Any, Any, T]) -> T:
    """Await work over the bus; fail once the connection is lost, since its replies are lost, too.

    Raises:
        StackNotRunningError: The connection was lost before the work was done.
    """
    if bus.lost.is_set():
        work.close()
    else:
        working = asyncio.ensure_future(work)
        lost = asyncio.ensure_future(bus.lost.wait())
        try:
            await asyncio.wait({working, lost}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
        finally:
            working.cancel()
            lost.cancel()
            await asyncio.gather(working, lost, return_exceptions=True)
    raise StackNotRunningError(
        "The memory stopped before it answered.",
        remedy="Ask again in a few seconds; repeating a request changes nothing twice.",
    )
