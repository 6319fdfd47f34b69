"""`local2 mcp` over standard input and output: one client, from its first request to its last.

The input closes when the client ends, in whatever way, and the server ends then, too.
"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from mcp.server.stdio import stdio_server
from mcp_types import INVALID_REQUEST, PARSE_ERROR, jsonrpc_message_adapter

from local.mcp.opening import Opening
from local.mcp.server import serving
from local.settings import Settings

LONGEST = 64 * 1024 * 1024
"""Bytes of one message."""


async def serve(settings: Settings, opening: Opening) -> None:
    """Serve the client whose first request was answered, until it ends."""
    async with (
        serving(settings) as server,
        _wire(opening) as (lines, replies),
        stdio_server(lines, replies) as (read, write),  # type: ignore[arg-type] # what it uses of files
    ):
        await server.run(read, write, server.create_initialization_options())


class _Lines:
    """The client's messages, a line each, after the one that was read already.

    A line that is no message is answered here: the SDK only logs it, and its sender would wait
    without end.
    """

    def __init__(self, reader: asyncio.StreamReader, replies: "_Replies") -> None:
        self._reader = reader
        self._replies = replies

    def __aiter__(self) -> AsyncIterator[str]:
        return self._each()

    async def _each(self) -> AsyncIterator[str]:
        with suppress(ConnectionError):
            while line := await self._reader.readline():
                text = line.decode("utf-8", "replace")
                if _is_message(text) or _is_message(text := _whole(text)):
                    yield text
                elif text.strip():
                    await self._replies.write(_refusal(text))
                    await self._replies.flush()


def _is_message(line: str) -> bool:
    try:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValueError:
        return False
    return True


def _whole(line: str) -> str:
    """Return the line without halves of surrogate pairs, which JavaScript makes of cut texts."""
    try:
        message = json.dumps(json.loads(line), ensure_ascii=False)
    except (ValueError, RecursionError):
        return line
    return message.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _refusal(line: str) -> str:
    code, request, problem = PARSE_ERROR, None, "it is not JSON"
    with suppress(ValueError, RecursionError):
        message = json.loads(line)
        code, problem = INVALID_REQUEST, "it is no request of JSON-RPC 2.0"
        if isinstance(message, dict) and type(message.get("id")) in {int, str}:
            request = message["id"]
    error = {"code": code, "message": f"The line cannot be read: {problem}."}
    return json.dumps({"jsonrpc": "2.0", "id": request, "error": error}) + "\n"


class _Replies:
    """Messages to the client, without the first reply, which it has received already."""

    def __init__(self, writer: asyncio.StreamWriter, answered: str | int | None) -> None:
        self._writer = writer
        self._answered = answered

    async def write(self, line: str) -> None:
        if self._answered is not None and _answers(line, self._answered):
            self._answered = None
            return
        self._writer.write(line.encode())

    async def flush(self) -> None:
        with suppress(ConnectionError):  # the client is gone, as the next read shows
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
        replies = _Replies(writer, opening.answered)
        yield _Lines(reader, replies), replies
    finally:
        incoming.close()
        outgoing.close()
