"""The client of nats-py, except that it takes the server's word for who asks only from the server.

The server writes `Nats-Request-Info` at the end of what a client sends, without looking at how that
ends: behind a last line without a line break its header becomes a part of that line. nats-py takes
blanks from names, so a look-alike further up would be believed instead.
"""

from nats.aio.client import Client

REQUEST_INFO = "Nats-Request-Info"
_BREAK = b"\r\n"


class CarefulClient(Client):
    """Believes `Nats-Request-Info` only where the server writes it: on a last line of its own."""

    async def _process_headers(self, headers: bytes | None) -> dict[str, str] | None:
        read: dict[str, str] | None = await super()._process_headers(headers)
        if not read or not headers:
            return read
        read.pop(REQUEST_INFO, None)
        last = bytes(headers).removesuffix(_BREAK * 2).rpartition(_BREAK)[2]
        name, _, value = last.partition(b":")
        if name == REQUEST_INFO.encode():
            read[REQUEST_INFO] = value.strip().decode("utf-8", "replace")
        return read or None
