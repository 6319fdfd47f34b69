"""Who calls: the token of a request, and the user, agent and session that it names."""

import base64
import hmac
import time
from urllib.parse import unquote

import msgspec
from starlette.datastructures import Headers

from local2.errors import BadRequestError
from local2.protocol.envelope import Sender
from local2.tenants.tokens import LEEWAY
from local2.web.answers import UnauthorizedError

AGENT = "http"
"""The agent of requests that name none."""
USER_HEADER, AGENT_HEADER, SESSION_HEADER = "Local2-User", "Local2-Agent", "Local2-Session"
SCHEMES = {"bearer", "token"}
"""How a token may be announced; mem0's client says `Token`."""


class Claims(msgspec.Struct, frozen=True, kw_only=True):
    """What is read of a person's token before the stack verifies it.

    `exp`: when it expires, in seconds since 1970. `sub`: the person.
    """

    exp: float
    sub: str = ""


class Gate:
    """Lets requests in that carry a token.

    `token`: the one that all clients send; None on a stack with accounts, where each request
    carries its caller's own one, which the stack verifies. `token_is_in`: where to find it.
    """

    def __init__(self, *, token: str | None, token_is_in: str, user: str | None) -> None:
        self.has_accounts = token is None
        self._token = token
        self._hint = f"Send `Authorization: Bearer TOKEN`, with {token_is_in}."
        self._user = user

    def caller_of(self, headers: Headers) -> Sender:
        """Who sent a request with these headers.

        Raises:
            UnauthorizedError: It has no token, another one than expected, or one that has expired.
            BadRequestError: A name is not percent-encoded.
        """
        sent = headers.getlist("authorization")
        scheme, _, presented = sent[0].partition(" ") if len(sent) == 1 else ("", "", "")
        presented = presented.strip()
        if scheme.lower() not in SCHEMES or not presented:
            raise UnauthorizedError("The request has no token.", remedy=self._hint)
        if self._token is None:
            if claims_of(presented).exp + LEEWAY < time.time():
                raise UnauthorizedError("The token has expired.", remedy=self._hint)
        elif not hmac.compare_digest(presented.encode(), self._token.encode()):
            raise UnauthorizedError("The token is another one.", remedy=self._hint)
        return Sender(
            user=None if self.has_accounts else _named(headers, USER_HEADER) or self._user,
            agent=_named(headers, AGENT_HEADER) or AGENT,
            session_id=_named(headers, SESSION_HEADER),
            token=presented if self.has_accounts else None,
        )


def claims_of(token: str) -> Claims:
    """What a person's token claims; only the stack can say if it is valid.

    Raises:
        UnauthorizedError: It is not a JWT that expires.
    """
    try:
        _, claims, _ = token.split(".")
        padded = claims + "=" * (-len(claims) % 4)
        return msgspec.json.decode(base64.urlsafe_b64decode(padded), type=Claims)
    except (ValueError, msgspec.DecodeError, RecursionError) as error:
        raise UnauthorizedError(
            "The token is not a JWT that expires.", remedy="`local2 tenants token` makes one."
        ) from error


def _named(headers: Headers, header: str) -> str | None:
    """A name in a header, where characters outside of ASCII are percent-encoded.

    Raises:
        BadRequestError: They are not: two names could be taken for one.
    """
    written = headers.get(header, "")
    try:
        written.encode("ascii")
        return unquote(written, errors="strict").strip() or None
    except UnicodeError as error:
        raise BadRequestError(
            f"{header}: expected a name in ASCII, with other characters percent-encoded in UTF-8.",
            remedy="Write `J%C3%BCrgen` for Jürgen.",
        ) from error
