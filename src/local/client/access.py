"""Access to the running stack: connecting with the settings' credentials, asking its services.

Services are no tools: they answer with a payload, or with an error, which is raised here.
"""

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec

from local.bus.connection import Connection, connect
from local.bus.identity import bearer
from local.errors import (
    BusError,
    OverloadedError,
    RequestError,
    StackNotRunningError,
    UnavailableError,
    error_of,
)
from local.home import running_url
from local.protocol.envelope import Sender, decode, encode, seal_from
from local.protocol.payloads import ErrorReply
from local.protocol.tool_messages import ERROR_CODE
from local.settings import Settings
from local.tenants.credentials import credentials_of, memory_credentials
from local.tenants.directory import Entries

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

    `operator`: connect as the operator, where there are accounts; this needs the memory's own
    credentials.

    Raises:
        StackNotRunningError: None runs, or it does not answer within `patience` seconds.
        ForbiddenError: It has accounts, and refuses the credentials.
        ConfigError: The credentials cannot be read.
    """
    own = operator and Entries.read(settings.bus.accounts) is not None
    credentials = (
        memory_credentials(settings.bus.accounts) if own else credentials_of(settings.bus, user)
    )
    url = running_url(settings)
    async with connect(url, name=name, patience=patience, credentials=credentials) as bus:
        yield bus


async def ask(  # noqa: PLR0913 - what a request consists of
    bus: Connection,
    subject: str,
    payload: msgspec.Struct,
    into: type[T],
    caller: Sender = CLIENT,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - the caller chooses it
) -> T:
    """Ask, and return the payload of the answer.

    Raises:
        RequestError: The request is refused; or another error, by its code.
        BusError: There is no answer, none with such a payload, or the answering service has a
            fault.
    """
    request = encode(seal_from(caller, payload, type="request"))
    answer = await bus.request(subject, request, timeout=timeout, headers=bearer(caller.token))
    if ERROR_CODE not in (answer.headers or {}):
        return decode(answer.data, into).payload
    problem = decode(answer.data, ErrorReply).payload
    error = error_of(problem.code, problem.message, problem.retry_after)
    known = isinstance(error, RequestError | OverloadedError | UnavailableError)
    raise error if known else BusError(problem.message)


async def ending_with(bus: Connection, work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work over the bus; fail if the connection ends, as its answers are lost.

    Work that begins during a reconnect waits for it.

    Raises:
        StackNotRunningError: The connection was lost meanwhile.
    """
    if bus.lost.is_set():
        return await work
    working = asyncio.ensure_future(work)
    lost = asyncio.ensure_future(bus.lost.wait())
    try:
        await asyncio.wait({working, lost}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        raise StackNotRunningError(
            "The memory stopped before it answered.",
            remedy="Ask again in a few seconds; repeating a request changes nothing twice.",
        )
    finally:
        working.cancel()
        lost.cancel()
        await asyncio.gather(working, lost, return_exceptions=True)
