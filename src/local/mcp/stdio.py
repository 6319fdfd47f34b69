"""`local2 mcp` over standard input and output: one client, from its first request to its last.

The client's end closes when it is gone, however it went, and the server ends with it.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from mcp.server.stdio import stdio_server

from local.mcp.opening import Opening
from local.mcp.server import serving
from local.settings import Settings

LONGEST = 64 * 1024 * 1024
"""Bytes of one message."""


async def serve(settings: Settings, opening: Opening) -> None:
    """Serve the client whose first request was answered, until it is gone."""
    async with (
        serving(settings) as server,
        _wire(opening) as (lines, replies),
        stdio_server(lines, replies) as (read, write),  # type: ignore[arg-type] # what it uses of files
    ):
        await server.run(read, write, server.create_initialization_options())


class _Lines:
    """The client's messages, a line each, from the one on that was read already."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader

    def __aiter__(self) -> AsyncIterator[str]:
        return self._each()

    async def _each(self) -> AsyncIterator[str]:
        with suppress(ConnectionError):
            while line := await self._reader.readline():
                yield line.decode("utf-8", "replace")


class _Replies:
    """Messages to the client, without the reply that it has had before."""

    def __init__(self, writer: asyncio.StreamWriter, answered: str | int | None) -> None:
        self._writer = writer
        self._answered = answered

    async def write(self, line: str) -> None:
        if self._answered is not None and _answers(line, self._answered):
            self._answered = None
            return
        self._writer.write(line.encode())

    async def flush(self) -> None:
        with suppress(ConnectionError):  # the client is gone, as the next line will tell
            await self._writer.drain()


def _answers(line: str, request: str | int) -> bool:
    message = json.loads(line)
    return "method" not in message and message.get("id") == request


@asynccontextmanager
async def _wire(opening: Opening) -> AsyncIterator[tuple[_Lines, _Replies]]:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=LONGEST)
    reader.feed_data(opening.read)
    incoming, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(opening.incoming, "rb")
    )
    outgoing, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, os.fdopen(opening.outgoing, "wb")
    )
    try:
        writer = asyncio.StreamWriter(outgoing, protocol, None, loop)
        yield _Lines(reader), _Replies(writer, opening.answered)
    finally:
        incoming.close()
        outgoing.close()
