"""Connect to a stack with the settings' credentials, and send requests to its services.

Commands use the running stack while they last (`connected`). Programs that stay, such as those with
an open memory and the MCP server, start one if there is none and follow it when it starts again
(`StackConnection`).

Services are not tools: they reply with a payload or with an error, which `ask_service` raises.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from typing import TYPE_CHECKING, Any, Self, TypeVar

import msgspec

from local2.background import await_unless
from local2.bus.connection import PATIENCE, Connection, connect
from local2.bus.identity import bearer
from local2.client.shared_stack import ensure_stack, is_elsewhere, stack_running
from local2.errors import (
    BusError,
    OverloadedError,
    RequestError,
    StackNotRunningError,
    UnavailableError,
    error_from_code,
)
from local2.home import running_url
from local2.protocol import subjects
from local2.protocol.envelope import Sender, decode, encode, seal_from
from local2.protocol.payloads import ERROR_CODE, Empty, ErrorReply
from local2.settings import Settings
from local2.tenants.credentials import OwnTokens, credentials_of, has_accounts, memory_credentials

if TYPE_CHECKING:  # commands that ask no service start faster without the types of all of them
    from local2.protocol.services import A, P, ServiceDeclaration

T = TypeVar("T")
CLIENT = Sender(agent="client")


@asynccontextmanager
async def connected(
    settings: Settings,
    *,
    name: str,
    user: str | None = None,
    patience: float = PATIENCE,
    operator: bool = False,
) -> AsyncIterator[Connection]:
    """Connect to the running stack, for this user and as the tenant that the settings name.

    With `operator`, and if the stack has accounts, connect with the memory's own credentials.

    Raises:
        StackNotRunningError: No stack runs, or it does not answer in time, as for `connect`.
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


class StackConnection:
    """The connection of a program that stays to the stack that the settings name.

    It works in the event loop that made it, while its context lasts. If no stack runs, one is
    started, and stays until the context ends, unless the settings name a stack elsewhere.
    """

    def __init__(self, settings: Settings, *, name: str, user: str | None = None) -> None:
        self._settings = settings
        self._name = name
        self._user = user
        self._opening = asyncio.Lock()
        self._share = AsyncExitStack()
        """Keeps the stack running."""
        self._is_sharing = False
        self._connection = AsyncExitStack()
        self._bus: Connection | None = None
        self._url = ""
        self._closing = asyncio.Event()
        self.tokens = OwnTokens(settings.bus)
        self.can_name_users = not (settings.bus.credentials or settings.bus.token)
        """Whether a request may name any user: the stack has no accounts, or this client can make
        the user's token."""
        self.loop = asyncio.get_running_loop()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        self._closing.set()
        # What is being opened is given up first: it would stay open.
        async with self._opening, self._share:
            await self._connection.aclose()

    async def bus(self, *, renew: bool = False) -> Connection:
        """Connect, unless a connection is open and the stack's address is still the same.

        A lost connection to the same address reconnects by itself, and sends then what is sent
        now. With `renew`, it is replaced, with all its subscriptions.

        Raises:
            StackNotRunningError: No stack runs or starts, or it does not answer.
            ForbiddenError: The stack refuses the credentials.
            ConfigError: The credentials cannot be read.
            UnwritableError: The data folder of a stack on this machine cannot be written to.
            BusError: The context has ended, or this is another event loop.
        """
        if self._closing.is_set():
            raise closed_error()
        if asyncio.get_running_loop() is not self.loop:
            raise BusError(
                "This memory was opened in another event loop, and works only in that one.",
                remedy="Open one in each loop, or call this one with "
                "`asyncio.run_coroutine_threadsafe(…, memory.loop)`.",
            )
        if self._bus is not None and not self._bus.lost.is_set():
            return self._bus
        async with self._opening:
            return await await_unless(self._closing.wait(), self._open(renew=renew), closed_error)

    async def _open(self, *, renew: bool) -> Connection:
        if not self._is_sharing:
            await self._share.enter_async_context(stack_running(self._settings))
            self._is_sharing = True
        elif not is_elsewhere(self._settings.bus):
            await ensure_stack(self._settings)
        url = running_url(self._settings)
        if self._bus is None or renew or url != self._url:
            self._bus = None
            await self._connection.aclose()
            self._bus = await self._connection.enter_async_context(
                connected(self._settings, name=self._name, user=self._user)
            )
            self._url = url
        return self._bus

    async def run(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        """Do work over the connection. If it is lost meanwhile, fail at once.

        If it is already lost, the work waits for the reconnection as long as for its answer.

        Raises:
            StackNotRunningError: The connection was lost during the work, or cannot be opened.
        """
        bus = await self.bus()
        return await (work(bus) if bus.lost.is_set() else await_while_connected(bus, work(bus)))

    async def has_ended(self) -> bool:
        """Whether the stack has ended and no other one has started yet.

        Neither its bus server nor its process id shows this: the server outlives the stack briefly,
        and a killed process exists until it is reaped.
        """
        if is_elsewhere(self._settings.bus) or self._bus is None:
            return False
        try:
            await self._bus.request(subjects.MEMORY_READY, b"")
        except BusError:
            return True
        return False


def closed_error() -> BusError:
    return BusError(
        "This memory is closed: the context that opened it has ended.",
        remedy="Use it inside `with local2.connect(…)` or `async with local2.connect(…)`.",
    )


class _Failure(msgspec.Struct, frozen=True, kw_only=True):
    """What a service replies in place of its answer: an error, or a result with one."""

    code: str = "internal"
    message: str = ""
    retry_after: float | None = None
    error: ErrorReply | None = None


async def ask_service(
    bus: Connection,
    service: "ServiceDeclaration[P, A]",
    payload: "P | Empty",
    caller: Sender = CLIENT,
    *,
    timeout: float | None = None,  # noqa: ASYNC109 - the caller chooses it
) -> "A":
    """Send a request to a service and return the payload of its reply.

    Without a timeout, the service's `patience` is waited for.

    Raises:
        RequestError: The service refuses the request.
        OverloadedError: The service is overloaded.
        UnavailableError: The service cannot answer at the moment.
        BusError: There is no reply, its payload has another form, or the service failed.
    """
    request = seal_from(caller, payload, type="request")
    seconds = service.patience if timeout is None else timeout
    headers = bearer(caller.token)
    if service.reads_only:
        reply = await bus.request_until_answered(
            service.subject,
            request,
            running=subjects.MEMORY_RUNNING,
            timeout=seconds,
            headers=headers,
        )
    else:
        reply = await bus.request_patiently(
            service.subject, encode(request), timeout=seconds, headers=headers
        )
    if ERROR_CODE not in (reply.headers or {}):
        return decode(reply.data, service.answer).payload
    failure = decode(reply.data, _Failure).payload
    problem = failure.error or failure
    error = error_from_code(problem.code, problem.message, problem.retry_after)
    is_for_caller = isinstance(error, RequestError | OverloadedError | UnavailableError)
    raise error if is_for_caller else BusError(problem.message)


async def await_while_connected(bus: Connection, work: Coroutine[Any, Any, T]) -> T:
    """Await work over the bus; fail once the connection is lost, since its replies are lost, too.

    Raises:
        StackNotRunningError: The connection was lost before the work was done.
    """

    def lost_error() -> StackNotRunningError:
        return StackNotRunningError(
            "The memory stopped before it answered.",
            remedy="Ask again in a few seconds; repeating a request changes nothing twice.",
        )

    if bus.lost.is_set():
        work.close()
        raise lost_error()
    return await await_unless(bus.lost.wait(), work, lost_error)
