"""nats-py's client, which goes on where one message cannot be read.

The server passes on whatever bytes are published as headers, subject or reply. Where they are not
UTF-8, nats-py stops reading from its connection, for good and without a word to whoever waits.
"""

from typing import Any

import structlog
from nats.aio.client import Client
from nats.aio.msg import Msg

REQUEST_INFO = b"Nats-Request-Info"
"""What the server appends to headers without an end gets into their last line, behind one of the
sender's own making: headers that have the name twice say nothing."""

log = structlog.get_logger()


class TolerantClient(Client):
    """Reads what can be read of a message's headers, and drops one that nobody can name."""

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        if headers and headers.count(REQUEST_INFO) > 1:
            log.warning("headers_not_read", reason="They say twice who asks.")
            return None
        try:
            read: dict[str, str] | None = await super()._process_headers(headers)
        except (UnicodeDecodeError, IndexError) as error:
            log.warning("headers_not_read", reason=type(error).__name__)
            _, _, lines = (headers or b"").partition(b"\r\n")
            return self._parse_header_lines(lines) or None
        return read

    def _build_message(self, sid: int, subject: bytes, reply: bytes, *rest: Any) -> Msg | None:
        try:
            message: Msg = super()._build_message(sid, subject, reply, *rest)
        except UnicodeDecodeError:
            log.warning("message_dropped", reason="Its subject or its reply is not UTF-8.")
            return None
        return message
