"""Who is calling, and whether a message comes from the stack itself.

A caller is read from the transport and the envelope, never from arguments or payload. Messages on
inner subjects are signed with a secret that only the stack's own processes know. The secret does
not travel: whoever subscribes to everything would read it.
"""

import hmac
import secrets
from typing import Any

from local.bus.subscription import BusMessage, Headers
from local.protocol.envelope import DEFAULT_TENANT, Caller, Envelope

SIGNATURE = "Local2-Signature"


def caller_of(envelope: Envelope[Any]) -> Caller:
    """The caller of a request. A server without accounts has one tenant, `default`."""
    return Caller(
        tenant=DEFAULT_TENANT,
        user=envelope.user,
        agent=envelope.source or None,
        session_id=envelope.session_id,
        query_id=envelope.query_id,
    )


def new_secret() -> str:
    """A secret for the processes of one stack, valid until it stops."""
    return secrets.token_hex(32)


def signed(secret: str, subject: str, data: bytes) -> Headers:
    """The headers of a message on an inner subject."""
    return {SIGNATURE: _digest(secret, subject, data)}


def is_genuine(secret: str, message: BusMessage) -> bool:
    """Whether the sender of the message knows the secret."""
    claimed = (message.headers or {}).get(SIGNATURE, "")
    expected = _digest(secret, message.subject, message.data)
    return hmac.compare_digest(claimed.encode(), expected.encode())


def _digest(secret: str, subject: str, data: bytes) -> str:
    return hmac.new(secret.encode(), subject.encode() + b"\n" + data, "sha256").hexdigest()
