"""`local2 mcp` over standard input and output, for one client.

The input closes when the client ends, however it ends, and the server ends then, too.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress

from mcp.server.stdio import stdio_server

from local2.mcp.messages import UnreadableMessageError, readable
from local2.mcp.opening import Opening
from local2.mcp.server import serving
from local2.settings import Settings

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
"""Maximum bytes of one message."""


async def serve(settings: Settings, opening: Opening) -> None:
    """Serve the client whose first request was answered, until it ends."""
    async with serving(settings) as server:
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(limit=MAX_MESSAGE_BYTES)
        reader.feed_data(opening.read)
        incoming, _ = await loop.connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(opening.incoming, "rb")
        )
        outgoing, protocol = await loop.connect_write_pipe(
            asyncio.streams.FlowControlMixin, os.fdopen(opening.outgoing, "wb")
        )
        try:
            writer = asyncio.StreamWriter(outgoing, protocol, None, loop)
            replies = _Replies(writer, opening.answered)
            lines = _Lines(reader, replies)
            async with stdio_server(lines, replies) as (read, write):  # type: ignore[arg-type] # all it uses of files
                await server.run(read, write, server.create_initialization_options())
        finally:
            incoming.close()
            outgoing.close()


class _Lines:
    """The client's messages, one per line, beginning with what the opening has read.

    Lines that are not messages are answered here: the SDK only logs them, and the client would wait
    for ever.
    """

    def __init__(self, reader: asyncio.StreamReader, replies: "_Replies") -> None:
        self._reader = reader
        self._replies = replies

    async def __aiter__(self) -> AsyncIterator[str]:
        with suppress(ConnectionError):
            while line := await self._reader.readline():
                if not line.strip():
                    continue
                try:
                    yield readable(line).decode()
                except UnreadableMessageError as error:
                    await self._replies.write(f"{error.reply}\n")
                    await self._replies.flush()


class _Replies:
    """Messages to the client, except the reply to its first request, which it has received."""

    def __init__(self, writer: asyncio.StreamWriter, answered: str | int | None) -> None:
        self._writer = writer
        self._answered = answered

    async def write(self, line: str) -> None:
        if self._answered is not None:
            message = json.loads(line)
            if "method" not in message and message.get("id") == self._answered:
                self._answered = None
                return
        if not self._writer.is_closing():  # the client may be gone: uvloop raises an error then
            self._writer.write(line.encode())

    async def flush(self) -> None:
        with suppress(ConnectionError):  # the client is gone, as the next read shows
            await self._writer.drain()
