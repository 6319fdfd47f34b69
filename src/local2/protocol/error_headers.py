"""The headers of an answer that reports an error, as NATS services write them."""

import math

from local2.protocol.payloads import ErrorReply

SERVICE_ERROR = "Nats-Service-Error"
"""The header that NATS services use to report a failure."""
ERROR_CODE = "Nats-Service-Error-Code"
RETRY_AFTER = "Retry-After"
"""The header with whole seconds, as in HTTP; the error in the answer has the exact value."""
MAX_HEADER = 256
"""Maximum characters of a header's value; the answer contains the whole error message."""


def error_headers(error: ErrorReply) -> dict[str, str]:
    """The headers with the error's message and code, and when to retry."""
    headers = {SERVICE_ERROR: header_value(error.message), ERROR_CODE: str(error.code)}
    if error.retry_after is not None:
        headers[RETRY_AFTER] = str(math.ceil(error.retry_after))
    return headers


def header_value(text: str) -> str:
    """Write a text as one line of ASCII, because some servers otherwise drop all headers."""
    line = " ".join(text.split()).replace("\u2026", "...")
    return line.encode("ascii", "replace").decode()[:MAX_HEADER]
