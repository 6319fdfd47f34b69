"""Determine who sent a message, and whether it comes from the stack itself.

On a server with accounts, the server and a signed token determine the caller (`attested.py`);
claims in envelopes are ignored. Without accounts, there are only these claims. Messages on inner
subjects are signed with a secret that only the stack's own processes know. The secret itself is
never sent, because anybody who subscribes to all subjects could read it.
"""

import hmac
import secrets
from contextlib import suppress
from datetime import datetime
from typing import Any, Protocol

import msgspec

from local2.bus.receiving import BusMessage, Headers
from local2.errors import ForbiddenError
from local2.home import user_name
from local2.protocol.envelope import DEFAULT_TENANT, Caller, Envelope

AUTHORIZATION = "Authorization"
BEARER = "Bearer "
REQUEST_INFO = "Nats-Request-Info"
"""The server sets this header, and replaces a client's header with exactly this name."""
SIGNATURE = "Local2-Signature"


class Identity(Protocol):
    """Determines who sent a message."""

    def caller_of(
        self, message: BusMessage, envelope: Envelope[Any], at: datetime | None = None
    ) -> Caller:
        """Determine the sender of a message that was sent `at` some time, by default now.

        Raises:
            ForbiddenError: The server or the token does not confirm a sender.
        """
        ...


class Claimed:
    """Trusts the claims in envelopes, on a server without accounts, which has one tenant."""

    def __init__(self) -> None:
        self._runs_stack = user_name(None)

    def caller_of(
        self,
        message: BusMessage,  # noqa: ARG002 - it does not name its sender
        envelope: Envelope[Any],
        at: datetime | None = None,  # noqa: ARG002
    ) -> Caller:
        return Caller(
            tenant=DEFAULT_TENANT,
            user=envelope.user,
            agent=envelope.source or None,
            session_id=envelope.session_id,
            query_id=envelope.query_id,
            has_unnamed=envelope.user == self._runs_stack,
        )


class ClaimedSource(msgspec.Struct, frozen=True):
    """The claimed sender of any message."""

    source: str = ""


class RequestInfo(msgspec.Struct, frozen=True, kw_only=True):
    """The content of the header REQUEST_INFO: the nkey of the sender."""

    user: str | None = None


def user_of(
    identity: Identity, message: BusMessage, claimed: str | None, at: datetime | None = None
) -> str | None:
    """The user who sent a message; if that cannot be determined, the claimed user."""
    try:
        return identity.caller_of(message, Envelope(payload=None, user=claimed), at).user
    except ForbiddenError:
        return claimed


def announcer_of(message: BusMessage) -> str:
    """Who announced a tool: the key that the server states, or else the claimed source."""
    if (info := (message.headers or {}).get(REQUEST_INFO)) is not None:
        with suppress(msgspec.MsgspecError):  # without accounts, anybody may have written it
            return msgspec.json.decode(info, type=RequestInfo).user or ""
    with suppress(msgspec.MsgspecError, RecursionError):
        return msgspec.json.decode(message.data, type=ClaimedSource).source
    return ""


def token_of(message: BusMessage) -> str | None:
    """Read the token of the person for whom a message was sent; None if it carries none.

    Raises:
        ForbiddenError: The header does not contain a token.
    """
    if (header := (message.headers or {}).get(AUTHORIZATION)) is None:
        return None
    if not header.startswith(BEARER):
        raise ForbiddenError(
            f"The header {AUTHORIZATION} has no token.", remedy=f"Send `{BEARER}<token>`."
        )
    return header.removeprefix(BEARER).strip()


def bearer(token: str | None) -> Headers | None:
    """The headers that carry a token, as HTTP does."""
    return {AUTHORIZATION: f"{BEARER}{token}"} if token else None


def new_secret() -> str:
    """Make a secret for the processes of one stack, valid until it stops."""
    return secrets.token_hex(32)


def signed(secret: str, subject: str, data: bytes) -> Headers:
    """Sign a message on an inner subject, in its headers."""
    return {SIGNATURE: _digest(secret, subject, data)}


def is_genuine(secret: str, message: BusMessage) -> bool:
    """Whether the sender of the message knows the secret."""
    claimed = (message.headers or {}).get(SIGNATURE)
    if claimed is None:
        return False
    expected = _digest(secret, message.subject, message.data)
    return hmac.compare_digest(claimed.encode(), expected.encode())


def _digest(secret: str, subject: str, data: bytes) -> str:
    return hmac.new(secret.encode(), subject.encode() + b"\n" + data, "sha256").hexdigest()
