"""`local2 serve`: every tool and service of the memory over HTTP, on this machine.

`local2 web` serves the pages for people beside them (`pages/`).

An operation has the arguments and the answer that it has on the bus; what is declared there is
served here. The stack decides what a caller may do.
"""

import asyncio
import hashlib
import math
import secrets
import socket
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import msgspec
from msgspec import Raw
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from local2 import loopback
from local2.background import await_unless, running_task
from local2.client import BusMessage, Connection
from local2.client.access import ask_service
from local2.client.calls import ERASURE_TIMEOUT
from local2.client.stack_tools import RETRY_DELAY, ReachedStack, StackTools
from local2.client.tools import ask_tool
from local2.errors import (
    BadRequestError,
    BusError,
    ConfigError,
    ForbiddenError,
    InvalidArgumentsError,
    Local2Error,
    NoRespondersError,
    OverloadedError,
    RequestError,
    TooLargeError,
    UnknownToolError,
    abridged,
    extra_to_install,
    quoted,
)
from local2.home import user_name
from local2.logs import get_logger
from local2.protocol import subjects
from local2.protocol.envelope import Sender, json_errors
from local2.protocol.json_text import read_json
from local2.protocol.memory_tools import (
    EDIT_MEMORY,
    FORGET,
    MEMORY_HISTORY,
    TOOL_NAMES,
    A,
    D,
    MemoryHistory,
    MemoryTool,
    Version,
)
from local2.protocol.msgspec_errors import with_own_names
from local2.protocol.payloads import Empty, ErrorReply, ToolResult
from local2.protocol.services import BROWSE, SERVICES, STATUS, P, ServiceDeclaration
from local2.protocol.subjects import checked_tool_name
from local2.settings import Settings
from local2.tenants.credentials import has_accounts
from local2.web.answers import JSON, HttpAnswer, NotFoundError, UnauthorizedError
from local2.web.callers import Gate, claims_of
from local2.web.events import EventStream, until_gone
from local2.web.mem0 import PATH as MEM0_PATH
from local2.web.mem0 import Mem0
from local2.web.openapi import (
    BROWSE_LISTS,
    DOCUMENT_PATH,
    EVENTS_PATH,
    MEMORIES_PATH,
    PREFIX,
    SERVICES_PATH,
    TOOLS_PATH,
    document,
)
from local2.web.repeats import Repeats

if TYPE_CHECKING:
    from local2.web.pages.links import PageLinks

NAME = "http"
TOKEN_FILE = "http-token"  # noqa: S105 - a file name
WHERE_CONFIGURED = "LOCAL2_HTTP__TOKEN or config/http.yaml"
OF_CALLER = "the caller's own token (`local2 tenants token`)"
MAX_STREAMS = 100
"""Maximum number of clients that listen to events."""
EXAMPLE = 'Send a JSON object with the arguments, such as {"query": "…"}.'
DECLARED_SERVICES = {
    service.subject: msgspec.structs.replace(service, request=Raw, answer=Raw)
    for service in SERVICES
}
"""The services by their subjects; their requests and answers are passed on as they are."""

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")
log = get_logger()
_objects = msgspec.json.Decoder(dict[str, Raw])


class HttpAddress(NamedTuple):
    """The address of the server, which token clients send, and the link that opens the page."""

    url: str
    token: str
    page: str | None = None


async def serve(
    settings: Settings,
    on_ready: Callable[[HttpAddress], None],
    *,
    with_pages: bool = False,
    page_links: "PageLinks | None" = None,
) -> None:
    """Serve until interrupted; call `on_ready` once clients can connect.

    `page_links`: those of the page, if the first link was made elsewhere.

    Raises:
        ConfigError: The port is taken, there are accounts but no credentials of an agent, or what
            the pages need is not installed.
        UnwritableError: The token, or what makes links, cannot be stored.
    """
    serves_accounts = settings.bus.credentials is not None
    tenant = settings.bus.tenant
    if not serves_accounts and (tenant is not None or has_accounts(settings.bus)):
        raise ConfigError(
            "With accounts, the server needs an agent of its own: as the commands' agent, every "
            "token without a role would have all rights.",
            remedy=f"Add one with `local2 tenants add {tenant or 'NAME'} --agent http --role "
            "writer`, and name its file in LOCAL2_BUS__CREDENTIALS.",
        )
    token, token_is_in = settings.http.token, f"the token in {WHERE_CONFIGURED}"
    if serves_accounts:
        token, token_is_in = None, OF_CALLER
    elif not token:
        file = settings.memory.data_dir / TOKEN_FILE
        token, token_is_in = loopback.load_or_create_token(file), f"the token in {file}"
    user = None if serves_accounts else user_name(settings.http.user)
    with listen(settings) as listener:  # connections queue until they are served
        url = loopback.url_of(listener)
        async with StackTools(settings, name=NAME, user=user) as link:
            gate = Gate(token=token, token_is_in=token_is_in, user=user)
            server = HttpServer(link, gate, settings, url)
            app, page = server.app(), None
            if with_pages:
                with with_extra():  # only here, since NiceGUI takes a second and 40 MB
                    from local2.web.pages.links import PageLinks, store_links  # noqa: PLC0415
                    from local2.web.pages.signing_in import SignIn  # noqa: PLC0415
                    from local2.web.pages.site import pages_app  # noqa: PLC0415
                secret = token or secrets.token_urlsafe(32)
                links = page_links or PageLinks.for_server(url, has_accounts=serves_accounts)
                store_links(settings.memory.data_dir, links)
                sign_in = SignIn(links, secret=secret, user=user, verify=server.verify)
                page = links.make_link()
                app = _WithPages(app, pages_app(link, settings, sign_in))
            async with running_task(server.follow_erasures(), "erasures"):
                on_ready(HttpAddress(url, token_is_in, page))
                await loopback.serve(listener, app, _refuse, with_sockets=with_pages)


def listen(settings: Settings) -> socket.socket:
    """Listen on the port of the settings, for HTTP and the page.

    Raises:
        ConfigError: The port is taken.
    """
    hint = "`local2 web` also serves all that `local2 serve` does: one of them is enough."
    return loopback.listen(settings.http.port, "LOCAL2_HTTP__PORT", hint)


@contextmanager
def with_extra() -> Iterator[None]:
    """Import what the pages need; if it is not installed, the error says how to install it."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise ConfigError(
            "The page needs NiceGUI, which is not installed.", remedy=extra_to_install("web")
        ) from error


class HttpServer:
    """Answers requests, each as its own caller."""

    def __init__(self, link: StackTools, gate: Gate, settings: Settings, url: str) -> None:
        self._link = link
        self._gate = gate
        self._timeout = settings.http.timeout
        self._max_bytes = settings.limits.request_bytes
        self._url = url
        self._repeats = Repeats()
        self._streams = 0

    def app(self) -> ASGIApp:
        routes = [
            _route("POST", f"{TOOLS_PATH}/{{tool}}", self._answered(self._call_tool)),
            _route("POST", f"{SERVICES_PATH}/{{service}}", self._answered(self._ask_service)),
            _route("GET", MEMORIES_PATH, self._answered(self._list_memories)),
            _route("GET", f"{MEMORIES_PATH}/{{id}}", self._answered(self._read_memory)),
            _route("PATCH", f"{MEMORIES_PATH}/{{id}}", self._answered(self._edit_memory)),
            _route("DELETE", f"{MEMORIES_PATH}/{{id}}", self._answered(self._erase_memory)),
            _route("GET", EVENTS_PATH, self._answered(self._stream_events)),
            _route("GET", DOCUMENT_PATH, self._answered(self._describe)),
            *(_route(r.method, r.path, self._answered(r.handle)) for r in Mem0(self).routes()),
        ]
        app = Starlette(routes=routes, exception_handlers={HTTPException: _refuse_path})
        app.router.redirect_slashes = False
        return _WithCaller(app, self._gate)

    async def follow_erasures(self) -> None:
        """Drop kept answers whenever something is erased, as every participant of the bus does."""

        async def forget(_: BusMessage) -> None:
            self._repeats.forget()

        while True:
            with suppress(Local2Error):
                bus = (await self._link.reached()).bus
                subscription = await bus.subscribe(subjects.MEMORY_FORGOTTEN, forget)
                try:
                    await bus.lost.wait()
                finally:
                    await subscription.leave(0)
                self._repeats.forget()  # what happened meanwhile is not known
            await asyncio.sleep(RETRY_DELAY)

    def _answered(
        self, handle: Callable[[Request, Sender], Awaitable[HttpAnswer | EventStream]]
    ) -> Callable[[Request], Awaitable[ASGIApp]]:
        """Turn answers and errors into responses; a client that is gone ends its request."""

        async def respond(request: Request) -> ASGIApp:
            try:
                answer = await handle(request, request.scope["caller"])
            except Local2Error as error:
                answer = HttpAnswer.for_error(error)
            except HTTPException:  # `_refuse_path` answers it
                raise
            except ClientDisconnect:
                answer = HttpAnswer(HTTPStatus.BAD_REQUEST, b"")  # nobody reads it
            except Exception:
                log.exception("request_failed")
                answer = HttpAnswer.for_error(Local2Error("The server failed; its log says where."))
            return answer.response() if isinstance(answer, HttpAnswer) else answer

        return respond

    async def _call_tool(self, request: Request, caller: Sender) -> HttpAnswer:
        tool = checked_tool_name(request.path_params["tool"])
        body = await self.read_body(request)
        arguments = _read_object(body)

        async def call() -> HttpAnswer:
            result = await self._result(tool, arguments, caller)
            if result.error is not None:
                return HttpAnswer.for_problem(result.error)
            if not result.ok:
                return HttpAnswer.for_problem(
                    ErrorReply(code="tool_failed", message=result.content)
                )
            return HttpAnswer.with_value(msgspec.convert(result, ToolAnswer, from_attributes=True))

        return await self._once(request, caller, body, call)

    async def _ask_service(self, request: Request, caller: Sender) -> HttpAnswer:
        subject = request.path_params["service"]
        if subject not in DECLARED_SERVICES:
            raise HTTPException(HTTPStatus.NOT_FOUND)
        declared = DECLARED_SERVICES[subject]
        body = await self.read_body(request)
        payload = Raw(msgspec.json.encode(_read_object(body)))

        async def ask() -> HttpAnswer:
            if declared.for_operator and self._gate.has_accounts:
                raise ForbiddenError(
                    f"{subject} concerns every tenant.",
                    remedy="Use the command on the stack's machine.",
                )
            if not declared.action:
                await self.verify(caller)  # the stack answers it without a token
            try:
                return HttpAnswer(
                    HTTPStatus.OK, bytes(await self.ask_service(declared, payload, caller))
                )
            except NoRespondersError as error:
                raise BusError(
                    f"Nobody serves {subject} at the moment.", remedy="Ask again in a few seconds."
                ) from error

        return await self._once(request, caller, body, ask)

    async def _list_memories(self, request: Request, caller: Sender) -> HttpAnswer:
        named = request.query_params
        wanted = {
            name: named.getlist(name) if name in BROWSE_LISTS else named[name] for name in named
        }
        try:
            page = msgspec.convert(wanted, BROWSE.request, strict=False)
        except msgspec.ValidationError as error:
            raise BadRequestError(
                f"{with_own_names(abridged(error))}.",
                remedy=f"`GET {DOCUMENT_PATH}` lists the parameters.",
            ) from error
        return HttpAnswer.with_value(await self.ask_service(BROWSE, page, caller))

    async def _read_memory(self, request: Request, caller: Sender) -> HttpAnswer:
        return HttpAnswer.with_value(await self._version(request, caller))

    async def _edit_memory(self, request: Request, caller: Sender) -> HttpAnswer:
        body = await self.read_body(request)
        arguments = _read_object(body)
        if "id" in arguments:
            raise InvalidArgumentsError("id: the path names the memory.", remedy="Leave it out.")

        async def edit() -> HttpAnswer:
            id_ = (await self._version(request, caller)).id
            result = await self._result(EDIT_MEMORY.name, {**arguments, "id": id_}, caller)
            if result.error is not None:
                return HttpAnswer.for_problem(result.error)
            return HttpAnswer.with_value(result.data)

        return await self._once(request, caller, body, edit)

    async def _version(self, request: Request, caller: Sender) -> Version:
        """The version of a memory whose id the path names.

        Raises:
            NotFoundError: The caller has none with this id.
        """
        wanted = request.path_params["id"]
        history = MemoryHistory(topic_or_id=wanted)
        for version in (await self.ask_tool(MEMORY_HISTORY, history, caller)).versions:
            if version.id == wanted:
                return version
        raise NotFoundError

    async def _erase_memory(self, request: Request, caller: Sender) -> HttpAnswer:
        async def erase() -> HttpAnswer:
            result = await self._result(FORGET.name, {"id": request.path_params["id"]}, caller)
            if result.error is None:
                return HttpAnswer.with_value(result.data)
            if result.error.code == InvalidArgumentsError.code:  # the id is all that was given
                return HttpAnswer.for_error(NotFoundError())
            return HttpAnswer.for_problem(result.error)

        return await self._once(request, caller, b"", erase)

    async def _stream_events(self, _: Request, caller: Sender) -> EventStream:
        await self.verify(caller)
        stack = await self._reached()
        # Nothing is awaited between this and the count: clients that come together are counted.
        if self._streams >= MAX_STREAMS:
            raise OverloadedError("Too many clients listen to events.", retry_after=30.0)

        def end() -> None:
            self._streams -= 1

        self._streams += 1
        return EventStream(
            stack.bus,
            until=claims_of(caller.token).exp if caller.token else math.inf,
            only_changes=self._gate.has_accounts,
            on_end=end,
        )

    async def _describe(self, _: Request, caller: Sender) -> HttpAnswer:
        await self.verify(caller)
        return HttpAnswer.with_value(document(await self._link.schemas(), self._url))

    async def _result(self, tool: str, arguments: dict[str, Any], caller: Sender) -> ToolResult:
        """Call a tool; its own errors are in the result.

        Raises:
            UnknownToolError: Nobody on the bus has a tool of this name.
            Local2Error: The tool could not be reached.
        """
        seconds = max(ERASURE_TIMEOUT, self._timeout) if tool == FORGET.name else self._timeout
        try:
            return await self._on_bus(
                lambda bus: ask_tool(bus, tool, arguments, caller=caller, timeout=seconds)
            )
        except UnknownToolError as error:
            known = {schema.name for schema in (await self._reached()).tools.schemas}
            if tool not in known | TOOL_NAMES:
                raise UnknownToolError(
                    f"No tool {quoted(tool)} is on the bus.",
                    remedy=f"`GET {DOCUMENT_PATH}` lists them.",
                ) from error
            raise BusError(
                f"Nobody serves the tool {quoted(tool)} at the moment.",
                remedy="Ask again in a few seconds.",
            ) from error

    async def ask_tool(self, tool: MemoryTool[A, D], arguments: A, caller: Sender) -> D:
        """Call one of the memory's tools.

        Raises:
            Local2Error: It failed or could not be reached; the error code decides the class.
        """
        result = await self._result(tool.name, arguments.given(), caller)
        if result.error is not None:
            raise result.error.to_error()
        return msgspec.convert(result.data, tool.answer)

    async def ask_service(
        self, service: ServiceDeclaration[P, S], payload: P | Empty, caller: Sender
    ) -> S:
        """Ask one of the memory's services; raises what the function in `client` raises."""
        return await self._on_bus(
            lambda bus: ask_service(bus, service, payload, caller, timeout=self._timeout)
        )

    async def verify(self, caller: Sender) -> None:
        """Let the stack verify the caller's token, where it would answer without one.

        Raises:
            ForbiddenError: It is not valid.
        """
        if caller.token is not None:
            await self.ask_service(STATUS, Empty(), caller)

    async def _reached(self) -> ReachedStack:
        """The stack. That it refuses this server is no fault of a request."""
        try:
            return await self._link.reached()
        except RequestError as error:
            raise BusError(f"The stack cannot be reached: {error}") from error

    async def _on_bus(self, work: Callable[[Connection], Coroutine[Any, Any, T]]) -> T:
        await self._reached()
        return await self._link.run(lambda stack: work(stack.bus))

    async def _once(
        self,
        request: Request,
        caller: Sender,
        body: bytes,
        work: Callable[[], Coroutine[Any, Any, HttpAnswer]],
    ) -> HttpAnswer:
        """Do the work once for each `Idempotency-Key`; without one, end it with its client."""

        async def answer() -> HttpAnswer:
            try:
                return await work()
            except Local2Error as error:
                return HttpAnswer.for_error(error)

        keys = request.headers.getlist("idempotency-key")
        if not keys:
            return await await_unless(until_gone(request.receive), answer(), ClientDisconnect)
        if len(keys) > 1:
            raise BadRequestError("Idempotency-Key: expected one.", remedy="Send it once.")
        with json_errors(EXAMPLE):
            asked: Any = read_json(body) if body.strip() else {}
        # Whoever builds the request anew may write its fields in another order.
        identity = request.method, request.url.path, caller.agent, caller.session_id, asked
        written = msgspec.json.encode(identity, order="sorted")
        fingerprint = hashlib.blake2b(written, digest_size=16).digest()
        is_receipt = request.method == "DELETE" or request.path_params.get("tool") == FORGET.name
        return await self._repeats.answer(
            (caller.token, caller.user), keys[0], fingerprint, answer, is_receipt=is_receipt
        )

    async def read_body(self, request: Request) -> bytes:
        """Read the body of a request.

        Raises:
            TooLargeError: It is larger than any message of the bus may be.
            BadRequestError: It is not declared to be JSON.
        """
        parts, size = [], 0
        async for part in request.stream():
            size += len(part)
            if size > self._max_bytes:
                raise TooLargeError(
                    f"The body has more than {self._max_bytes:,} bytes.", remedy="Send it in parts."
                )
            parts.append(part)
        declared = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if size and declared != JSON:
            raise HTTPException(HTTPStatus.UNSUPPORTED_MEDIA_TYPE)
        return b"".join(parts)


class ToolAnswer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """The result of a tool that succeeded."""

    content: str
    data: Any = None
    tool_output_key: str | None = None
    total_chars: int | None = None


class _WithPages:
    """Serves HTTP beside the pages for people; they check their requests themselves."""

    def __init__(self, http: ASGIApp, pages: ASGIApp) -> None:
        self._http = http
        self._pages = pages

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_http = scope["type"] == "http" and scope["path"].startswith((PREFIX, f"{MEM0_PATH}/"))
        await (self._http if is_http else self._pages)(scope, receive, send)


class _WithCaller:
    """Lets only callers with a token reach the app, before anything else is looked at."""

    def __init__(self, app: ASGIApp, gate: Gate) -> None:
        self._app = app
        self._gate = gate

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        try:
            scope["caller"] = self._gate.caller_of(Headers(scope=scope))
        except (UnauthorizedError, BadRequestError) as error:
            await HttpAnswer.for_error(error).response()(scope, receive, send)
        else:
            await self._app(scope, receive, send)


def _read_object(body: bytes) -> dict[str, Raw]:
    """The fields of a JSON object; no body is an empty one.

    Raises:
        BadRequestError: It is not a JSON object.
    """
    if not body.strip():
        return {}
    with json_errors(EXAMPLE):
        body.decode()  # the fields stay as they are, so that nothing else reads their characters
        try:
            return read_json(body, _objects.decode)
        except msgspec.ValidationError as error:
            raise BadRequestError("The body is not a JSON object.", remedy=EXAMPLE) from error


def _refuse(problem: str, status: HTTPStatus) -> ASGIApp:
    code = ForbiddenError.code if status == HTTPStatus.FORBIDDEN else BadRequestError.code
    return HttpAnswer.for_problem(ErrorReply(code=code, message=problem), status).response()


async def _refuse_path(request: Request, error: Exception) -> Response:
    """Answer what is no operation: an unknown path, another method, a body that is not JSON."""
    assert isinstance(error, HTTPException)  # noqa: S101 - it is registered for these
    status = HTTPStatus(error.status_code)
    problem = f"{request.method} {quoted(request.url.path)}: {status.phrase.lower()}."
    remedy = (
        f"Send it with `Content-Type: {JSON}`."
        if status == HTTPStatus.UNSUPPORTED_MEDIA_TYPE
        else f"`GET {DOCUMENT_PATH}` lists what is served."
    )
    message = ErrorReply(code=BadRequestError.code, message=f"{problem} {remedy}")
    headers = error.headers
    if status == HTTPStatus.METHOD_NOT_ALLOWED:  # each route of a path names its own method only
        allowed = (
            method
            for route in request.app.routes
            if route.matches(request.scope)[0] is not Match.NONE
            for method in route.methods
        )
        headers = {"Allow": ", ".join(sorted(allowed))}
    return HttpAnswer.for_problem(message, status, headers).response()


def _route(method: str, path: str, endpoint: Callable[[Request], Awaitable[ASGIApp]]) -> Route:
    route = Route(path, endpoint, methods=[method])
    route.methods = {method}  # not HEAD: nobody would read an event
    return route
