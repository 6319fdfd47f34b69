"""The load during faults, and a count of what is stored afterwards.

Each write is repeated until it is acknowledged: when an answer is lost with a process, a client
repeats its request, and a repeated write must not be stored twice.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from itertools import count
from random import Random

import msgspec

from abuse.target import envelope, turn
from faults.target import ANSWER_TIMEOUT, FaultTarget
from local2.protocol import subjects

USER = "load"
WRITE_INTERVAL = 0.25
"""Seconds between the writes of one writer."""
RETRY_INTERVAL = 0.1
"""Seconds until a write that was not acknowledged is repeated."""
STORE_TIMEOUT = 20.0
"""Seconds that a turn may take from JetStream to the ledger."""
POLL = 0.1


class Balance(msgspec.Struct, frozen=True, kw_only=True):
    """What was acknowledged, and which of it is missing or stored more than once."""

    acknowledged: int
    lost: frozenset[str]
    doubled: frozenset[str]


class Load:
    """Three writers and a reader, run by `running`."""

    def __init__(self, target: FaultTarget, seed: int) -> None:
        self._target = target
        self._random = Random(seed)  # noqa: S311 - which note is looked for
        self._notes: list[str] = []
        self._acknowledged: dict[str, set[str]] = {"note": set(), "message": set(), "turn": set()}
        self.answers: Counter[str] = Counter()
        """The reader's answers: `found`, `not found`, or an error code."""

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        works = (
            self._write("note", self._save),
            self._write("message", self._say),
            self._write("turn", self._publish),
            self._read(),
        )
        tasks = [asyncio.create_task(work) for work in works]
        try:
            yield
        finally:
            # nats-py loses a cancellation that arrives together with an answer.
            while running := [task for task in tasks if not task.done()]:
                for task in running:
                    task.cancel()
                await asyncio.wait(running, timeout=RETRY_INTERVAL)
            for task in tasks:
                with suppress(asyncio.CancelledError):
                    await task

    @property
    def acknowledged(self) -> int:
        return sum(map(len, self._acknowledged.values()))

    async def balance(self) -> Balance:
        """Compare with the ledger, after a time for storing what JetStream acknowledged."""
        expected = {kind: set(names) for kind, names in self._acknowledged.items()}
        deadline = asyncio.get_running_loop().time() + STORE_TIMEOUT
        while True:
            there = await self._there()
            lost = {name for kind, names in expected.items() for name in names - there[kind].keys()}
            if not lost or asyncio.get_running_loop().time() > deadline:
                break
            await asyncio.sleep(POLL)
        twice = {name for copies in there.values() for name, times in copies.items() if times > 1}
        return Balance(
            acknowledged=sum(map(len, expected.values())),
            lost=frozenset(lost),
            doubled=frozenset(twice),
        )

    async def _there(self) -> dict[str, dict[str, int]]:
        kept = self._target.kept
        whole, turns = await kept.turns(USER), await kept.copies_of_turns(USER)
        return {
            "note": await kept.copies(USER, "note"),
            "message": await kept.copies(USER, "chat_message"),
            "turn": {query_id: times for query_id, times in turns.items() if query_id in whole},
        }

    async def _write(self, kind: str, store: Callable[[str], Awaitable[bool]]) -> None:
        for number in count():
            name = f"{kind} {number} is about w{number}x{self._random.randrange(16**6):06x}"
            while not await store(name):  # noqa: ASYNC110 - nobody says when it might work
                await asyncio.sleep(RETRY_INTERVAL)
            self._acknowledged[kind].add(name)
            if kind == "note":
                self._notes.append(name)
            await asyncio.sleep(WRITE_INTERVAL)

    async def _save(self, text: str) -> bool:
        return await self._tool("save_memory", content=text) == "ok"

    async def _say(self, text: str) -> bool:
        return await self._tool("ingest", messages=[{"role": "user", "content": text}]) == "ok"

    async def _publish(self, text: str) -> bool:
        data = turn(USER, text, f"What is {text}?", f"It is {text}.")
        subject = subjects.RESPONSE_GENERATION
        return await self._target.stored(subject, data, within=ANSWER_TIMEOUT) is not None

    async def _tool(self, tool: str, **args: object) -> str:
        request, data = subjects.tool_request(tool), envelope(USER, {"args": args})
        result = await self._target.request(request, data, within=ANSWER_TIMEOUT)
        if result is None:
            return "no answer"
        return "ok" if result.error is None else result.error.code

    async def _read(self) -> None:
        """Search for notes: every answer must include a note acknowledged earlier."""
        while True:
            if self._notes:
                self.answers[await self._look(self._random.choice(self._notes))] += 1
            await asyncio.sleep(WRITE_INTERVAL)

    async def _look(self, note: str) -> str:
        request = subjects.tool_request("search_memory")
        data = envelope(USER, {"args": {"query": note}})
        result = await self._target.request(request, data, within=2 * ANSWER_TIMEOUT)
        if result is None:
            return "no answer"
        if result.error is not None:
            return result.error.code
        return "found" if note in result.content else "not found"
