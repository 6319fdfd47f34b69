"""Who may see the page: a link that works once, or a person's own token, becomes a cookie.

Every request, also of a socket, must name this very server as its host and as its origin. Another
program on this machine has another port, and therefore another origin, but browsers send it the
same cookies: this is why `SameSite` alone is not enough.
"""

import secrets
import time
from collections.abc import Awaitable, Callable
from html import escape
from http import HTTPStatus
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from local2.errors import Local2Error
from local2.protocol.envelope import Sender
from local2.web.answers import UnauthorizedError
from local2.web.callers import claims_of
from local2.web.pages.links import SIGN_IN_PATH, PageLinks

AGENT = "page"
"""The agent of everything that is done on the page."""
SIGN_OUT_PATH, ASSETS_PATH = "/sign-out", "/assets"
EXPIRED = "expired"
EXPIRED_PATH = f"{SIGN_IN_PATH}?{EXPIRED}"
"""Where pages lead whose viewer's token has expired."""
SESSION_SECONDS = 30 * 86_400
"""Seconds after which a link is needed again. A token ends its session when it expires."""
MAX_FORM = 16_000
"""Maximum bytes of the form with a token."""
MAX_UPLOAD = 500_000_000
"""Maximum bytes of what a request sends, a file and what surrounds it."""
NONCE_PLACE = b"<script"
FORWARDED = b"x-forwarded-"

Verify = Callable[[Sender], Awaitable[None]]
"""Raises Local2Error if the token of a caller is not valid."""

PLAIN = (Path(__file__).parent / "assets" / "plain.html").read_text(encoding="utf-8")
LINK_HINT = """
<p class="quiet">Open a link that <code>local2 web --link</code> prints. Each works once, within an
hour.</p>
"""
TOKEN_FORM = f"""
<form method="post" action="{SIGN_IN_PATH}">
  <label for="token">Your token</label>
  <input id="token" name="token" type="password" autocomplete="off" required autofocus />
  <button>Sign in</button>
</form>
<p class="quiet">The operator makes one with <code>local2 tenants token</code>.</p>
"""


def plain_page(content: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
    """A page without the frame; `content` is HTML."""
    return HTMLResponse(PLAIN.replace("{content}", content), status)


class SignIn:
    """Takes links or tokens for cookies, at one server.

    `secret`: signs the cookies, which are valid until it changes. `user`: who looks at the page;
    None on a stack with accounts, where each person signs in with a token that `verify` lets the
    stack check.
    """

    def __init__(self, links: PageLinks, *, secret: str, user: str | None, verify: Verify) -> None:
        address = urlsplit(links.url)
        self._links = links
        self._used: set[str] = set()
        self._hosts = {address.netloc, f"localhost:{address.port}"}
        self._user = user
        self._has_accounts = user is None
        self._verify = verify
        self._cookie = f"local2_{address.port}"  # cookies are the same for all ports
        self._cookies = URLSafeTimedSerializer(secret, salt="local2.page")

    def is_own_request(self, scope: Scope) -> bool:
        """Whether a request names this server, and does not come from another page or program."""
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        origins = headers.getlist("origin")
        is_socket = scope["type"] == "websocket"
        must_name_origin = is_socket or scope["method"] not in {"GET", "HEAD"}
        from_elsewhere = headers.get("sec-fetch-site", "none") not in {"same-origin", "none"}
        opens_page = headers.get("sec-fetch-mode") == "navigate"
        return (
            host in self._hosts
            and all(origin == f"http://{host}" for origin in origins)
            and (len(origins) == 1 or not must_name_origin)
            and (opens_page or not from_elsewhere)
        )

    def caller_of(self, scope: Scope) -> Sender | None:
        """Who has signed in, by the cookie of a request; None for nobody."""
        value = Request({**scope, "type": "http"}).cookies.get(self._cookie, "")
        try:
            token: str = self._cookies.loads(value, max_age=SESSION_SECONDS)
            if not self._has_accounts:
                return Sender(agent=AGENT, user=self._user)
            claims = claims_of(token)
        except (BadSignature, UnauthorizedError):
            return None
        if claims.exp < time.time():
            return None
        return Sender(agent=AGENT, user=claims.sub, token=token)

    async def sign_in(self, request: Request) -> Response:
        """Take a key or a token for a cookie, or ask for one."""
        if self._has_accounts and request.method == "POST":
            return await self._take_token(request)
        key = request.query_params.get("key")
        if key is None or self._has_accounts:
            has_expired = EXPIRED in request.query_params
            return self._ask("Your token has expired: sign in again." if has_expired else "")
        number = self._links.number_of(key)
        if number is None or number in self._used:
            if self.caller_of(request.scope) is not None:
                return RedirectResponse("/", HTTPStatus.SEE_OTHER)
            return self._ask("This link was used before, or has expired.", HTTPStatus.FORBIDDEN)
        self._used.add(number)
        return self._enter("", SESSION_SECONDS)

    async def _take_token(self, request: Request) -> Response:
        body = b""
        async for part in request.stream():
            body += part
            if len(body) > MAX_FORM:
                return self._ask("This is no token.", HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
        token = parse_qs(body.decode("utf-8", "replace")).get("token", [""])[0].strip()
        try:
            seconds = claims_of(token).exp - time.time()
            if seconds <= 0:
                return self._ask("The token has expired.", HTTPStatus.FORBIDDEN)
            await self._verify(Sender(agent=AGENT, token=token))
        except Local2Error as error:
            return self._ask(str(error), HTTPStatus.FORBIDDEN)
        return self._enter(token, int(seconds))

    def _enter(self, token: str, seconds: int) -> Response:
        # A page and not a redirect: browsers send a strict cookie only if this site led there.
        response = HTMLResponse('<meta http-equiv="refresh" content="0;url=/">Signed in.')
        response.set_cookie(
            self._cookie,
            self._cookies.dumps(token),
            max_age=seconds,
            httponly=True,
            samesite="strict",
        )
        return response

    def _ask(self, problem: str, status: HTTPStatus = HTTPStatus.OK) -> Response:
        alert = f'<p role="alert">{escape(problem)}</p>' if problem else ""
        return plain_page(alert + (TOKEN_FORM if self._has_accounts else LINK_HINT), status)

    def sign_out(self, _: Request) -> Response:
        response = RedirectResponse(SIGN_IN_PATH, HTTPStatus.SEE_OTHER)
        response.delete_cookie(self._cookie, httponly=True, samesite="strict")
        return response


class Door:
    """Lets only those reach the page who have signed in, and limits what its answers may do."""

    def __init__(self, app: ASGIApp, sign_in: SignIn) -> None:
        self._app = app
        self._sign_in = sign_in

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        protected = _Protected(headers.get("host", ""), send)
        if not self._sign_in.is_own_request(scope):
            await _refuse(scope, receive, protected.send, HTTPStatus.FORBIDDEN)
            return
        caller = self._sign_in.caller_of(scope)
        # Without a cookie, one can only sign in, and see how that looks.
        is_open = scope["path"] == SIGN_IN_PATH or scope["path"].startswith(f"{ASSETS_PATH}/")
        if caller is None and not is_open:
            opens_page = "text/html" in headers.get("accept", "")
            if scope["type"] == "http" and scope["method"] == "GET" and opens_page:
                redirect = RedirectResponse(SIGN_IN_PATH, HTTPStatus.SEE_OTHER)
                await redirect(scope, receive, protected.send)
            else:
                await _refuse(scope, receive, protected.send, HTTPStatus.UNAUTHORIZED)
            return
        # Browsers say how long their body is, and the server counts.
        if "transfer-encoding" in headers:
            await _refuse(scope, receive, protected.send, HTTPStatus.LENGTH_REQUIRED)
            return
        if int(headers.get("content-length", "0")) > MAX_UPLOAD:
            await _refuse(scope, receive, protected.send, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            return
        # NiceGUI would build addresses from headers of a proxy, and there is none.
        kept = [named for named in scope["headers"] if not named[0].startswith(FORWARDED)]
        inner = {**scope, "headers": kept, "caller": caller}
        await self._app(inner, receive, protected.send)


async def _refuse(scope: Scope, receive: Receive, send: Send, status: HTTPStatus) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
        return
    await PlainTextResponse(f"{status.phrase}.", status)(scope, receive, send)


class _Protected:
    """Sends an answer with the headers that protect its reader.

    Scripts in the page itself run if they carry the nonce, which NiceGUI does not know: it is
    written into its pages here. Texts of memories cannot hold the place where it is written, since
    NiceGUI escapes every `<` in them.
    """

    def __init__(self, host: str, send: Send) -> None:
        self._send = send
        self._nonce = secrets.token_urlsafe(16)
        self._host = host
        self._start: Message | None = None
        self._page = b""

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = MutableHeaders(raw=message["headers"])
            self._protect(headers)
            if headers.get("content-type", "").startswith("text/html"):
                self._start = message
                return
        elif message["type"] == "http.response.body" and self._start is not None:
            self._page += message.get("body", b"")
            if message.get("more_body"):
                return
            nonce = b' nonce="%s"' % self._nonce.encode()
            page = self._page.replace(NONCE_PLACE, NONCE_PLACE + nonce)
            MutableHeaders(raw=self._start["headers"])["content-length"] = str(len(page))
            await self._send(self._start)
            message = {"type": "http.response.body", "body": page}
        await self._send(message)

    def _protect(self, headers: MutableHeaders) -> None:
        allowed = {
            "default-src": "'none'",
            # Vue compiles templates in the browser, which needs eval; scripts in texts do not run.
            "script-src": f"'self' 'nonce-{self._nonce}' 'unsafe-eval'",
            # Vue and Quasar place elements with style attributes.
            "style-src": "'self' 'unsafe-inline'",
            "img-src": "'self' data:",
            "font-src": "'self'",
            "connect-src": f"'self' ws://{self._host}",
            "form-action": "'self'",
            "base-uri": "'none'",
            "frame-ancestors": "'none'",
        }
        policy = "; ".join(f"{what} {sources}" for what, sources in allowed.items())
        headers["Content-Security-Policy"] = policy
        headers["X-Frame-Options"] = "DENY"
        headers["X-Content-Type-Options"] = "nosniff"
        headers["Referrer-Policy"] = "same-origin"  # without one, forms would name no origin
        headers["Cross-Origin-Opener-Policy"] = "same-origin"
        headers["Cross-Origin-Resource-Policy"] = "same-origin"
        headers["Permissions-Policy"] = "camera=(), geolocation=(), microphone=()"
        if "cache-control" not in headers:
            headers["Cache-Control"] = "no-store"
