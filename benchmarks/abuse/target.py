"""The stack that is abused: how to query, kill and restart it, and how to count its losses."""

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import msgspec
import nats
import nats.errors
import nats.js.errors
from nats.aio.client import Client

from abuse.kept import Kept
from abuse.probed_stack import STALLS
from harness.client import Asker
from harness.footprint import main_process
from harness.processes import data_dir, running_stack
from local2.agents.memory_agent import NAME
from local2.bus.streams import dead_letters_stream, turns_stream
from local2.protocol import subjects
from local2.protocol.envelope import decode
from local2.protocol.payloads import ToolResult

TIMEOUT = 120.0
POLL = 0.1
RECONNECT = 0.05
PROBED = Path(__file__).parent / "probed_stack.py"
PENDING = 512 * 1024 * 1024
"""Bytes that the client buffers while a server is down or slow: the flood is the client's own."""


class Claim(NamedTuple):
    """What an abuse has done, and how much of it was acknowledged.

    `missing` counts what was acknowledged but is not stored, once everything has settled.
    """

    done: int
    acknowledged: int
    missing: Callable[[], Awaitable[int]]


class Abuse(NamedTuple):
    """One row: what is done to the target."""

    name: str
    work: "Callable[[Target], Awaitable[Claim]]"


class Target:
    """A stack in a separate folder, with one client. Made by `target_in`."""

    def __init__(self, folder: Path, port: int, part: float) -> None:
        self.data = data_dir(folder)
        self.kept = Kept(self.data / "ledger.sqlite3")
        self.log = folder / "stack.log"
        self.stalls = folder / "stalls.txt"
        self.url = f"nats://127.0.0.1:{port}"
        self.client: Client
        self._folder = folder
        self._port = port
        self._part = part
        self._stack = AsyncExitStack()

    def count(self, whole: int) -> int:
        """Return the number to do: the part of the benchmark that is run."""
        return max(1, round(whole * self._part))

    async def start(self) -> None:
        probed = {STALLS: str(self.stalls)}
        await self._stack.enter_async_context(
            running_stack(self._folder, port=self._port, script=PROBED, environment=probed)
        )

    async def stop(self) -> None:
        await self._stack.aclose()

    async def restart_killed(self) -> None:
        """Kill the stack as a power cut would, and restart it."""
        os.kill(self.process(), signal.SIGKILL)
        await self.stop()
        await self.start()

    def process(self) -> int:
        """The stack's main process."""
        process = main_process(self.data)
        assert process is not None, self.log.read_text(encoding="utf-8")
        return process

    async def connect(self) -> None:
        self.client = await nats.connect(
            self.url,
            max_reconnect_attempts=-1,
            reconnect_time_wait=RECONNECT,
            pending_size=PENDING,
            error_cb=_expected,
        )

    async def ask(self, tool: str, user: str, /, **args: object) -> ToolResult | None:
        """Return a tool's answer; None if there is none."""
        return await self.request(subjects.tool_request(tool), envelope(user, {"args": args}))

    async def request(
        self, subject: str, data: bytes, *, within: float = TIMEOUT
    ) -> ToolResult | None:
        """Return the answer to a request; None if there is none."""
        try:
            answer = await self.client.request(subject, data, timeout=within)
        except (nats.errors.Error, TimeoutError):
            return None
        return decode(answer.data, ToolResult).payload

    async def stored(self, subject: str, data: bytes, *, within: float = TIMEOUT) -> int | None:
        """Return JetStream's sequence number for a message; None if it did not acknowledge it."""
        try:
            return (await self.client.jetstream().publish(subject, data, timeout=within)).seq
        except (nats.js.errors.Error, nats.errors.Error, TimeoutError):
            return None

    async def letters(self) -> set[int]:
        """Return the numbers, in the stream of turns, of the messages that became dead letters."""
        stream, found, sequence = dead_letters_stream("default"), set[int](), 0
        while True:
            try:
                letter = await self.client.jsm().get_msg(
                    stream, seq=sequence + 1, subject=subjects.MEMORY_DEAD_LETTER, next=True
                )
            except nats.js.errors.NotFoundError:
                return found
            sequence = letter.seq or 0
            number = (letter.headers or {}).get("Nats-Msg-Id")
            found |= {int(number)} if number else set()

    async def settled(self, within: float) -> bool:
        """Wait until no turn waits and every record is indexed; False: it took too long."""
        until = time.perf_counter() + within
        while time.perf_counter() < until:
            if await self._is_settled():
                return True
            await asyncio.sleep(POLL)
        return False

    async def _is_settled(self) -> bool:
        try:
            turns = await self.client.jsm().consumer_info(turns_stream("default"), NAME)
            status = await Asker(self.client).status()
        except (nats.js.errors.Error, nats.errors.Error, TimeoutError):
            return False
        indexed = status.waiting == 0 and status.in_index == status.indexed
        stored = turns.num_pending == 0 and turns.num_ack_pending == 0
        return stored and status.vectors_available and indexed


def envelope(user: str, payload: object) -> bytes:
    """Return a message in a user's name, as sent over the bus."""
    return msgspec.json.encode({"user": user, "session_id": "s1", "payload": payload})


def turn(user: str, query_id: str, query: str, answer: str) -> bytes:
    """Return a turn as another agent would publish it."""
    return envelope(user, {"query": query, "answer": answer, "query_id": query_id})


@asynccontextmanager
async def target_in(folder: Path, part: float) -> AsyncIterator[Target]:
    """Run a stack, on a port that it keeps over its restarts, with a client."""
    target = Target(folder, free_port(), part)
    await target.start()
    try:
        await target.connect()
        yield target
        await target.client.close()
    finally:
        await target.stop()


def free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


async def _expected(_error: Exception) -> None:
    """Ignore the refusals of a server that is down."""
