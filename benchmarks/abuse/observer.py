"""What another user notices of an abuse, measured by a script so that no load shares its process.

Its arguments are the bus's address and the stack's data folder. For each line on standard input,
it prints what it has observed since the last one.
"""

import asyncio
import itertools
import os
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import msgspec
import nats
import nats.errors
import uvloop
from nats.aio.client import Client

from harness.client import request_as
from harness.footprint import stack_memory
from harness.processes import IMPORTS
from local2.protocol import subjects
from local2.protocol.envelope import decode
from local2.protocol.payloads import ToolResult

USER = "observer"
BEAT = 0.002
ASKED_APART = 0.02
SAMPLED_APART = 0.05
LOOK = 0.1
"""Seconds between checks whether the server that was asked is still the same."""
PATIENCE = 120.0
PING = subjects.discovery("PING", "memory_agent")
NOBODY = "benchmark.nobody"
TOPIC, TOLD = "user.language_preference", "Elixir"


class Observed(msgspec.Struct, kw_only=True):
    """The longest times, in seconds, and peak memory, in bytes, since the last look.

    An operation in progress at a look counts with its duration so far, and then starts anew.
    """

    ping: float = 0.0
    """Until the stack's loop answered a ping, repeated as long as there was no responder."""
    answer: float = 0.0
    """Until `recall_topic` or `recall` succeeded, repeated after errors."""
    server: float = 0.0
    """Until nats-server reported no responders for a subject: its share of `ping`."""
    own: float = 0.0
    """How late this process itself woke: the machine's share of `ping`."""
    refused: int = 0
    """Tool answers that were errors."""
    memory: int = 0


class Watch:
    """Repeats the measurements continuously."""

    def __init__(self, client: Client, folder: Path) -> None:
        self._client = client
        self._folder = folder
        self._begun: dict[str, float] = {}
        self._seen = Observed()
        self._questions = itertools.cycle(
            (
                ("recall_topic", request_as(USER, topic=TOPIC)),
                ("recall", request_as(USER, query="Which language do I prefer?")),
            )
        )

    def take(self) -> Observed:
        """Return what was observed since the last call."""
        for name, begun in self._begun.items():
            self._note(name, begun)
        taken, self._seen = self._seen, Observed(memory=sum(stack_memory(self._folder)))
        self._begun = dict.fromkeys(self._begun, time.perf_counter())
        return taken

    async def run(self) -> None:
        """Measure until cancelled."""
        await asyncio.gather(
            self._repeat("ping", self._ping, BEAT),
            self._repeat("answer", self._ask, ASKED_APART),
            self._repeat("server", self._reach_server, BEAT),
            self._wake(),
            self._sample(),
        )

    async def _repeat(self, name: str, work: Callable[[], Awaitable[object]], pause: float) -> None:
        """Measure repeatedly, into this field of `Observed`."""
        while True:
            self._begun[name] = time.perf_counter()
            await work()
            self._note(name, self._begun.pop(name))
            await asyncio.sleep(pause)

    def _note(self, name: str, begun: float) -> None:
        lasted = time.perf_counter() - begun
        setattr(self._seen, name, max(getattr(self._seen, name), lasted))

    async def _ping(self) -> None:
        await self._served(PING, b"")

    async def _ask(self) -> None:
        tool, data = next(self._questions)
        subject = subjects.tool_request(tool)
        while not decode(await self._served(subject, data), ToolResult).payload.ok:
            self._seen.refused += 1
            await asyncio.sleep(BEAT)

    async def _reach_server(self) -> None:
        with suppress(nats.errors.NoRespondersError):
            await self._answer(NOBODY, b"")

    async def _wake(self) -> None:
        while True:
            begun = time.perf_counter()
            await asyncio.sleep(BEAT)
            self._seen.own = max(self._seen.own, time.perf_counter() - begun - BEAT)

    async def _sample(self) -> None:
        while True:
            self._seen.memory = max(self._seen.memory, sum(stack_memory(self._folder)))
            await asyncio.sleep(SAMPLED_APART)

    async def _served(self, subject: str, data: bytes) -> bytes:
        while True:
            try:
                return await self._answer(subject, data)
            except nats.errors.NoRespondersError:
                await asyncio.sleep(BEAT)

    async def _answer(self, subject: str, data: bytes) -> bytes:
        """Ask until somebody answers; start over once another server has replaced the one asked."""
        while True:
            reconnects = self._client.stats["reconnects"]
            asking = asyncio.ensure_future(self._client.request(subject, data, timeout=PATIENCE))
            try:
                while not (await asyncio.wait((asking,), timeout=LOOK))[0]:
                    if self._client.stats["reconnects"] != reconnects:
                        asking.cancel()
            except asyncio.CancelledError:  # by the watch: nobody waits for the answer
                asking.cancel()
                raise
            try:
                return (await asking).data
            except nats.errors.NoRespondersError:
                raise
            except (nats.errors.Error, TimeoutError, asyncio.CancelledError):
                await asyncio.sleep(BEAT)


class Observer:
    """The process of this script, as seen by its parent. Made by `observing`."""

    def __init__(self, lines: asyncio.StreamReader, asking: asyncio.StreamWriter) -> None:
        self._lines = lines
        self._asking = asking

    async def look(self) -> Observed:
        """Return what it has observed since the last look."""
        self._asking.write(b"\n")
        line = await self._lines.readline()
        assert line, "The observer has ended; standard error says why."
        return msgspec.json.decode(line, type=Observed)


@asynccontextmanager
async def observing(url: str, folder: Path) -> AsyncIterator[Observer]:
    """Run an observer of the stack on this data folder until the context ends."""
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        __file__,
        url,
        folder,
        stdin=pipe,
        stdout=pipe,
        env={**os.environ, **IMPORTS},
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Observer(process.stdout, process.stdin)
    finally:
        process.stdin.close()
        await process.wait()


async def observe(url: str, folder: Path) -> None:
    """Observe until standard input closes."""
    client = await nats.connect(
        url, max_reconnect_attempts=-1, reconnect_time_wait=BEAT, error_cb=_expected
    )
    told = request_as(USER, topic=TOPIC, content=TOLD)
    await client.request(subjects.tool_request("save_topic"), told, timeout=PATIENCE)
    lines = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(lines), sys.stdin
    )
    watch = Watch(client, folder)
    watching = asyncio.create_task(watch.run())
    async for _ in lines:
        print(msgspec.json.encode(watch.take()).decode(), flush=True)
    watching.cancel()
    with suppress(asyncio.CancelledError):
        await watching
    await client.close()


async def _expected(_error: Exception) -> None:
    """Ignore the refusals of a server that is down."""


if __name__ == "__main__":
    uvloop.run(observe(sys.argv[1], Path(sys.argv[2])))
