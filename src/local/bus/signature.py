"""Signatures of messages on inner subjects: only the stack's own processes know the secret.

The secret itself does not travel: whoever subscribes to everything would read it.
"""

import hmac
import secrets

from local.bus.subscription import Headers, Message

HEADER = "Local2-Signature"


def new_secret() -> str:
    """A secret for the processes of one stack, from its start to its end."""
    return secrets.token_hex(32)


def signed(secret: str, subject: str, data: bytes) -> Headers:
    """The headers of a message on an inner subject."""
    return {HEADER: _digest(secret, subject, data)}


def is_genuine(secret: str, message: Message) -> bool:
    """Whether a process that knows the secret has sent the message."""
    claimed = (message.headers or {}).get(HEADER, "")
    expected = _digest(secret, message.subject, message.data)
    return hmac.compare_digest(claimed.encode(), expected.encode())


def _digest(secret: str, subject: str, data: bytes) -> str:
    return hmac.new(secret.encode(), subject.encode() + b"\n" + data, "sha256").hexdigest()
