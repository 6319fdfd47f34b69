"""Who is calling: read from the transport and the envelope, never from arguments or payload."""

from typing import Any

from local.protocol.caller import Caller
from local.protocol.envelope import Envelope


def caller_of(envelope: Envelope[Any]) -> Caller:
    """The caller of a request on a server without accounts, where the tenant is `default`."""
    return Caller(
        user=envelope.user,
        agent=envelope.source or None,
        session_id=envelope.session_id,
        query_id=envelope.query_id,
    )
