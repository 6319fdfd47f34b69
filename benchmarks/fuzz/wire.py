"""A connection to nats-server that sends arbitrary bytes and collects the answers."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import NamedTuple
from urllib.parse import urlsplit

CONNECT = b'CONNECT {"verbose": false, "headers": true, "no_responders": true, "lang": "fuzz"}\r\n'
INBOX = b"_INBOX.fuzz."
LIMIT = 4 * 1024 * 1024
"""Maximum bytes of one line or message that are read."""
MESSAGE = re.compile(rb"(?:MSG \S+ \d+|HMSG \S+ \d+ (\d+)) (\d+)\r\n")
NO_RESPONDERS = b"NATS/1.0 503"


class Answer(NamedTuple):
    """An answer, with its headers in wire format."""

    headers: bytes
    data: bytes

    @property
    def is_nobodys(self) -> bool:
        """Whether the server says that nobody serves the subject."""
        return self.headers.startswith(NO_RESPONDERS)


class Wire:
    """A connection made by `wired`; `answers` has those to each request, by its number."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.answers: dict[int, list[Answer]] = {}
        self._waiting: set[int] = set()
        self._reader = reader
        self._writer = writer
        self._pongs: asyncio.Queue[None] = asyncio.Queue()
        self._came = asyncio.Event()

    async def send(
        self, subject: bytes, data: bytes, *, reply: bytes = b"", headers: bytes | None = None
    ) -> None:
        """Publish a message, well formed or not."""
        sizes = (
            b"%d" % len(data)
            if headers is None
            else b"%d %d"
            % (
                len(headers),
                len(headers) + len(data),
            )
        )
        verb = b"PUB" if headers is None else b"HPUB"
        self._writer.write(
            b"%s %s %s %s\r\n%s%s\r\n" % (verb, subject, reply, sizes, headers or b"", data)
        )
        await self._writer.drain()

    async def request(self, subject: bytes, data: bytes, headers: bytes | None = None) -> int:
        """Publish a request; return its number."""
        number = len(self.answers)
        self.answers[number] = []
        self._waiting.add(number)
        await self.send(subject, data, reply=INBOX + b"%d" % number, headers=headers)
        return number

    async def answered(self, most: int, within: float) -> bool:
        """Wait until at most this many requests are unanswered; False: it took longer."""
        with suppress(TimeoutError):
            async with asyncio.timeout(within):
                while len(self._waiting) > most:
                    self._came.clear()
                    await self._came.wait()
                return True
        return False

    async def flush(self) -> None:
        """Return when the server has received everything sent so far."""
        self._writer.write(b"PING\r\n")
        await self._pongs.get()

    async def listen(self) -> None:
        """Read what the server sends, until the connection ends."""
        while line := await self._reader.readline():
            if sizes := MESSAGE.fullmatch(line):
                await self._take(line, int(sizes[1] or 0), int(sizes[2]))
            elif line.startswith(b"PING"):
                self._writer.write(b"PONG\r\n")
            elif line.startswith(b"PONG"):
                self._pongs.put_nowait(None)

    async def _take(self, line: bytes, of_headers: int, size: int) -> None:
        content = (await self._reader.readexactly(size + 2))[:-2]
        number = int(line.split(b" ")[1].removeprefix(INBOX))
        self.answers[number].append(Answer(content[:of_headers], content[of_headers:]))
        self._waiting.discard(number)
        self._came.set()


@asynccontextmanager
async def wired(url: str) -> AsyncIterator[Wire]:
    """Connect, and collect answers until the context ends."""
    address = urlsplit(url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port, limit=LIMIT)
    await reader.readline()  # INFO
    writer.write(CONNECT + b"SUB " + INBOX + b"* 1\r\n")
    wire = Wire(reader, writer)
    listening = asyncio.create_task(wire.listen())
    try:
        await wire.flush()
        yield wire
    finally:
        listening.cancel()
        writer.close()
        with suppress(OSError, asyncio.CancelledError):
            await writer.wait_closed()
            await listening
