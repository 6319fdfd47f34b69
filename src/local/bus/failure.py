"""An answer that is an error, of who serves no tool."""

from local.bus.subscription import Headers
from local.errors import Local2Error
from local.protocol.codec import encode
from local.protocol.envelope import seal
from local.protocol.payloads import ErrorReply

ERROR_CODE = "Nats-Service-Error-Code"


def failure(error: Local2Error, *, source: str) -> tuple[bytes, Headers]:
    """Data and headers of the answer."""
    reply = ErrorReply(code=error.code, message=str(error))
    return encode(seal(reply, type="error", source=source)), {ERROR_CODE: error.code}
